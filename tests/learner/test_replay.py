"""The ring against a deque: exactly first-in-first-out at its nominal capacity, wherever it wraps around."""

from __future__ import annotations

import functools
from collections import deque

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from scipy import stats

from srgdqn.config import ReplaySettings
from srgdqn.learner.gradients import Transitions
from srgdqn.learner.own_rules import Drawing
from srgdqn.learner.replay import draw_ages, made_at, pack, ring_length, unpack, write

UNWRITTEN = -1.0
DRAWN = 64


@st.composite
def memories(draw: st.DrawFn) -> tuple[int, int, int]:
    """A capacity, a block that is not larger, and a number of blocks written: up to several times around."""
    capacity, block = draw(st.sampled_from([(1, 1), (5, 1), (7, 3), (8, 4), (10, 4)]))
    return capacity, block, draw(st.integers(1, 3 * -(-capacity // block) + 2))


def fill(capacity: int, block: int, blocks: int) -> tuple[jax.Array, deque[float]]:
    """Transitions numbered from 0, written to a ring and to a deque alike."""
    ring = jnp.full((ring_length(ReplaySettings(replay_capacity=capacity), block), 1), UNWRITTEN)
    model: deque[float] = deque(maxlen=capacity)
    for index in range(blocks):
        rows = np.arange(index * block, (index + 1) * block, dtype=np.float32)
        ring = jitted_write(ring, jnp.int32(index * block), rows[:, None], jnp.bool_(True))
        model.extend(rows.tolist())
    return ring, model


jitted_write = jax.jit(write)


@functools.partial(jax.jit, static_argnums=(0, 1))
def drawn_slots(
    settings: ReplaySettings, slots: int, written: jax.Array, words: jax.Array, key: jax.Array
) -> jax.Array:
    stored = jnp.minimum(written, settings.replay_capacity)
    ages = draw_ages(settings, Drawing(words.shape[0], stored, words, key)).ages
    return (written - 1 - ages) % slots


def draw(ring: jax.Array, written: int, settings: ReplaySettings, rows: int, seed: int = 0) -> np.ndarray:
    """The numbers of the transitions in one batch."""
    words = np.random.default_rng(seed).integers(2**32, size=rows, dtype=np.uint32)
    slots = drawn_slots(settings, ring.shape[0], jnp.int32(written), words, jax.random.key(seed))
    return np.asarray(ring)[np.asarray(slots), 0]


@given(memories())
def test_a_batch_has_only_the_newest_transitions_and_any_of_them(memory: tuple[int, int, int]) -> None:
    capacity, block, blocks = memory
    ring, model = fill(*memory)
    settings = ReplaySettings(replay_capacity=capacity)
    drawn = np.concatenate([draw(ring, blocks * block, settings, DRAWN, seed) for seed in range(4)])
    # 256 draws miss one of at most 10 with probability 10 (9/10)^256 < 1e-10.
    assert set(drawn) == set(model)


@given(memories())
def test_without_replacement_and_newest_against_the_deque(memory: tuple[int, int, int]) -> None:
    capacity, block, blocks = memory
    ring, model = fill(*memory)
    for rows in {block, capacity} if len(model) == capacity else {block}:
        settings = ReplaySettings(replay_capacity=capacity, sampling="without-replacement")
        distinct = draw(ring, blocks * block, settings, rows, seed=rows)
        assert len(set(distinct)) == rows
        assert set(distinct) <= set(model)
        newest = draw(ring, blocks * block, ReplaySettings(replay_capacity=capacity, sampling="newest"), rows)
        assert list(newest) == list(model)[::-1][:rows]


@given(memories())
def test_a_block_that_is_not_kept_leaves_the_ring_as_it_is(memory: tuple[int, int, int]) -> None:
    _, block, blocks = memory
    ring, _ = fill(*memory)
    after = jitted_write(ring, jnp.int32(blocks * block), jnp.full((block, 1), 99.0), jnp.bool_(False))
    np.testing.assert_array_equal(after, ring)


@pytest.mark.parametrize(
    ("capacity", "block", "length"), [(1, 1, 1), (3, 2, 4), (40, 16, 48), (48, 16, 48), (49, 16, 64)]
)
def test_the_ring_is_the_capacity_in_whole_blocks(capacity: int, block: int, length: int) -> None:
    assert ring_length(ReplaySettings(replay_capacity=capacity), block) == length


@pytest.mark.parametrize("written", [8, 12, 64])
def test_with_replacement_is_uniform(written: int) -> None:
    ring, model = fill(10, 4, written // 4)
    drawn = draw(ring, written, ReplaySettings(replay_capacity=10), 10_000)
    counts = [int((drawn == number).sum()) for number in model]
    assert sum(counts) == 10_000
    assert stats.chisquare(counts).pvalue > 1e-3


def test_without_replacement_is_uniform_in_every_place_of_the_batch() -> None:
    ring, model = fill(10, 4, 5)
    settings = ReplaySettings(replay_capacity=10, sampling="without-replacement")
    slots = jax.jit(
        jax.vmap(lambda key: drawn_slots(settings, ring.shape[0], jnp.int32(20), jnp.zeros(3, jnp.uint32), key))
    )(jax.random.split(jax.random.key(0), 3_000))
    batches = np.asarray(ring)[np.asarray(slots), 0]
    for place in range(3):
        counts = [int((batches[:, place] == number).sum()) for number in model]
        assert sum(counts) == 3_000
        assert stats.chisquare(counts).pvalue > 1e-3
    # So are pairs, of which there are 10 × 9 / 2.
    first, second = np.sort(batches[:, :2], axis=1).T
    pairs = np.unique(first * 100 + second, return_counts=True)[1]
    assert len(pairs) == 45
    assert stats.chisquare(pairs).pvalue > 1e-3


@settings(max_examples=15)
@given(st.integers(1, 5), st.sampled_from([(), (3,), (2, 3)]), st.integers(0, 2**32 - 1))
def test_unpacking_gives_what_was_packed(size: int, shape: tuple[int, ...], seed: int) -> None:
    random = np.random.default_rng(seed)
    transitions = Transitions(
        observation=jnp.asarray(random.normal(size=(*shape, size)), jnp.float32),
        action=jnp.asarray(random.integers(1_000, size=shape), jnp.int32),
        reward=jnp.asarray(random.normal(size=shape), jnp.float32),
        next_observation=jnp.asarray(random.normal(size=(*shape, size)), jnp.float32),
        terminated=jnp.asarray(random.integers(2, size=shape), jnp.float32),
    )
    rows = pack(transitions)
    assert rows.shape == (*shape, 2 * size + 3)
    for name, packed, unpacked in zip(Transitions._fields[:5], transitions[:5], unpack(rows)[:5], strict=True):
        assert (packed.dtype, packed.shape) == (unpacked.dtype, unpacked.shape), name
        np.testing.assert_array_equal(packed, unpacked, err_msg=name)


def test_the_step_that_made_what_is_in_a_slot() -> None:
    """Against a ring that is written step by step."""
    slots = 12
    ring = [0] * slots
    for step in range(1, 4 * slots):
        ring[(step - 1) % slots] = step
        got = made_at(np.arange(slots), slots, step)
        np.testing.assert_array_equal(np.where(got < 1, 0, got), ring)
