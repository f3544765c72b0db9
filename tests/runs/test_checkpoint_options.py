"""What a user may say of how a run is kept."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from srgdqn.errors import InputError
from srgdqn.runs.checkpoint_options import CheckpointOptions
from synthetic_runs import synthetic


@pytest.mark.parametrize("every", [None, 0, 0.5, 3600])
@pytest.mark.parametrize("keep", [None, 1, 100, "all"])
def test_what_can_be_had(every: Any, keep: Any, tmp_path: Path) -> None:
    options = CheckpointOptions(tmp_path / "run", every=every, keep=keep)
    assert options.checked() is options
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("every", [-1, -0.001, math.nan, math.inf])
def test_seconds_are_0_or_more(every: float, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"checkpoint_every is {every}, but must be seconds: 0 or more"):
        CheckpointOptions(tmp_path / "run", every=every).checked()


@pytest.mark.parametrize("keep", [0, -1, 1.5, "some", "2", True])
def test_checkpoints_are_counted_from_1_on(keep: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"keep_checkpoints is {keep!r}\. Give a whole number from 1 on, or 'all'"):
        CheckpointOptions(tmp_path / "run", keep=keep).checked()


def test_a_run_that_is_there_is_replaced_or_gone_on_with_on_request_only(tmp_path: Path) -> None:
    synthetic(rounds=1, steps=2_000).save(tmp_path / "run")
    with pytest.raises(InputError, match="exists already"):
        CheckpointOptions(tmp_path / "run").checked()
    CheckpointOptions(tmp_path / "run", resume=True).checked()
    CheckpointOptions(tmp_path / "run", overwrite=True).checked()
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="is not the folder of a run"):
        CheckpointOptions(tmp_path / "precious", resume=True, overwrite=True).checked()
