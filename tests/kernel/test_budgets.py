"""What a budget in each unit does to the kernel's rounds: when they learn, how they explore, and when they stop."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import random_words
from native_rounds import Native, native, random_lanes, words_of
from srgdqn.training.budget import total_blocks
from srgdqn.training.lane import STEPPED, TERMINATED, TRUNCATED, BlockLog, Lane

pytestmark = pytest.mark.usefixtures("kernel")

BLOCK, LANES, GREEDY = 5, 3, 7


def still(**options: Any) -> tuple[Native, Lane]:
    """Pendulums that learn nothing and, unless they explore, always do the same."""
    usual = dict(learning_frequency=BLOCK, learning_starts=13, batch_size=4, replay_capacity=500, eta=0.0)
    program = native("Pendulum", "dqn-sgd", hidden=(2,), **{**usual, **options})
    lanes = random_lanes(program, np.random.default_rng(0), LANES)
    for leaf in jax.tree.leaves(lanes.learner.parameters):
        leaf[:] = 0
    np.asarray(lanes.learner.parameters.layers[-1].bias)[:, GREEDY] = 1
    learner = lanes.learner._replace(iterations=np.zeros(LANES, np.int32))  # type: ignore[arg-type]
    return program, lanes._replace(learner=learner, ring=np.zeros_like(lanes.ring))  # type: ignore[arg-type]


def learns(log: BlockLog) -> list[list[bool]]:
    return (~np.isnan(np.asarray(log.loss))).tolist()


def test_learning_starts_with_the_first_block_that_ends_late_enough_and_not_in_one_that_is_cut() -> None:
    """13 steps are over in the third block; 32 end within the seventh, which has no outer iteration."""
    program, lanes = still(steps=32)
    after, log = program.segment(lanes, 0, 7)
    assert learns(log) == [[False, False, True, True, True, True, False]] * LANES
    assert np.asarray(after.learner.iterations).tolist() == [4] * LANES
    assert np.asarray(after.active).all()
    assert (np.asarray(log.flags) & STEPPED).all()


@pytest.mark.parametrize("updates", [1, 3])
def test_outer_iterations_have_no_last_block(updates: int) -> None:
    program, lanes = still(outer_iterations=5 * updates, gradient_steps=updates)
    blocks = total_blocks(program.configuration.training)
    assert blocks == 7
    after, log = program.segment(lanes, 0, blocks)
    assert learns(log) == [[False, False, *[True] * 5]] * LANES
    assert np.asarray(after.learner.iterations).tolist() == [5 * updates] * LANES


def test_a_round_stops_after_the_block_in_which_its_episodes_are_spent() -> None:
    """Of 6 episodes, in three lanes that have had 0, 3 and 5; an episode takes 4 steps."""
    program, lanes = still(episodes=6, time_limit=4)
    np.asarray(lanes.episodes)[:] = 0, 3, 5
    after, log = program.segment(lanes, 0, 7)
    flags = np.asarray(log.flags)
    stepped = (flags & STEPPED).all(axis=2)
    assert stepped.tolist() == [[True] * 5 + [False] * 2, [True] * 3 + [False] * 4, [True] + [False] * 6]
    assert (flags[~stepped] == 0).all()
    assert learns(log) == [[b >= 2 and alive for b, alive in enumerate(row)] for row in stepped.tolist()]
    assert np.asarray(after.episodes).tolist() == [6, 6, 6]
    assert not np.asarray(after.active).any()
    assert np.asarray(after.diverged_at).tolist() == [-1] * LANES
    assert np.asarray(after.situation.episode_steps).tolist() == [1, 3, 1]
    ended = (flags & (TERMINATED | TRUNCATED) > 0).sum(axis=(1, 2))
    assert ended.tolist() == [6, 3, 1]


@pytest.mark.parametrize(
    ("budget", "updates", "time_limit"),
    [
        ({"steps": 60}, 1, None),
        ({"outer_iterations": 10}, 1, None),
        ({"outer_iterations": 30}, 3, None),
        ({"episodes": 15}, 1, 4),
    ],
)
@pytest.mark.parametrize("uniform", [False, True])
def test_exploration_declines_over_the_budget_in_its_own_unit(
    budget: dict[str, int], updates: int, time_limit: int | None, uniform: bool
) -> None:
    """Before the first outer iteration, after the third block, it may be uniform."""
    blocks, fraction = 11, 0.75
    how = dict(gradient_steps=updates, time_limit=time_limit, uniform_start=uniform)
    program, lanes = still(**budget, **how, epsilon_start=0.9, epsilon_end=0.2)
    after, log = program.segment(lanes, 0, blocks, dict(epsilon_fraction=np.float32(fraction)))
    rows = np.asarray(after.ring)[:, : blocks * BLOCK]
    ends = np.cumsum(np.asarray(log.flags).reshape(LANES, -1) & (TERMINATED | TRUNCATED) > 0, axis=1)
    greedy_steps = 0
    [(unit, amount)] = budget.items()
    for lane, key in enumerate(words_of(lanes)):
        for step in range(blocks * BLOCK):
            block, offset = divmod(step, BLOCK)
            spent = {
                "steps": step,
                "outer_iterations": updates * max(block - 2, 0),
                "episodes": int(ends[lane, step - 1]) if step else 0,
            }[unit]
            epsilon = 0.9 + min(spent / amount / fraction, 1.0) * (0.2 - 0.9)
            epsilon = 1.0 if uniform and block < 3 else epsilon
            words = random_words.of_block(key, block, block=BLOCK, rows=4, picks=0)
            explores = (words.explore[offset] >> 8) * 2.0**-24 < epsilon
            assert rows[lane, step, -3] == (words.action[offset] % 12 if explores else GREEDY), (lane, step)
            greedy_steps += not explores
    assert 30 < greedy_steps < LANES * blocks * BLOCK - 30


def test_the_last_of_all_steps_are_counted() -> None:
    """A block that ends beyond 2³¹ steps, where exploration is over."""
    block, steps = 1_000, 2**31 - 1
    program, lanes = still(
        steps=steps, learning_frequency=block, learning_starts=2_000, replay_capacity=1_000, epsilon_end=0.0
    )
    index = steps // block
    after, log = program.segment(lanes, index, 1, dict(epsilon_start=1.0, epsilon_fraction=0.9))
    assert (np.asarray(after.ring)[..., -3] == GREEDY).all()
    assert learns(log) == [[False]] * LANES
