"""Turns of timing: who has them, what is counted, and that they never run out."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from srgdqn.paper.measurements import step_times
from srgdqn.paper.measurements.step_times import Plan, measure
from srgdqn.training.lane import STEPPED
from srgdqn.training.loop import Segment, segments
from tiny import BLOCK, LANES, tiny

pytestmark = pytest.mark.usefixtures("double")

BLOCKS = 7


def plan(turns: int, **options: Any) -> Plan:
    """Two configurations that differ in numbers alone, and so share a program."""
    configurations = {name: tiny(**options, gamma=gamma)[0] for name, gamma in (("far", 0.9), ("near", 0.1))}
    return Plan(configurations, turns, BLOCKS)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, Segment]]:
    """Every segment that is run, with γ of its configuration; of made-up duration."""
    seen: list[tuple[float, Segment]] = []

    def watched(rounds: Any, **others: Any) -> Any:
        for segment in segments(rounds, **others):
            number = len(seen)
            seen.append((rounds.configuration.gradients.gamma, segment._replace(train_seconds=2.0**number)))
            yield seen[-1][1]

    monkeypatch.setattr(step_times, "segments", watched)
    return seen


def test_each_has_its_turn_and_time_is_told_per_step_of_one_round(run: list[tuple[float, Segment]]) -> None:
    heard: list[float] = []
    times = measure(plan(turns=3), heard.append, threading.Event())["times"]
    assert times.columns == ["name", "turn", "seconds_per_step"]
    assert times.select("name", "turn").rows() == [(name, turn) for turn in range(3) for name in ("far", "near")]
    # Each runs its first segment before any is timed: those are numbers 0 and 1.
    assert [gamma for gamma, _ in run] == [0.9, 0.1] * 4
    expected = [2.0**number / (BLOCKS * BLOCK * LANES) for number in range(2, 8)]
    assert times["seconds_per_step"].to_list() == expected
    assert heard == pytest.approx([1 / 3, 2 / 3, 1])


@pytest.mark.parametrize("learning_starts", [40, 16 * BLOCKS + 1])
def test_all_lanes_learn_in_every_block_that_is_timed(run: list[tuple[float, Segment]], learning_starts: int) -> None:
    measure(plan(turns=2, learning_starts=learning_starts, steps=400), lambda share: None, threading.Event())
    for _, segment in run[-4:]:
        assert segment.log.loss.shape == (LANES, BLOCKS)
        assert np.isfinite(segment.log.loss).all()
        assert (segment.log.flags & STEPPED).all()
    assert not all(np.isfinite(segment.log.loss).all() for _, segment in run[:-4])


def test_turns_do_not_run_out(run: list[tuple[float, Segment]]) -> None:
    """Neither with the budget, here of twelve blocks, nor because every lane has diverged."""
    options = dict(eta=1e30, steps=200, evaluation_interval=64)
    times = measure(plan(turns=20, **options), lambda share: None, threading.Event())["times"]
    assert times.height == 40
    assert {segment.log.loss.shape[1] for _, segment in run} == {BLOCKS}
    assert np.isfinite(run[-1][1].log.loss).all()
