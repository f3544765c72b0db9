"""`train_each`: lanes where tasks are compiled, one after the other where they are not."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from srgdqn.adapters.failures import EnvironmentFailedError
from srgdqn.config import Configuration
from srgdqn.config.configure import configure
from srgdqn.results.result import Result
from srgdqn.session.prepare import PreparedRun
from srgdqn.sweeps import cells as sweep_cells
from srgdqn.training import Progress
from tiny import tiny


def cells() -> list[Configuration]:
    """Two shapes, in turns."""
    return [tiny(rounds=2, eta=eta, batch_size=size)[0] for eta in (0.01, 0.02, 1e6) for size in (4, 5)]


def test_progress_is_that_of_all_cells() -> None:
    found: dict[int, Result] = {}
    progress: list[Progress] = []
    sweep_cells.train_each(cells(), found.__setitem__, listener=progress.append)
    assert sorted(found) == list(range(6))
    assert (progress[-1].share, progress[-1].diverged) == (pytest.approx(1.0), 4)
    assert [report.share for report in progress] == sorted(report.share for report in progress)


def test_an_interrupted_cell_on_the_host_is_not_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = PreparedRun.train, []

    def train(run: PreparedRun, **others: Any) -> Result:
        result = real(run, **others)
        calls.append(run)
        about = {**result.run.provenance, "interrupted": len(calls) == 2}
        return dataclasses.replace(result, run=dataclasses.replace(result.run, provenance=about))

    monkeypatch.setattr(sweep_cells, "PRESETS", {})  # as if the task were stepped on the host
    monkeypatch.setattr(PreparedRun, "train", train)
    found: dict[int, Result] = {}
    with pytest.raises(KeyboardInterrupt):
        sweep_cells.train_each(cells()[:3], found.__setitem__)
    assert list(found) == [0]
    assert len(calls) == 2


def test_a_failed_environment_is_passed_on_and_counts_as_done(failing: Any) -> None:
    found: dict[int, Result] = {}
    failures: dict[int, EnvironmentFailedError] = {}
    progress: list[Progress] = []
    with failing.registered():
        several = [
            configure(failing.name, "dqn-adam", **failing.options, steps=steps)
            for steps in (failing.short, failing.long, failing.short)
        ]
        how: Any = {"failed": failures.__setitem__, "listener": progress.append}
        sweep_cells.train_each(several, found.__setitem__, **how)
        with pytest.raises(EnvironmentFailedError, match="no ball"):
            sweep_cells.train_each(several[1:2], found.__setitem__)
    assert (list(found), list(failures)) == ([0, 2], [1])
    assert failures[1].result.rounds["steps"].to_list() == [32]
    assert progress[-1].share == pytest.approx(1.0)
