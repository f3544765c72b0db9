"""Adam, clipping, schedules and steps against their formulas, and Adam against optax."""

from __future__ import annotations

import functools
import math
from typing import Any

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings

import reference
from srgdqn.config import OptimiserSettings
from srgdqn.learner.optimiser import adam, adam_step, after_copy, clip, init_adam, schedule

STEPS = 50


def as_tree(vector: np.ndarray) -> dict[str, jax.Array]:
    """Seven numbers in the form of some parameters."""
    return dict(bias=jnp.asarray(vector[:1]), weight=jnp.asarray(vector[1:].reshape(2, 3)))


def as_vector(tree: dict[str, jax.Array]) -> np.ndarray:
    return np.concatenate([np.ravel(tree["bias"]), np.ravel(tree["weight"])]).astype(np.float64)


def gradients(seed: int, dtype: Any = np.float64) -> np.ndarray:
    """Fifty gradients of very different sizes, one of them zero."""
    rng = np.random.default_rng(seed)
    drawn = rng.normal(size=(STEPS, 7)) * 10.0 ** rng.uniform(-4, 2, size=(STEPS, 1))
    drawn[rng.integers(STEPS)] = 0
    return drawn.astype(dtype)


@functools.cache
def compiled_adam(denominator: str) -> Any:
    def step(betas: Any, epsilon: Any, state: Any, g: Any) -> Any:
        numbers = dict(beta1=betas[0], beta2=betas[1], adam_epsilon=epsilon)
        return adam(OptimiserSettings(adam_denominator=denominator, **numbers), state, g)

    return jax.jit(step)


betas = st.tuples(st.floats(0, 0.99), st.floats(0.1, 0.9999))


@pytest.mark.parametrize("denominator", ["elementwise", "norm"])
@settings(max_examples=8)
@given(seed=st.integers(0, 999), betas=betas, epsilon=st.floats(1e-10, 0.1))
def test_adam_is_lines_17_to_21(denominator: str, seed: int, betas: tuple[float, float], epsilon: float) -> None:
    chosen = dict(beta1=betas[0], beta2=betas[1], adam_epsilon=epsilon, adam_denominator=denominator)
    o = reference.Options((1, 1), **chosen)
    first = second = np.zeros(7)
    with jax.enable_x64(True):
        state = init_adam(as_tree(np.zeros(7)))
        for s, g in enumerate(gradients(seed), start=1):
            expected, first, second = reference.adam(o, g, first, second, s)
            direction, state = compiled_adam(denominator)(betas, epsilon, state, as_tree(g))
            np.testing.assert_allclose(as_vector(direction), expected, rtol=1e-9, atol=1e-14)
            np.testing.assert_allclose(as_vector(state.first), first, rtol=1e-9, atol=1e-14)
            np.testing.assert_allclose(as_vector(state.second), second, rtol=1e-9, atol=1e-14)
            assert int(state.updates) == s


OPTAX = optax.adam(0.01, b1=0.9, b2=0.999, eps=1e-8)
optax_step = jax.jit(OPTAX.update)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-10), (np.float32, 1e-4)])
@settings(max_examples=5)
@given(seed=st.integers(0, 999))
def test_elementwise_adam_is_that_of_optax(dtype: Any, tolerance: float, seed: int) -> None:
    """In float32 the two may round 1 - β^s, a difference of numbers near 1, differently: some hundred roundings."""
    with jax.enable_x64(dtype == np.float64):
        parameters = as_tree(np.zeros(7, dtype))
        optax_state, state = OPTAX.init(parameters), init_adam(parameters)
        for g in gradients(seed, dtype):
            updates, optax_state = optax_step(as_tree(g), optax_state)
            direction, state = compiled_adam("elementwise")((0.9, 0.999), 1e-8, state, as_tree(g))
            assert jax.tree.leaves(direction)[0].dtype == dtype
            np.testing.assert_allclose(-0.01 * as_vector(direction), as_vector(updates), rtol=tolerance, atol=1e-9)


