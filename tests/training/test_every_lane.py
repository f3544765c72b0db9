"""A round has the same bits in every lane, beside any neighbours, and alone."""

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
    """For every lane, all that was logged, and the state in the end, by path."""
    programs, _ = programs_for(configuration, task)
    found: list[dict[str, bytes]] = [{} for _ in rounds]
    for segment in lane_segments(configuration, programs, rounds, segment_blocks=64):
        lanes = segment.lanes._replace(key=None)
        for path, leaf in jax.tree_util.tree_leaves_with_path((segment.log, segment.evaluation, lanes)):
            name = f"{segment.blocks_done}{jax.tree_util.keystr(path)}"
            for lane, of in enumerate(found):
                of[name] = np.asarray(leaf)[lane].tobytes()
    return found


def differing(configuration: Configuration, task: Task, lanes: int) -> dict[int, list[str]]:
    """What differs from the first lane, by lane; and from a round that is alone, as lane -1."""
    first, *others = outcomes(configuration, task, [3] * lanes)
    [alone] = outcomes(configuration, task, [3])
    each: list[tuple[int, dict[str, bytes]]] = [(-1, alone), *enumerate(others, start=1)]
    return {lane: names for lane, of in each if (names := [name for name in first if of[name] != first[name]])}


@pytest.mark.parametrize("algorithm", ["srg-dqn", "dqn-adam"])
def test_every_lane_of_a_small_chunk(algorithm: str, each_kernel: str) -> None:
    configuration, task = tiny(algorithm, lanes=8, kernel=each_kernel)
    assert differing(configuration, task, 8) == {}


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [5, 16, 25])
@pytest.mark.parametrize("hidden", [None, (20, 20)], ids=str)
@pytest.mark.parametrize("algorithm", ["srg-dqn", "svr-dqn", "dqn-sgd", "dqn-adam"])
@pytest.mark.parametrize("task", BUDGETS)
def test_every_lane_of_xlas_chunks(task: str, algorithm: str, hidden: tuple[int, ...] | None, lanes: int) -> None:
    shape: dict[str, Any] = {} if hidden is None else {"hidden": hidden}
    configuration = configure(task, algorithm, lanes=lanes, kernel="xla", **BUDGETS[task], **shape)
    assert differing(configuration, tasks.make(configuration.task), lanes) == {}


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["srg-dqn", "dqn-adam"])
@pytest.mark.parametrize("task", BUDGETS)
def test_every_lane_of_the_kernels_teams(task: str, algorithm: str, kernel: None) -> None:
    configuration = configure(task, algorithm, lanes=25, kernel="native", **BUDGETS[task])
    assert differing(configuration, tasks.make(configuration.task), 25) == {}


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["srg-dqn", "svr-dqn", "dqn-gd-adam"])
@pytest.mark.parametrize("task", BUDGETS)
def test_neighbours_do_not_matter(task: str, algorithm: str) -> None:
    configuration = configure(task, algorithm, lanes=25, evaluation_interval=None, **BUDGETS[task])
    made = tasks.make(configuration.task)
    programs, _ = programs_for(configuration, made)
    found: dict[int, bytes] = {}
    shuffled = np.random.default_rng(0).permutation(25).tolist()
    for rounds in (list(range(25)), list(range(25))[::-1], [3, 7, 24], shuffled):
        *_, last = lane_segments(configuration, programs, rounds)
        weights = np.asarray(last.lanes.learner.parameters.layers[0].weight)
        for place, number in enumerate(rounds):
            bits = weights[place].tobytes()
            assert found.setdefault(number, bits) == bits, (number, place)
    assert len(set(found.values())) == 25
