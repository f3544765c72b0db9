"""The random numbers of blocks: uniform, and others for every block, round and purpose."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from srgdqn.config import Configuration
from srgdqn.training.draws import Draws, draw_block

ROUNDS, BLOCKS, STEPS, ACTIONS, ROWS, INNER, PICKED = 3, 50, 16, 3, 8, 4, 2


@pytest.fixture(scope="module")
def draws() -> Draws:
    """Arrays with the axes (round, block, ...); keys as their data."""
    configuration = Configuration().with_options(
        dict(learning_frequency=STEPS, inner_iterations=INNER, inner_batch=PICKED)
    )

    @jax.jit
    @jax.vmap
    def of_round(key: jax.Array) -> Draws:
        return jax.vmap(lambda index: draw_block(configuration, key, index, actions=ACTIONS, rows=ROWS))(
            jnp.arange(BLOCKS)
        )

    drawn = of_round(jax.random.split(jax.random.key(3), ROUNDS))
    keys = ("episode", "environment", "first_observation", "sampling")
    arrays = {n: jax.random.key_data(v) if n in keys else v for n, v in drawn._asdict().items()}
    return Draws(**{name: np.asarray(value) for name, value in arrays.items()})


def test_exploration_is_uniform_below_one(draws: Draws) -> None:
    assert draws.explore.min() >= 0
    assert draws.explore.max() < 1
    assert stats.kstest(draws.explore.ravel(), "uniform").pvalue > 1e-3


def test_random_actions_are_uniform_and_independent_of_exploration(draws: Draws) -> None:
    counts = np.bincount(draws.action.ravel(), minlength=ACTIONS)
    assert len(counts) == ACTIONS
    assert stats.chisquare(counts).pvalue > 1e-3
    explored = draws.action[draws.explore < 0.5]
    assert stats.chisquare(np.bincount(explored, minlength=ACTIONS)).pvalue > 1e-3


@pytest.mark.parametrize("name", ["batch", "picks"])
def test_words_are_uniform_over_all_32_bits(draws: Draws, name: str) -> None:
    words = getattr(draws, name).ravel()
    assert words.dtype == np.uint32
    assert stats.kstest(words / 2**32, "uniform").pvalue > 1e-3
    assert stats.chisquare(np.bincount(words % 7, minlength=7)).pvalue > 1e-3


def test_no_two_words_or_keys_are_the_same(draws: Draws) -> None:
    words = np.concatenate([draws.batch.ravel(), draws.picks.ravel()])
    assert len(np.unique(words)) > len(words) - 3  # 2,400 of 2**32: a coincidence is possible, two are not
    names = ("episode", "environment", "first_observation", "sampling")
    keys = np.concatenate([getattr(draws, name).reshape(-1, 2) for name in names])
    assert len(np.unique(keys, axis=0)) == len(keys)
    assert len(np.unique(draws.explore.reshape(-1, STEPS), axis=0)) == ROUNDS * BLOCKS


def test_what_is_drawn_from_a_blocks_own_key_is_drawn_nowhere_else(draws: Draws) -> None:
    keys = jax.random.wrap_key_data(draws.sampling.reshape(-1, 2))
    words = np.asarray(jax.jit(jax.vmap(lambda key: jax.random.bits(key, (200,))))(keys))
    assert len(np.intersect1d(words, draws.batch)) <= 1
    children = jax.random.key_data(jax.jit(jax.vmap(lambda key: jax.random.split(key, STEPS)))(keys)).reshape(-1, 2)
    both = np.concatenate([children, draws.environment.reshape(-1, 2)])
    assert len(np.unique(both, axis=0)) == len(both)
