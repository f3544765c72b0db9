"""Shaped rewards against the formulas of the readings (rows 17 and 18), as functions of the state reached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from srgdqn.tasks.cart_pole import CartPole
from srgdqn.tasks.mountain_car import MountainCar
from srgdqn.tasks.pendulum import Pendulum

TOLERANCE = {"float32": 2e-6, "float64": 1e-12}

TWELVE_DEGREES = np.pi / 15


def rewards(environment: Any, states: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    def step(state: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        reached = environment.transition(state, action, None)
        return reached, environment.reward(state, action, reached, None)

    reached, found = jax.jit(jax.vmap(step))(jnp.asarray(states), jnp.asarray(actions, jnp.int32))
    assert found.dtype == states.dtype
    assert found.shape == (len(states),)
    return np.asarray(reached, np.float64), np.asarray(found, np.float64)


@pytest.mark.parametrize(
    ("reward", "formula"),
    [
        ("height", lambda x: 0.45 * np.sin(3 * x) + 0.55),
        ("distance", lambda x: np.where(x > -0.5, x + 0.5, -0.5 - x)),
        ("raw", lambda x: -1 + 0 * x),
    ],
)
def test_mountain_car(mountain_car_cases: Any, precision: str, reward: Any, formula: Callable[[Any], Any]) -> None:
    states, actions = mountain_car_cases.states.astype(precision), mountain_car_cases.actions
    reached, found = rewards(MountainCar(reward=reward), states, actions)
    np.testing.assert_allclose(found, formula(reached[:, 0]), rtol=0, atol=TOLERANCE[precision])


@pytest.mark.parametrize(
    ("reward", "formula"),
    [
        ("position-and-angle", lambda x, a: 0.7 - np.abs(x) / 2.4 - np.abs(a) / TWELVE_DEGREES),
        ("upright-cosine", lambda x, a: np.cos(a)),
        ("raw", lambda x, a: 1 + 0 * x),
    ],
)
def test_cart_pole(cart_pole_cases: Any, precision: str, reward: Any, formula: Callable[[Any, Any], Any]) -> None:
    states, actions = cart_pole_cases.states.astype(precision), cart_pole_cases.actions
    reached, found = rewards(CartPole(reward=reward), states, actions)
    np.testing.assert_allclose(found, formula(reached[:, 0], reached[:, 2]), rtol=0, atol=TOLERANCE[precision])


def test_defaults_are_the_papers() -> None:
    """The first options of rows 17 to 19 and 22."""
    hill_top = MountainCar().reward(None, None, jnp.array([np.pi / 6, 0.0]))  # type: ignore[arg-type]
    assert float(hill_top) == pytest.approx(1.0)
    centred = CartPole().reward(None, None, jnp.zeros(4))  # type: ignore[arg-type]
    assert float(centred) == pytest.approx(0.7)
    # From 8 rad/s hanging level, torque 2 makes 8 + (15 + 6)/20 = 9.05 rad/s: v0 turns by 9.05/20, then clips to 8.
    swung = Pendulum().transition(jnp.array([np.pi / 2, 8.0]), jnp.asarray(11))
    assert swung.tolist() == pytest.approx([np.pi / 2 + 9.05 / 20, 8.0])
