"""The same round in every seat at once: each must log and learn the same, to the bit, and the same as it does alone."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from srgdqn import tasks
from srgdqn.config import Configuration
from srgdqn.config.configure import configure
from srgdqn.tasks import Task
from srgdqn.training.program import programs_for
from tiny import lane_segments, tiny

BUDGETS: dict[str, dict[str, int]] = {
    "MountainCar": {"steps": 3_000},
    "Pendulum": {"steps": 3_000},
    "CartPole": {"episodes": 20},
}


def outcomes(configuration: Configuration, task: Task, rounds: list[int]) -> list[dict[str, bytes]]:
    """For every seat, all that was logged, and the state in the end, by path."""
    programs, _ = programs_for(configuration, task)
    found: list[dict[str, bytes]] = [{} for _ in rounds]
    for segment in lane_segments(configuration, programs, rounds, segment_blocks=64):
        lanes = segment.lanes._replace(key=None)
        for path, leaf in jax.tree_util.tree_leaves_with_path((segment.log, segment.evaluation, lanes)):
            name = f"{segment.blocks_done}{jax.tree_util.keystr(path)}"
            for seat, of in enumerate(found):
                of[name] = np.asarray(leaf)[seat].tobytes()
    return found


def differing(configuration: Configuration, task: Task, seats: int) -> dict[int, list[str]]:
    """What differs from the first seat, by seat; and from a round that is alone, as seat -1."""
    first, *others = outcomes(configuration, task, [3] * seats)
    [alone] = outcomes(configuration, task, [3])
    each: list[tuple[int, dict[str, bytes]]] = [(-1, alone), *enumerate(others, start=1)]
    return {seat: names for seat, of in each if (names := [name for name in first if of[name] != first[name]])}


@pytest.mark.parametrize("algorithm", ["srg-dqn", "dqn-adam"])
def test_every_seat_of_a_small_board(algorithm: str, each_kernel: str) -> None:
    configuration, task = tiny(algorithm, lanes=8, kernel=each_kernel)
    assert differing(configuration, task, 8) == {}


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [5, 16, 25])
@pytest.mark.parametrize("hidden", [None, (20, 20)], ids=str)
@pytest.mark.parametrize("algorithm", ["srg-dqn", "svr-dqn", "dqn-sgd", "dqn-adam"])
@pytest.mark.parametrize("task", BUDGETS)
def test_every_seat_of_xlas_boards(task: str, algorithm: str, hidden: tuple[int, ...] | None, lanes: int) -> None:
    shape: dict[str, Any] = {} if hidden is None else {"hidden": hidden}
    configuration = configure(task, algorithm, lanes=lanes, kernel="xla", **BUDGETS[task], **shape)
    assert differing(configuration, tasks.make(configuration.task), lanes) == {}


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["srg-dqn", "dqn-adam"])
@pytest.mark.parametrize("task", BUDGETS)
def test_every_seat_of_the_kernels_teams(task: str, algorithm: str, kernel: None) -> None:
    configuration = configure(task, algorithm, lanes=25, kernel="native", **BUDGETS[task])
    assert differing(configuration, tasks.make(configuration.task), 25) == {}
