"""Whole runs by the kernel: their bits do not depend on how rounds are shared out."""

from __future__ import annotations

import functools
import threading
from typing import Any

import numpy as np
import pytest

from srgdqn.training import Trained, train_rounds
from tiny import bits, tiny

pytestmark = pytest.mark.usefixtures("kernel")


def trained(**options: Any) -> Trained:
    workers = options.pop("workers", 2)
    return train_rounds(*tiny(kernel="native", rounds=11, **options), workers=workers)


def what_is_reproducible(result: Trained) -> dict[str, Any]:
    return {**{name: table for name, table in result.tables.items() if name != "timings"}, **result.policies}


@functools.cache
def evaluated(**options: Any) -> list[Any]:
    """The bits of a run with evaluations."""
    return bits(what_is_reproducible(trained(**{"lanes": 4, "evaluation_interval": 100, **options})))


@pytest.mark.parametrize("options", [dict(lanes=1), dict(lanes=8), dict(lanes=25), dict(workers=1), dict(workers=3)])
def test_neither_lanes_nor_threads_change_a_bit(options: dict[str, Any]) -> None:
    assert evaluated(**options) == evaluated()


def test_the_first_rounds_of_many_are_those_of_few() -> None:
    many = trained(lanes=25).policies
    few = train_rounds(*tiny(kernel="native", rounds=3, lanes=25)).policies
    assert bits(few) == bits({name: array[:3] for name, array in many.items()})


def test_rounds_that_end_early_are_moved_together_and_stay_what_they_are() -> None:
    """With a budget of episodes every round ends when it will."""
    wide, narrow = (trained(lanes=lanes, workers=1, episodes=9, episode_cap=12) for lanes in (25, 2))
    assert len(set(wide.tables["rounds"]["steps"].tolist())) > 1
    assert bits(what_is_reproducible(wide)) == bits(what_is_reproducible(narrow))


def test_a_run_can_be_stopped_between_segments() -> None:
    stop = threading.Event()
    configuration, task = tiny(kernel="native", rounds=2, steps=2_000)
    result = train_rounds(
        configuration, task, segment_blocks=4, stop=stop, listener=lambda progress: stop.set(), workers=1
    )
    assert result.interrupted
    assert 0 < np.max(result.tables["rounds"]["steps"]) < 2_000
