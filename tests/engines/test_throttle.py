"""What is told from one machine to another: as often as anybody looks, and nothing is left out."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from srgdqn.engines.throttle import now_and_then
from srgdqn.paper.cells_on_ray import _Work
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.runs.throttle import Throttle
from srgdqn.training.reports import Progress


class Clock:
    """Seconds that pass when they are told to; a machine's begin with 0 when it is started."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        patched.setattr("time.monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.mark.parametrize("at_once", [True, False])
def test_it_is_due_after_so_many_seconds(at_once: bool, clock: Clock) -> None:
    throttle, due = Throttle(0.5, at_once=at_once), []
    for turn in range(21):
        clock.now = turn / 8
        due.append(throttle.due(anyway=turn == 17))
    assert [turn for turn, each in enumerate(due) if each] == [*([0] if at_once else []), 4, 8, 12, 16, 17]


def test_steps_are_told_once_each_and_the_end_in_any_case(clock: Clock) -> None:
    told: list[Any] = []
    listen = now_and_then(told.append)
    for turn in range(10):
        clock.now = turn / 8
        listen(Progress(turn / 10, 7, 0.0, 0, ended=turn == 9))
    assert [progress.steps for progress, _ in told] == [7, 28, 28, 7]
    assert told[-1][0].ended


class Telling:
    """A cell that tells of its share eight times a second."""

    name, alone = "telling", False

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def compute(self, hear: Any, *_: Any) -> str:
        for turn in range(9):
            self.clock.now = turn / 8
            hear(turn / 8)
        return "done"


def test_a_cell_is_heard_of_as_seldom(clock: Clock, tmp_path: Path) -> None:
    told: list[float] = []
    cell: Any = Telling(clock)
    assert _Work(CheckpointManager(tmp_path), None, double=False)(cell, threading.Event(), told.append) == "done"
    assert told == [0.0, 0.5, 1.0]
