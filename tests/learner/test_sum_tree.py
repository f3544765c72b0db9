"""Sums and draws of a sum tree beside NumPy's."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from srgdqn.learner import sum_tree

update = jax.jit(sum_tree.update)
sums = jax.jit(sum_tree.sums)
find = jax.jit(sum_tree.find)
draw = jax.jit(jax.vmap(sum_tree.draw, (None, 0)))


@settings(max_examples=30)
@given(st.sampled_from([1, 2, 37]), st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_sums_are_numpys_after_random_updates(slots: int, seed: int, times: int) -> None:
    """Also where one slot is given several numbers at once, of which the largest counts."""
    random, tree, expected = np.random.default_rng(seed), sum_tree.empty(slots), np.zeros(slots, np.float32)
    for _ in range(times):
        chosen = random.integers(slots, size=4)
        new = (random.exponential(size=4) * 10.0 ** random.integers(-6, 6) * random.integers(2, size=4)).astype("f")
        tree = update(tree, jnp.asarray(chosen), jnp.asarray(new))
        for slot in chosen:
            expected[slot] = max(new[chosen == slot])
        np.testing.assert_array_equal(tree[:slots], expected)
        assert not np.asarray(tree[slots:]).any()
    whole = np.asarray(tree, np.float64)
    for level in sums(tree):
        np.testing.assert_allclose(level, whole.reshape(len(level), -1).sum(1), rtol=1e-6)


@settings(max_examples=40)
@given(st.lists(st.sampled_from([0.0, 1e-6, 0.25, 1.0, 3.0, 1e4]), min_size=1, max_size=40), st.floats(0, 1))
def test_the_slot_that_is_found_is_where_the_running_sum_exceeds_the_mass(numbers: list[float], share: float) -> None:
    leaves = np.zeros(40)
    leaves[: len(numbers)] = numbers
    if not leaves.any():
        return
    tree = update(sum_tree.empty(40), jnp.arange(40), jnp.asarray(leaves, jnp.float32))
    total = leaves.sum()
    [found] = np.asarray(find(sums(tree), jnp.asarray([share * total], jnp.float32)))
    assert leaves[found] > 0
    before = leaves[:found].sum()
    assert before - 1e-5 * total <= share * total <= before + leaves[found] + 1e-5 * total


@pytest.mark.parametrize("rows", [1, 64])
def test_draws_are_as_often_as_their_numbers_say(rows: int) -> None:
    numbers = np.random.default_rng(0).exponential(size=50) ** 2
    numbers[[3, 17, 49]] = 0.0
    tree = update(sum_tree.empty(50), jnp.arange(50), jnp.asarray(numbers, jnp.float32))
    uniform = jax.random.uniform(jax.random.key(1), (64_000 // rows, rows))
    drawn = np.asarray(draw(tree, uniform)).ravel()
    found = np.bincount(drawn, minlength=50)
    expected = len(drawn) * numbers / numbers.sum()
    assert (found[numbers == 0] == 0).all()
    some = numbers > 0
    if rows == 1:  # independent draws
        assert stats.chisquare(found[some], expected[some]).pvalue > 1e-3
    else:  # stratified: nearer still, and within one of each batch
        assert stats.chisquare(found[some], expected[some]).pvalue > 1e-3
        batches = np.asarray(draw(tree, uniform))
        largest = int(numbers.argmax())
        each = (batches == largest).sum(1)
        assert np.abs(each - rows * numbers[largest] / numbers.sum()).max() < 2
