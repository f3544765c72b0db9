"""The random numbers of blocks: uniform, and others for every block, round and purpose."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from srgdqn.config import Configuration
from srgdqn.learner.estimator import Origin
from srgdqn.learner.estimators.saga_replay import Table, looked_up, mean_of
from srgdqn.training.batches import choose_rows, target_renewed
from srgdqn.training.draws import BatchDraws, Draws, draw_block

ROUNDS, BLOCKS, STEPS, ACTIONS, ROWS, INNER, PICKED, UPDATES = 3, 50, 16, 3, 8, 4, 2, 3


@pytest.fixture(scope="module")
def draws() -> Draws:
    """Arrays with the axes (round, block, ...), of outer iterations (round, block, which, ...); keys as their data."""
    configuration = Configuration().with_options(
        dict(learning_frequency=STEPS, inner_iterations=INNER, inner_batch=PICKED, gradient_steps=UPDATES)
    )

    @jax.jit
    @jax.vmap
    def of_round(key: jax.Array) -> Draws:
        return jax.vmap(lambda index: draw_block(configuration, key, index, actions=ACTIONS, rows=ROWS))(
            jnp.arange(BLOCKS)
        )

    drawn = of_round(jax.random.split(jax.random.key(3), ROUNDS))

    def array(leaf: jax.Array) -> np.ndarray:
        keys = jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if keys else leaf)

    arrays: Draws = jax.tree.map(array, drawn)
    return arrays


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
    words = getattr(draws.batches, name).ravel()
    assert words.dtype == np.uint32
    assert stats.kstest(words / 2**32, "uniform").pvalue > 1e-3
    assert stats.chisquare(np.bincount(words % 7, minlength=7)).pvalue > 1e-3


def test_no_two_words_or_keys_are_the_same(draws: Draws) -> None:
    words = np.concatenate([draws.batches.batch.ravel(), draws.batches.picks.ravel()])
    assert len(np.unique(words)) > len(words) - 3  # 7,200 of 2**32: a coincidence is possible, two are not
    each = draws.episode, draws.environment, draws.first_observation, draws.batches.sampling
    keys = np.concatenate([some.reshape(-1, 2) for some in each])
    assert len(np.unique(keys, axis=0)) == len(keys)
    assert len(np.unique(draws.explore.reshape(-1, STEPS), axis=0)) == ROUNDS * BLOCKS


def test_what_is_drawn_from_a_blocks_own_key_is_drawn_nowhere_else(draws: Draws) -> None:
    keys = jax.random.wrap_key_data(draws.batches.sampling[:, :, 0].reshape(-1, 2))
    words = np.asarray(jax.jit(jax.vmap(lambda key: jax.random.bits(key, (200,))))(keys))
    assert len(np.intersect1d(words, draws.batches.batch)) <= 1
    children = jax.random.key_data(jax.jit(jax.vmap(lambda key: jax.random.split(key, STEPS)))(keys)).reshape(-1, 2)
    both = np.concatenate([children, draws.environment.reshape(-1, 2)])
    assert len(np.unique(both, axis=0)) == len(both)


def test_no_draw_of_an_outer_iteration_has_the_key_of_another(draws: Draws) -> None:
    """D and picks without replacement, rows beyond D and of a reference, coins, and all that of the block's others."""
    sampling = jax.random.wrap_key_data(draws.batches.sampling)

    @jax.jit
    @jax.vmap
    @jax.vmap
    @jax.vmap
    def keys_of(key: jax.Array) -> tuple[tuple[jax.Array, ...], jax.Array]:
        nothing = jnp.zeros(0, jnp.uint32)
        made = BatchDraws(nothing, nothing, key, jnp.asarray(0))
        return (*jax.random.split(key), made.beyond, made.reference, key), made.coins(INNER)

    keys, coins = keys_of(sampling)
    every = np.concatenate([np.asarray(jax.random.key_data(key)).reshape(-1, 2) for key in keys])
    assert len(np.unique(every, axis=0)) == len(every) == 5 * ROUNDS * BLOCKS * UPDATES
    coins = np.asarray(coins)
    assert stats.kstest(coins.ravel(), "uniform").pvalue > 1e-3
    # A coin is nobody's first number: not of the order in which picks are drawn without replacement, say.
    first = [np.asarray(jax.vmap(lambda key: jax.random.uniform(key, (INNER,)))(key.ravel())) for key in keys]
    assert np.isin(coins.ravel(), np.concatenate(first).ravel()).mean() < 0.01


@pytest.mark.parametrize("before", [0, 5])
def test_rows_of_a_replay_that_was_emptied(before: int) -> None:
    """Slots are those of a new replay; the steps that made its transitions are counted from the start of the round."""
    configuration = Configuration().with_options(dict(learning_frequency=STEPS, replay_capacity=40, batch_size=ROWS))
    slots = 48
    for blocks in range(1, 6):
        index = jnp.asarray(before + blocks - 1)
        drawn = draw_block(configuration, jax.random.key(0), index, actions=ACTIONS, rows=ROWS).batch()
        origin = choose_rows(configuration, slots, index, drawn, before).origin
        fresh = choose_rows(configuration, slots, jnp.asarray(blocks - 1), drawn).origin
        np.testing.assert_array_equal(origin.slots, fresh.slots)
        np.testing.assert_array_equal(origin.made_at, STEPS * before + fresh.made_at)
        assert int(origin.written) == STEPS * (before + blocks)
        assert int(origin.stored) == min(40, STEPS * blocks)
        assert (np.asarray(origin.made_at) > int(origin.written - origin.stored)).all()


def test_a_table_over_a_replay_that_was_emptied_forgets_what_was_in_it() -> None:
    origin = Origin(jnp.arange(2), jnp.asarray([41, 42]), jnp.asarray(48), jnp.asarray(8))
    gradients, made_at = jnp.arange(6.0)[:, None], jnp.asarray([41, 42, 33, 39, 40, 0])
    before = Table(gradients, made_at, gradients[:5].sum(0), jnp.asarray(0))
    query: Any = SimpleNamespace(origin=origin, where=lambda due, yes, no: jnp.where(due, yes(), no))
    table, _, known = looked_up(before, query)
    assert known.tolist() == [True, True]
    assert float(mean_of(table)[0]) == 0.5  # of steps 41 and 42 alone: 40 is before the newest eight


@pytest.mark.parametrize("interval", [1, 3, 8, 10, 21, 64])
def test_a_target_is_copied_after_multiples_of_steps(interval: int) -> None:
    """Once a block, before the first of its outer iterations, if one of its steps is a multiple."""
    configuration = Configuration().with_options(dict(learning_frequency=8, target_update_interval=interval))
    for block in range(20):
        due = any(step % interval == 0 for step in range(8 * block + 1, 8 * block + 9))
        found = [bool(target_renewed(configuration, jnp.asarray(block), jnp.asarray(which))) for which in range(3)]
        assert found == [due, False, False]
    assert target_renewed(Configuration(), jnp.asarray(0), jnp.asarray(0)) is None
