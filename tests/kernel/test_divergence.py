"""A round that diverges is frozen as it was before, is counted, and leaves its neighbours alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from native_rounds import Native, chosen, copied, native, random_lanes
from srgdqn.training.lane import Lane
from tiny import bits

pytestmark = pytest.mark.usefixtures("kernel")

BLOCK, INDEX, LANES, SICK = 4, 10, 9, 5


def cart_pole(algorithm: str = "srg-dqn", **options: Any) -> Native:
    usual = dict(learning_frequency=BLOCK, learning_starts=8, batch_size=5, replay_capacity=40, inner_iterations=3)
    return native("CartPole", algorithm, steps=1_000, **{**usual, **options})


@pytest.mark.parametrize("target", ["current", "polyak"])
@pytest.mark.parametrize("algorithm", ["srg-dqn", "dqn-gd", "dqn-sgd", "dqn-storm"])
def test_an_absurd_step_freezes_its_round_alone(algorithm: str, target: str) -> None:
    program = cart_pole(algorithm, target=target, step="gradient")
    before = random_lanes(program, np.random.default_rng(0), LANES, INDEX)
    eta = np.full(LANES, 1e-3, np.float32)
    healthy, healthy_log = program.segment(before, INDEX, 3, dict(eta=eta))
    eta[SICK] = 1e30
    after, log = program.segment(before, INDEX, 3, dict(eta=eta))

    others = np.arange(LANES) != SICK
    assert bits(chosen((after, log), others)) == bits(chosen((healthy, healthy_log), others))
    assert np.asarray(healthy.active).all()
    assert not after.active[SICK]
    assert np.asarray(after.diverged_at).tolist() == np.where(others, -1, (INDEX + 1) * BLOCK).tolist()
    # It stepped through the block and wrote down what it saw; what it had learned before stays.
    assert bits(chosen(after.learner, SICK)) == bits(chosen(before.learner, SICK))
    one, _ = program.segment(before, INDEX, 1, dict(eta=eta))
    assert bits(chosen(after, SICK)) == bits(chosen(one, SICK))
    calm, _ = program.segment(before, INDEX, 1)
    assert bits((one.ring[SICK], one.situation.state[SICK])) == bits((calm.ring[SICK], calm.situation.state[SICK]))
    assert not np.isfinite([log.delta_norm[SICK, 0], log.theta_norm[SICK, 0]]).all()
    assert np.isfinite(np.asarray(log.loss)[others]).all()
    assert np.isnan(np.asarray(log.loss)[SICK, 1:]).all()
    assert np.asarray(log.flags)[SICK, 0].all()
    assert not np.asarray(log.flags)[SICK, 1:].any()


# Of every lane's arrays, the numbers of one lane that are spoilt.
PLACES: dict[str, Callable[[Lane], Any]] = {
    "first weight": lambda lanes: lanes.learner.parameters.layers[0].weight[SICK, :1, :1],
    "first bias": lambda lanes: lanes.learner.parameters.layers[0].bias[SICK, :1],
    "last weight": lambda lanes: lanes.learner.parameters.layers[-1].weight[SICK, :1, :1],
    "last bias": lambda lanes: lanes.learner.parameters.layers[-1].bias[SICK, :1],
    "observations": lambda lanes: lanes.ring[SICK, :, 0],
    "next observations": lambda lanes: lanes.ring[SICK, :, 4],
    "rewards": lambda lanes: lanes.ring[SICK, :, -2],
    "first moment": lambda lanes: lanes.learner.adam.first.layers[0].weight[SICK, :1, :1],
    "second moment": lambda lanes: lanes.learner.adam.second.layers[0].weight[SICK, :1, :1],
}


@pytest.mark.parametrize("options", [{}, {"target": "outer"}, {"clip_norm": 0.5}, {"readings": "printed"}], ids=str)
def test_what_is_no_number_is_never_hidden(options: Any) -> None:
    """Not by a relu, a mask, a largest value or a clipped norm: the round is frozen at once."""
    program = cart_pole(sampling="newest", batch_size=2 * BLOCK, **options)
    for (place, numbers), bad in itertools.product(PLACES.items(), (np.nan, np.inf)):
        if (place, bad) == ("second moment", np.inf):  # to divide by an infinite moment is to stand still
            continue
        before = random_lanes(program, np.random.default_rng(1), LANES, INDEX)
        numbers(before)[:] = bad
        after, _ = program.segment(before, INDEX, 1)
        frozen = [(INDEX + 1) * BLOCK if lane == SICK else -1 for lane in range(LANES)]
        assert np.asarray(after.diverged_at).tolist() == frozen, (place, bad)
        assert bits(chosen(after.learner, SICK)) == bits(chosen(before.learner, SICK)), (place, bad)


@pytest.mark.parametrize("action", [0, 1])
@pytest.mark.parametrize("target", ["hard", "polyak"])
def test_a_target_network_that_is_no_number_is_not_hidden_by_the_other_action(target: str, action: int) -> None:
    program = cart_pole(target=target, gamma=0.9)
    before = random_lanes(program, np.random.default_rng(1), LANES, INDEX)
    assert before.learner.target is not None
    np.asarray(before.learner.target.layers[-1].bias)[SICK, action] = np.nan
    after, _ = program.segment(before, INDEX, 1)
    assert np.asarray(after.diverged_at).tolist() == [(INDEX + 1) * BLOCK if i == SICK else -1 for i in range(LANES)]


@pytest.mark.parametrize("algorithm", ["srg-dqn", "svr-dqn", "dqn-adam", "dqn-storm"])
def test_a_round_that_stands_idle_may_hold_anything(algorithm: str) -> None:
    """Lanes that were frozen earlier are beside the active ones, and their numbers are no numbers."""
    program = cart_pole(algorithm)
    before = random_lanes(program, np.random.default_rng(2), LANES, INDEX)
    expected, _ = program.segment(before, INDEX, 3)
    spoilt = copied(before)
    for leaf in jax.tree.leaves((spoilt.learner.parameters, spoilt.learner.adam, spoilt.ring)):
        if leaf.dtype == np.float32:
            leaf[SICK] = np.nan
    np.asarray(spoilt.active)[SICK] = False
    after, _ = program.segment(spoilt, INDEX, 3)
    others = np.arange(LANES) != SICK
    assert bits(chosen(after, others)) == bits(chosen(expected, others))
    assert bits(chosen(after, SICK)) == bits(chosen(spoilt, SICK))
