"""Environments that fail while a run is verified: that is told as what it is, and is no verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import srgdqn
from host_environments import SMALL, Slope
from srgdqn.adapters.failures import EnvironmentFailedError
from srgdqn.cli import main


class Worn(Slope):
    """A slope that breaks once it was walked on for long enough."""

    walked, holds = 0, 10**9

    def step(self, action: Any) -> tuple[Any, ...]:
        Worn.walked += 1
        if Worn.walked > Worn.holds:
            raise RuntimeError("the slope has slid")
        return super().step(action)


@pytest.fixture
def worn(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(Worn, "walked", 0)
    return monkeypatch


def trained(folder: Path) -> None:
    srgdqn.train(Worn, **{**SMALL, "steps": 96, "evaluation_interval": None}, progress=False, out=folder)


@pytest.mark.parametrize("which", ["all", 0])
def test_a_failure_is_neither_an_interrupt_nor_a_difference(
    which: int | str, worn: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trained(tmp_path / "run")
    worn.setattr(Worn, "holds", Worn.walked + 50)
    with pytest.raises(EnvironmentFailedError, match=r"round 0 could not be recomputed: .*the slope has slid"):
        srgdqn.verify(tmp_path / "run", which, environment=Worn, progress=False)
    worn.setattr(Worn, "holds", 10**9)
    assert srgdqn.verify(tmp_path / "run", which, environment=Worn, progress=False).verdict == "identical"


def test_a_run_that_failed_fails_again_at_the_same_step(worn: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Which is what it was, so that it is verified."""
    worn.setattr(Worn, "holds", 50)
    with pytest.raises(EnvironmentFailedError):
        trained(tmp_path / "run")
    assert srgdqn.load(tmp_path / "run").rounds["steps"].to_list() == [48]
    worn.setattr(Worn, "walked", 0)
    assert srgdqn.verify(tmp_path / "run", 0, environment=Worn, progress=False).verdict == "identical"


def test_a_command_that_an_environment_failed_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(words: list[str]) -> int:
        raise EnvironmentFailedError("round 0 could not be recomputed: the slope has slid")

    monkeypatch.setattr("srgdqn.cli._run", fail)
    assert main(["verify", "run"]) == 1
    assert capsys.readouterr().err == "error: round 0 could not be recomputed: the slope has slid\n"
