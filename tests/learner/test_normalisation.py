"""Running statistics against NumPy's over everything at once."""

from __future__ import annotations

from collections.abc import Iterator

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

from srgdqn.config import NormalisationSettings
from srgdqn.learner import normalisation
from srgdqn.learner.normalisation import (
    Moments,
    Scale,
    init_normaliser,
    is_running,
    normalise_observation,
    normalise_reward,
)

BLOCK, SIZE = 4, 3
BOTH = NormalisationSettings(normalise_observations=True, normalise_rewards=True)

observe = jax.jit(normalisation.observe)
merge = jax.jit(normalisation.merge)


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def moments_of(rows: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Weight, mean and variance of a thousandth of a sample with mean 0 and variance 1, and of the rows."""
    weight = 1e-3 + len(rows)
    mean = rows.sum(0) / weight
    return weight, mean, (1e-3 + (rows**2).sum(0)) / weight - mean**2


def assert_moments(moments: Moments | None, rows: np.ndarray) -> None:
    assert moments is not None
    for got, expected in zip(moments, moments_of(rows), strict=True):
        assert got.dtype == jnp.float64
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_merging_blocks_is_the_mean_and_variance_of_everything(counts: list[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    blocks = [random.normal(3.0, 5.0, (count, SIZE)) for count in counts]
    moments = Moments(jnp.asarray(0.0), jnp.zeros(SIZE), jnp.zeros(SIZE))
    for block in blocks:
        moments = merge(moments, jnp.asarray(block))
    rows = np.concatenate(blocks)
    np.testing.assert_allclose(moments.weight, len(rows))
    np.testing.assert_allclose(moments.mean, rows.mean(0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(moments.variance, rows.var(0), rtol=1e-10, atol=1e-12)


@given(st.integers(1, 6), st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_the_statistics_of_a_run_against_a_loop_over_its_steps(blocks: int, seed: int, gamma: float) -> None:
    random = np.random.default_rng(seed)
    observations = random.normal(-1.0, 2.0, (blocks * BLOCK, SIZE))
    rewards = random.normal(1.0, 1.0, blocks * BLOCK)
    ended = random.random(blocks * BLOCK) < 0.3
    normaliser = init_normaliser(BOTH, SIZE)
    for start in range(0, blocks * BLOCK, BLOCK):
        part = slice(start, start + BLOCK)
        normaliser = observe(
            normaliser, observations[part], jnp.asarray(rewards[part]), jnp.asarray(ended[part]), gamma
        )

    totals, total = [], 0.0
    for reward, end in zip(rewards, ended, strict=True):
        total = gamma * total + reward
        totals.append(total)
        total = 0.0 if end else total
    assert_moments(normaliser.observations, observations)
    assert_moments(normaliser.returns, np.array(totals))
    assert normaliser.open_return is not None
    assert float(normaliser.open_return) == pytest.approx(total, rel=1e-12)

    # Seen through its own statistics, what was seen has mean 0 and variance 1 (but for the thousandth of a sample).
    _, mean, variance = moments_of(observations)
    seen = normalise_observation(normaliser, jnp.asarray(observations))
    np.testing.assert_allclose(seen, (observations - mean) / np.sqrt(variance + 1e-8), rtol=1e-9, atol=1e-9)
    scaled = normalise_reward(normaliser, jnp.asarray(rewards))
    np.testing.assert_allclose(scaled, rewards / np.sqrt(moments_of(np.array(totals))[2] + 1e-8), rtol=1e-9)


def test_a_feature_that_never_varies_becomes_nothing_extreme() -> None:
    rows = np.full((BLOCK, SIZE), 7.0)
    normaliser = init_normaliser(BOTH, SIZE)
    for _ in range(200):
        normaliser = observe(normaliser, jnp.asarray(rows), jnp.zeros(BLOCK), jnp.zeros(BLOCK, bool), 0.9)
    assert np.abs(normalise_observation(normaliser, jnp.full(SIZE, 7.0))).max() < 0.01


def test_before_anything_is_seen_nothing_changes() -> None:
    normaliser = init_normaliser(BOTH, SIZE)
    observation = jnp.array([1.0, -2.0, 3.0])
    np.testing.assert_allclose(normalise_observation(normaliser, observation), observation, rtol=1e-7)
    np.testing.assert_allclose(normalise_reward(normaliser, jnp.asarray(5.0)), 5.0, rtol=1e-7)


def test_constants_scale_and_never_change() -> None:
    settings = NormalisationSettings(scale_observations=True)
    mean, deviation = np.array([1.0, -2.0, 0.0]), np.array([4.0, 0.5, 1.0])
    normaliser = init_normaliser(settings, SIZE, (mean, deviation))
    for sign in (-1, 0, 1):
        seen = normalise_observation(normaliser, jnp.asarray(mean + sign * deviation))
        np.testing.assert_allclose(seen, [sign] * SIZE, atol=1e-15)
    after = observe(normaliser, jnp.ones((BLOCK, SIZE)) * 3, jnp.ones(BLOCK) * 3, jnp.zeros(BLOCK, bool), 0.9)
    assert isinstance(after.observations, Scale)
    assert [each.tolist() for each in after.observations] == [mean.tolist(), deviation.tolist()]
    assert not is_running(normaliser)
    unit = init_normaliser(settings, SIZE)
    assert normalise_observation(unit, jnp.asarray(mean)).tolist() == mean.tolist()


@pytest.mark.parametrize("observations", [False, True])
@pytest.mark.parametrize("rewards", [False, True])
def test_what_is_off_is_absent_and_changes_nothing(observations: bool, rewards: bool) -> None:
    settings = NormalisationSettings(normalise_observations=observations, normalise_rewards=rewards)
    normaliser = init_normaliser(settings, SIZE)
    after = observe(normaliser, jnp.ones((BLOCK, SIZE)) * 3, jnp.ones(BLOCK) * 3, jnp.zeros(BLOCK, bool), 0.9)
    assert (after.observations is not None, after.returns is not None) == (observations, rewards)
    assert (after.open_return is not None) == rewards
    if not observations:
        assert normalise_observation(after, jnp.ones(SIZE)).tolist() == [1.0] * SIZE
    if not rewards:
        assert float(normalise_reward(after, jnp.asarray(2.0))) == 2.0
