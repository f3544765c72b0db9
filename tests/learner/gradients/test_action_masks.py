"""With masks the value of S' is the best that is allowed there, beside plain NumPy and finite differences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from srgdqn.config import GradientSettings, NetworkSettings
from srgdqn.learner.gradients import Transitions, make_gradients, outer_batch
from srgdqn.learner.networks import make_network
from translation import flat, to_parameters, to_transitions

SIZES, ROWS, GAMMA = (3, 4, 5), 6, 0.9
NETWORK = make_network(NetworkSettings(hidden=SIZES[1:-1], activation="tanh"), SIZES[0], SIZES[-1])


@pytest.fixture(autouse=True, scope="module")
def precisely() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def problem(seed: int) -> tuple[np.ndarray, np.ndarray, list[reference.Transition], np.ndarray]:
    """θ_0, a target network's parameters, transitions, and masks that each allow one action or more."""
    rng = np.random.default_rng(seed)
    theta, data, _ = reference.random_problem(seed, SIZES, ROWS, 0)
    masks = rng.random((ROWS, SIZES[-1])) < rng.choice([0.2, 0.5, 0.9])
    masks[np.arange(ROWS), rng.integers(SIZES[-1], size=ROWS)] = True
    return theta, theta + rng.normal(0, 0.5, theta.size), data, masks


def q(theta: np.ndarray, observation: np.ndarray) -> np.ndarray:
    """Q-values in NumPy and double precision."""
    first = SIZES[0] * SIZES[1]
    weight, bias = theta[:first].reshape(SIZES[:2]), theta[first : first + SIZES[1]]
    rest = theta[first + SIZES[1] :]
    last = SIZES[1] * SIZES[2]
    return np.tanh(observation @ weight + bias) @ rest[:last].reshape(SIZES[1:]) + rest[last:]


def by_hand(settings: GradientSettings, online: np.ndarray, target: np.ndarray, data: Any, masks: np.ndarray) -> Any:
    """y of every row: one loop over the allowed actions after the other."""
    frozen = {"current": online, "outer": online}.get(settings.target, target)
    found = []
    for x, mask in zip(data, masks, strict=True):
        allowed = np.flatnonzero(mask)
        chooser = online if settings.bootstrap == "double" else frozen
        best = max(allowed, key=lambda a: q(chooser, x.s_next)[a])
        found.append(x.r + (0.0 if x.terminal else GAMMA * q(frozen, x.s_next)[best]))
    return np.array(found)


def masked(data: list[reference.Transition], masks: np.ndarray) -> Transitions:
    return to_transitions(data)._replace(next_mask=jnp.asarray(masks))


@pytest.mark.parametrize(("target", "bootstrap"), [("outer", "max"), ("hard", "max"), ("polyak", "double")])
@given(st.integers(0, 10_000))
def test_frozen_targets_are_the_best_that_is_allowed(target: Any, bootstrap: str, seed: int) -> None:
    theta, other, data, masks = problem(seed)
    settings = GradientSettings(gamma=GAMMA, target=target, bootstrap=bootstrap)
    parameters, frozen = to_parameters(theta, SIZES, "tanh"), to_parameters(other, SIZES, "tanh")
    batch = outer_batch(settings, NETWORK, masked(data, masks), parameters, frozen)
    np.testing.assert_allclose(batch.frozen_target, by_hand(settings, theta, other, data, masks), rtol=1e-9, atol=1e-9)
    assert batch.next_mask is None  # y has it already
    everything = outer_batch(settings, NETWORK, masked(data, np.ones_like(masks)), parameters, frozen)
    plain = outer_batch(settings, NETWORK, to_transitions(data), parameters, frozen)
    np.testing.assert_array_equal(everything.frozen_target, plain.frozen_target)


@pytest.mark.parametrize("differentiation", ["closed-form", "autodiff"])
@pytest.mark.parametrize("seed", range(4))
def test_moving_targets_are_so_at_every_theta(differentiation: Any, seed: int) -> None:
    """Also in the two gradients of a pair, whose difference goes to zero as the two θ meet."""
    theta, direction, data, masks = problem(seed)
    settings = GradientSettings(gamma=GAMMA, target="current", differentiation=differentiation)
    source = make_gradients(settings, NETWORK)
    batch = outer_batch(settings, NETWORK, masked(data, masks), to_parameters(theta, SIZES, "tanh"), None)
    picks = batch.rows(jnp.array([[0, 1, 2], [3, 3, 5]]))

    def loss(at: np.ndarray, targets: np.ndarray, rows: Any = slice(None)) -> float:
        values = [q(at, x.s)[x.a] for x in data]
        return float(np.mean(((np.array(values) - targets) ** 2)[rows]))

    def gradients(at: np.ndarray) -> list[np.ndarray]:
        parameters = to_parameters(at, SIZES, "tanh")
        of_picks, _, _ = source.query(parameters, picks)
        dense = [source.dense(jax.tree.map(lambda leaf, k=k: leaf[k], of_picks)) for k in range(2)]
        return [flat(each) for each in (source.mean(parameters, batch)[0], *dense)]

    y, h = by_hand(settings, theta, theta, data, masks), 1e-6
    for rows, found in zip((slice(None), [0, 1, 2], [3, 3, 5]), gradients(theta), strict=True):
        unit = np.eye(theta.size)
        expected = [(loss(theta + h * e, y, rows) - loss(theta - h * e, y, rows)) / (2 * h) for e in unit]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
    near = [np.linalg.norm(gradients(theta + t * (direction - theta))[1] - gradients(theta)[1]) for t in (1e-3, 1e-6)]
    assert near[1] < 1e-2 * near[0] + 1e-12
