"""Cells of a study that are ended in their midst go on from their checkpoints, to the same bits."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from cut_short import CutShort, Killed
from srgdqn.config.configure import configure
from srgdqn.errors import InputError
from srgdqn.paper.cells import Console, RunCell, compute
from srgdqn.results.result import Result
from srgdqn.runs.checkpoint_manager import Pace
from tiny import TINY, bits

PACE = Pace(0.0, 1)
STEPS = 3 * 208  # of a cell, with those of a last block that the budget does not fill


def cells() -> list[RunCell]:
    return [RunCell(f"seed-{seed}", configure("CartPole", "dqn-sgd", **TINY, seed=seed, rounds=3)) for seed in range(3)]


def outcome(results: dict[str, Result]) -> dict[str, Any]:
    return {
        name: (
            {table: rows.rows() for table, rows in result.run.tables.items() if table != "timings"},
            bits(dict(result.run.parameters)),
        )
        for name, result in results.items()
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return outcome(compute(cells(), tmp_path_factory.mktemp("whole")))


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> CutShort:
    monkeypatch.setattr("srgdqn.engines.executor.usable_cores", lambda: 1)
    return CutShort(monkeypatch, "srgdqn.session.prepare.train_rounds")


@pytest.mark.parametrize("how", ["kill", "interrupt"])
def test_a_cell_goes_on(how: Any, whole: dict[str, Any], cut: CutShort, tmp_path: Path) -> None:
    """The second of three: the first is finished, and the third may just have begun, before all are told to stop."""
    cut.after, cut.how = 10, how  # of seven segments each
    with pytest.raises((Killed, KeyboardInterrupt)):
        compute(cells(), tmp_path, Console(pace=PACE))
    assert sorted(os.listdir(tmp_path)) == ["seed-0", "unfinished"]
    assert "seed-1" in os.listdir(tmp_path / "unfinished")
    assert "seed-0" not in os.listdir(tmp_path / "unfinished")
    cut.counted()
    assert outcome(compute(cells(), tmp_path)) == whole
    assert STEPS < cut.counted() < 2 * STEPS
    assert sorted(os.listdir(tmp_path)) == ["seed-0", "seed-1", "seed-2"]


class Broken:
    """A cell that raises once another is well under way."""

    name, alone = "broken", False

    def __init__(self) -> None:
        self.other_is_at_work, self.has_failed = threading.Event(), threading.Event()

    def compute(self, *_: Any) -> Any:
        self.other_is_at_work.wait(30)
        self.has_failed.set()
        raise ArithmeticError("a mistake in the program")

    def load(self, folder: Path) -> Any:
        raise NotImplementedError

    save = load


def test_what_was_told_to_stop_because_of_another_goes_on(
    whole: dict[str, Any], cut: CutShort, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is kept then, however rarely it is otherwise."""
    monkeypatch.setattr("srgdqn.engines.executor.usable_cores", lambda: 2)
    broken = Broken()

    def listen(name: str, share: float) -> None:
        if share > 0.4:
            broken.other_is_at_work.set()
            broken.has_failed.wait(30)
            time.sleep(0.2)  # until all are told

    with pytest.raises(ArithmeticError):
        compute([broken, cells()[0]], tmp_path, Console(pace=Pace(3600.0), progress=listen))
    assert os.listdir(tmp_path) == ["unfinished"]
    assert 0 < cut.counted() < STEPS
    assert outcome(compute(cells()[:1], tmp_path)) == {"seed-0": whole["seed-0"]}
    assert 0 < cut.counted() < STEPS


def test_a_cell_whose_question_has_changed_begins_anew(cut: CutShort, tmp_path: Path) -> None:
    cut.after = 3
    with pytest.raises(Killed):
        compute(cells()[:1], tmp_path, Console(pace=PACE))
    cut.counted()
    other = RunCell("seed-0", configure("CartPole", "dqn-sgd", **TINY, seed=7, rounds=3))
    result = compute([other], tmp_path)["seed-0"]
    assert result.configuration.training.seed == 7
    assert cut.counted() == STEPS
    assert os.listdir(tmp_path) == ["seed-0"]


def test_a_cell_that_was_killed_once_it_was_saved_is_read(
    whole: dict[str, Any], cut: CutShort, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between saving it and forgetting its checkpoints, which then go with the others."""

    def killed(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("srgdqn.runs.checkpoint_manager.CheckpointManager.forget", killed)
        with pytest.raises(Killed):
            compute(cells()[:1], tmp_path, Console(pace=PACE))
    assert sorted(os.listdir(tmp_path)) == ["seed-0", "unfinished"]
    cut.counted()
    assert outcome(compute(cells()[:1], tmp_path)) == {"seed-0": whole["seed-0"]}
    assert cut.counted() == 0
    assert os.listdir(tmp_path) == ["seed-0"]


@pytest.mark.parametrize("link", ["unfinished", "unfinished/seed-0"])
def test_nothing_is_computed_where_checkpoints_would_lie_elsewhere(link: str, cut: CutShort, tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "cells", tmp_path / "elsewhere"
    (folder / link).parent.mkdir(parents=True)
    (elsewhere / "seed-0").mkdir(parents=True)
    (folder / link).symlink_to(elsewhere)
    with pytest.raises(InputError, match=f"{link} leads elsewhere"):
        compute(cells()[:1], folder, Console(pace=PACE))
    assert cut.counted() == 0
    assert os.listdir(elsewhere) == ["seed-0"]


def test_a_cell_that_could_not_be_saved_is_saved_once_there_is_room(
    whole: dict[str, Any], cut: CutShort, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without being trained again, however seldom it is kept on the way."""

    def full(*_: Any, **__: Any) -> None:
        raise InputError("there is no space left on the disk. Free some space.")

    with monkeypatch.context() as patched:
        patched.setattr(Result, "save", full)
        with pytest.raises(InputError, match="no space left"):
            compute(cells()[:1], tmp_path, Console(pace=Pace(3600.0)))
    assert cut.counted() == STEPS
    assert outcome(compute(cells()[:1], tmp_path)) == {"seed-0": whole["seed-0"]}
    assert cut.counted() == 0
    assert os.listdir(tmp_path) == ["seed-0"]