def test_weight_decay_is_that_of_optax() -> None:
    rule = optax.adamw(0.01, weight_decay=0.3)
    options = OptimiserSettings(weight_decay=0.3)
    with jax.enable_x64(True):
        theta = theirs = as_tree(np.linspace(-1, 1, 7))
        optax_state, state = rule.init(theirs), init_adam(theta)
        for g in gradients(5):
            updates, optax_state = rule.update(as_tree(g), optax_state, theirs)
            theirs = optax.apply_updates(theirs, updates)
            direction, state = adam(options, state, as_tree(g))
            theta = adam_step(options, theta, direction, 0.01)
            np.testing.assert_allclose(as_vector(theta), as_vector(theirs), rtol=1e-10)


def test_first_step_of_the_norm_variant_by_hand() -> None:
    """m̂ = g and v̂ = g², so √‖v̂‖ is the fourth root of the sum of fourth powers."""
    g = np.array([3.0, 0, 0, 0, -4.0, 0, 0])
    with jax.enable_x64(True):
        direction, _ = adam(OptimiserSettings(adam_denominator="norm"), init_adam(as_tree(g)), as_tree(g))
    np.testing.assert_allclose(as_vector(direction), g / ((3.0**4 + 4.0**4) ** 0.25 + 1e-8), rtol=1e-12)


@given(st.lists(st.floats(-100, 100), min_size=7, max_size=7), st.floats(0.01, 100))
def test_clipping_leaves_the_direction_and_bounds_the_length(values: list[float], bound: float) -> None:
    vector = np.array(values)
    length = math.sqrt(sum(value**2 for value in values))
    with jax.enable_x64(True):
        clipped = as_vector(clip(OptimiserSettings(clip_norm=bound), as_tree(vector)))
        untouched = as_vector(clip(OptimiserSettings(clip_norm=None), as_tree(vector)))
    np.testing.assert_array_equal(untouched, vector)
    factor = 1.0 if length <= bound else bound / length
    np.testing.assert_allclose(clipped, factor * vector, rtol=1e-12, atol=1e-300)
    assert np.linalg.norm(clipped) <= bound * (1 + 1e-12)


@given(progress=st.floats(0, 1), end=st.floats(0, 1))
def test_schedules_lead_from_1_to_their_end(progress: float, end: float) -> None:
    with jax.enable_x64(True):
        for name in ("constant", "linear", "cosine"):
            chosen = OptimiserSettings(schedule=name, schedule_end=end)
            last = 1.0 if name == "constant" else end
            assert float(schedule(chosen, 0.0)) == pytest.approx(1, abs=1e-12)
            assert float(schedule(chosen, 1.0)) == pytest.approx(last, abs=1e-12)
            assert float(schedule(chosen, 0.5)) == pytest.approx((1 + last) / 2, abs=1e-12)
            expected = reference.schedule(reference.Options((1, 1), schedule=name, schedule_end=end), progress)
            assert float(schedule(chosen, progress)) == pytest.approx(expected, abs=1e-12)


@settings(max_examples=10)
@given(seed=st.integers(0, 999), betas=betas, before=st.integers(1, STEPS - 1))
def test_after_a_copy_adam_begins_anew_or_believes_its_moments(
    seed: int, betas: tuple[float, float], before: int
) -> None:
    """Anew, its first direction is the sign of the gradient. With the clock alone at 0, old moments count for
    1 / (1 - β) times what they are.
    """
    beta1, beta2 = betas
    given, g = gradients(seed)[:before], gradients(seed + 1)[0] + 1.0
    with jax.enable_x64(True):
        state = init_adam(as_tree(np.zeros(7)))
        for each in given:
            _, state = compiled_adam("elementwise")(betas, 1e-30, state, as_tree(each))
        m, v = as_vector(state.first), as_vector(state.second)
        expected = {
            "keep": compiled_adam("elementwise")(betas, 1e-30, state, as_tree(g))[0],
            "reset": as_tree(np.sign(g)),
            "restart-clock": as_tree((g + beta1 / (1 - beta1) * m) / np.sqrt(g**2 + beta2 / (1 - beta2) * v)),
        }
        for choice, direction in expected.items():
            for copied in (True, False):
                restarted = after_copy(OptimiserSettings(adam_at_copy=choice), state, jnp.asarray(copied))
                found, _ = compiled_adam("elementwise")(betas, 1e-30, restarted, as_tree(g))
                right = direction if copied else expected["keep"]
                np.testing.assert_allclose(as_vector(found), as_vector(right), rtol=1e-9, atol=1e-14)
