"""The kernel's random words are those of jax.random, bit for bit: seen in what its rounds do."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import random_words
from native_rounds import Native, native, random_lanes, words_of
from srgdqn.training.draws import draw_block
from srgdqn.training.lane import Lane

pytestmark = pytest.mark.usefixtures("kernel")

LANES, BLOCK, ACTIONS = 11, 16, 12
LAST = 2**31 // BLOCK - 2  # about the last block that 32-bit counters of steps allow


def pendulum(**options: Any) -> Native:
    return native("Pendulum", hidden=(3,), learning_frequency=BLOCK, epsilon_start=1.0, epsilon_end=1.0, **options)


def drawn(lanes: Lane, index: int, **which: int) -> random_words.Words:
    """The words of every lane's block."""
    each = [random_words.of_block(key, index, block=BLOCK, rows=32, picks=16, **which) for key in words_of(lanes)]
    return random_words.Words(*map(np.stack, zip(*each, strict=True)))


def written(program: Native, after: Lane, index: int) -> np.ndarray:
    begin = index * BLOCK % program.program.slots
    return np.asarray(after.ring)[:, begin : begin + BLOCK]


@pytest.mark.parametrize(("update", "updates"), [(0, 1), (0, 3), (2, 3)])
def test_the_words_of_the_tests_are_those_of_jax(update: int, updates: int) -> None:
    """The same blocks, from the package and from the formulas by which these tests know what is drawn."""
    program, indices = pendulum(gradient_steps=updates), [0, 1, 77, LAST]
    lanes = random_lanes(program, np.random.default_rng(0), 3)
    draw = jax.vmap(
        lambda key, index: draw_block(program.configuration, key, index, actions=ACTIONS, rows=program.rows), (0, None)
    )
    draws = jax.jit(jax.vmap(draw, (None, 0)))(lanes.key, jnp.array(indices))
    for place, index in enumerate(indices):
        words = drawn(lanes, index, update=update, updates=updates)
        np.testing.assert_array_equal(draws.batches.batch[place, :, update], words.batch)
        np.testing.assert_array_equal(draws.batches.picks[place, :, update, :, 0], words.picks)
        np.testing.assert_array_equal(jax.random.key_data(draws.episode[place]), words.episode)
        np.testing.assert_array_equal(draws.action[place], words.action % ACTIONS)
        np.testing.assert_array_equal(draws.explore[place], (words.explore >> 8) * 2.0**-24)


@pytest.mark.parametrize("index", [0, 1, 2, 1_000, LAST])
def test_exploring_actions_are_those_drawn(index: int) -> None:
    program = pendulum()
    lanes = random_lanes(program, np.random.default_rng(index), LANES, index)
    after, _ = program.segment(lanes, index, 1, first_learning=index + 1)
    np.testing.assert_array_equal(written(program, after, index)[:, :, -3], drawn(lanes, index).action % ACTIONS)


def test_a_step_explores_exactly_below_its_number() -> None:
    """Every lane's ε is the number drawn for one of its steps, or the next number above it."""
    program, step, greedy = pendulum(), np.arange(BLOCK), 4
    lanes = random_lanes(program, np.random.default_rng(5), BLOCK)
    for leaf in jax.tree.leaves(lanes.learner.parameters):
        leaf[:] = 0
    np.asarray(lanes.learner.parameters.layers[-1].bias)[:, greedy] = 1
    words = drawn(lanes, 0)
    explore, random = ((words.explore >> 8) * 2.0**-24).astype(np.float32), words.action % ACTIONS
    exactly = explore[step, step]
    for epsilon in (exactly, np.nextafter(exactly, np.float32(1))):
        after, _ = program.segment(lanes, 0, 1, dict(epsilon_start=epsilon, epsilon_end=epsilon))
        actions = written(program, after, 0)[:, :, -3]
        np.testing.assert_array_equal(actions, np.where(explore < epsilon[:, None], random, greedy))
        assert (actions[step, step] == (greedy if epsilon is exactly else random[step, step])).all()


@pytest.mark.parametrize("task", ["MountainCar", "Pendulum", "CartPole", "Acrobot"])
def test_episodes_start_where_they_are_drawn(task: str) -> None:
    """With a time limit of one step every transition begins an episode."""
    index = 40
    program = native(task, steps=10_000, time_limit=1, learning_frequency=BLOCK, hidden=(3,))
    lanes = random_lanes(program, np.random.default_rng(3), LANES, index)
    after, log = program.segment(lanes, index, 1, first_learning=index + 1)
    environment: Any = program.program.task.environment

    def start(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        state = environment.initial(key)
        return state, environment.observation(state)

    keys = jax.random.wrap_key_data(drawn(lanes, index).episode, impl="threefry2x32")
    starts, seen = map(np.asarray, jax.jit(jax.vmap(jax.vmap(start)))(keys))
    # From the same words; a product and a sum may be rounded at once or one after the other.
    np.testing.assert_allclose(after.situation.state, starts[:, -1], rtol=2e-7, atol=6e-8)
    assert (np.asarray(log.flags) & 4).all()
    assert (np.asarray(after.episodes) == BLOCK).all()
    assert not np.asarray(after.situation.episode_steps).any()
    begun = written(program, after, index)[:, 1:, : seen.shape[-1]]
    np.testing.assert_allclose(begun, seen[:, :-1], rtol=2e-7, atol=6e-8)
