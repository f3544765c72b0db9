"""Greedy actions in NumPy beside those of the network's own program and of double precision."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from srgdqn.adapters.policy import CompiledPolicy, NumPyPolicy
from srgdqn.config import NetworkSettings
from srgdqn.learner.networks import Network, make_network
from srgdqn.learner.normalisation import Moments, Normaliser, normalise_observation
from srgdqn.training.host.evaluation import policy_of
from translation import flat

INPUTS, ACTIONS = 3, 4


@functools.cache
def network_of(activation: str, hidden: tuple[int, ...]) -> tuple[Network, Any, Callable[..., jax.Array]]:
    """The network, its parameters' shapes, and its Q-values' program."""
    network = make_network(NetworkSettings(hidden=hidden, activation=activation), INPUTS, ACTIONS)

    def q_values(parameters: Any, moments: Any, rows: jax.Array) -> jax.Array:
        return network.q_values(parameters, normalise_observation(Normaliser(moments, None, None), rows))

    return network, eqx.filter_eval_shape(network.init, jax.random.key(0)), jax.jit(q_values)


@pytest.mark.parametrize(
    ("activation", "hidden"), [("relu", (6, 5)), ("tanh", (6, 5)), ("softplus", (6, 5)), ("relu", ())]
)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.floats(0.01, 100))
def test_it_acts_as_the_network_does(
    activation: str, hidden: tuple[int, ...], seed: int, normalises: bool, size: float
) -> None:
    random = np.random.default_rng(seed)
    network, shapes, q_values = network_of(activation, hidden)
    parameters = jax.tree.map(lambda leaf: random.normal(size=leaf.shape).astype(np.float32), shapes)
    mean, variance = random.normal(size=INPUTS), random.uniform(0.1, 9, INPUTS)
    moments = Moments(np.float32(9), mean.astype(np.float32), variance.astype(np.float32)) if normalises else None
    normaliser = Normaliser(moments, None, None)
    rows = (size * random.normal(size=(6, INPUTS))).astype(np.float32)
    policy = policy_of(network, parameters, normaliser)
    assert type(policy) is NumPyPolicy
    chosen = policy.rows(rows)
    assert chosen.tolist() == [policy.one(row) for row in rows]

    seen = (rows - mean) / np.sqrt(variance + 1e-8) if normalises else rows.astype(np.float64)
    options = reference.Options((INPUTS, *hidden, ACTIONS), activation=activation)
    exact = np.array([reference.q_values(options, flat(parameters), row) for row in seen])
    compiled = np.asarray(q_values(parameters, moments, rows))
    near = 1e-5 * (1 + np.abs(exact).max())  # two actions so near each other are a tie within rounding
    np.testing.assert_allclose(compiled, exact, atol=near)
    assert (exact.max(1) - exact[np.arange(len(rows)), chosen] <= near).all()


def test_new_parameters_are_taken_into_use() -> None:
    _, shapes, _ = network_of("relu", ())
    policy, nothing = NumPyPolicy("relu"), Normaliser(None, None, None)
    seen = np.ones((2, INPUTS), np.float32)
    for best in (2, 0, 1):
        bias = np.eye(ACTIONS, dtype=np.float32)[best]
        flat_q = jax.tree.map(lambda leaf, bias=bias: bias if leaf.ndim == 1 else np.zeros(leaf.shape, "f"), shapes)
        policy.update(flat_q, nothing)
        assert policy.one(seen[0]) == best
    policy.update(jax.tree.map(lambda leaf: np.zeros(leaf.shape, np.float32), shapes), nothing)
    assert policy.rows(seen).tolist() == [0, 0]  # the first of the best


def test_any_other_network_acts_by_its_program() -> None:
    policy = CompiledPolicy(lambda parameters, _, rows: (parameters * rows).argmax(-1))
    policy.update(np.array([1.0, -1.0]), None)
    assert policy.rows(np.array([[1.0, 1.0], [-1.0, 1.0], [-2.0, -1.0]])).tolist() == [0, 0, 1]
    assert policy.one(np.array([-1.0, -3.0])) == 1
