"""The paper's programs at their own width: where a round sits, and beside whom, does not change its bits."""

from __future__ import annotations

import numpy as np
import pytest

from srgdqn import tasks
from srgdqn.config.configure import configure
from srgdqn.training.program import programs_for
from tiny import lane_segments

LANES = 25
BUDGETS = {"MountainCar": {"steps": 4_000}, "Pendulum": {"steps": 4_000}, "CartPole": {"episodes": 60}}


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["srg-dqn", "svr-dqn", "dqn-gd-adam"])
@pytest.mark.parametrize("task", BUDGETS)
def test_places_do_not_matter(task: str, algorithm: str) -> None:
    configuration = configure(task, algorithm, lanes=LANES, evaluation_interval=None, **BUDGETS[task])
    made = tasks.make(configuration.task)
    programs, _ = programs_for(configuration, made)
    found: dict[int, bytes] = {}
    shuffled = np.random.default_rng(0).permutation(LANES).tolist()
    for rounds in (list(range(LANES)), list(range(LANES))[::-1], [3, 7, 24], shuffled):
        *_, last = lane_segments(configuration, programs, rounds)
        weights = np.asarray(last.lanes.learner.parameters.layers[0].weight)
        for place, number in enumerate(rounds):
            told = weights[place].tobytes()
            assert found.setdefault(number, told) == told, (number, place)
    assert len(set(found.values())) == LANES
