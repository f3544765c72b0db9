"""Whole runs with other targets y: compiled and hosted, they are verified, resumed and traced like any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import srgdqn
from checkpointed_runs import checkpointed_run, hosted_run
from cut_short import Killed
from srgdqn.runs.checkpoint_manager import JobCheckpoints
from tiny import outcome

TARGETS: dict[str, dict[str, Any]] = {
    "by outer iterations": dict(
        target="hard", target_period=2, target_networks=3, bootstrap="munchausen", adam_at_copy="restart-clock"
    ),
    "by steps": dict(
        target="hard",
        target_update_interval=25,
        target_networks=2,
        gradient_steps=2,
        adam_at_copy="reset",
        reward_estimation=True,
    ),
}
RUNS = {"compiled": checkpointed_run, "hosted": hosted_run}


@pytest.fixture(params=RUNS)
def where(request: pytest.FixtureRequest) -> Any:
    return RUNS[request.param]


@pytest.mark.parametrize("name", TARGETS)
def test_a_run_is_resumed_verified_and_traced(
    name: str, where: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"kernel": "auto", **TARGETS[name]}
    whole = where(tmp_path / "whole", **options)
    assert whole.configuration.training.kernel == "xla"
    assert srgdqn.verify(tmp_path / "whole", 0, progress=False).verdict == "identical"
    segments = srgdqn.verify(tmp_path / "whole", 0, how="segments", progress=False)
    assert segments.verdict == "identical"
    replay = srgdqn.replay_round(tmp_path / "whole", 0)
    assert replay.faithful
    assert replay.difference < 1e-5
    np.testing.assert_allclose(replay.iterations["theta_norm"][1:], replay.iterations["after_norm"][:-1], rtol=1e-5)

    saving, saved = JobCheckpoints.save, list[float]()

    def save(checkpoints: JobCheckpoints, snapshot: Any) -> float:
        saved.append(saving(checkpoints, snapshot))
        if len(saved) == 3:
            raise Killed
        return saved[-1]

    monkeypatch.setattr(JobCheckpoints, "save", save)
    with pytest.raises(Killed):
        where(tmp_path / "run", **options)
    assert outcome(where(tmp_path / "run", **options, resume=True)) == outcome(whole)
