"""Gradients of the convolutional network: partly in closed form, by autodiff, and as differences of NumPy's losses."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import numpy_cnn
from srgdqn.config import GradientSettings, NetworkSettings
from srgdqn.errors import InputError
from srgdqn.learner.gradients import Transitions, make_batch, make_gradients
from srgdqn.learner.networks import CNN, make_network

SHAPE, ACTIONS, ROWS = (2, 37, 40), 3, 4
PICKS = np.array([[0, 1], [3, 3], [2, 0]])  # k = 3 picks of b = 2 rows, one of them drawn twice
GAMMA = 0.9


def transitions() -> Transitions:
    rng = np.random.default_rng(0)
    before, after = rng.integers(0, 256, (2, ROWS, *SHAPE), dtype=np.uint8)
    ends = np.array([0.0, 1.0, 0.0, 0.0])
    return Transitions(before, rng.integers(0, ACTIONS, ROWS).astype(np.int32), rng.normal(size=ROWS), after, ends)


def network_of(activation: str) -> Any:
    return make_network(NetworkSettings(hidden=(6, 5), network="cnn", activation=activation), SHAPE, ACTIONS)


def gradients(differentiation: str, activation: str, loss: str, frozen: bool) -> tuple[CNN, list[CNN], Any]:
    """The parameters, the gradients of the picks and of the batch, and their losses and mean maxima."""
    chosen = GradientSettings(
        gamma=GAMMA, mask_terminal=True, differentiation=differentiation, loss=loss, huber_delta=0.5
    )
    network = network_of(activation)
    source = make_gradients(chosen, network)
    theta, other = (network.init(jax.random.key(seed)) for seed in (1, 2))

    @jax.jit
    def ask(theta: CNN, other: CNN, rows: Transitions) -> Any:
        batch = make_batch(chosen, network, rows, other if frozen else None)
        compact, losses, best = source.query(theta, batch.rows(PICKS))
        dense = [source.dense(jax.tree.map(lambda leaf, k=k: leaf[k], compact)) for k in range(len(PICKS))]
        full, loss, max_q = source.mean(theta, batch)
        return [*dense, full], jnp.append(losses, loss), jnp.append(best, max_q)

    found, losses, best = ask(theta, other, transitions())
    return theta, found, (losses, best)


@pytest.mark.parametrize(("activation", "loss", "frozen"), [("relu", "squared", False), ("tanh", "huber", True)])
def test_both_ways_agree(activation: str, loss: str, frozen: bool) -> None:
    with jax.enable_x64(True):
        _, mine, about = gradients("auto", activation, loss, frozen)
        _, other, about_other = gradients("autodiff", activation, loss, frozen)
    for found, expected in zip(mine, other, strict=True):
        assert jax.tree.structure(found) == jax.tree.structure(expected)
        for leaf, expected_leaf in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(leaf, expected_leaf, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(about, about_other, rtol=1e-12)


@pytest.mark.parametrize("differentiation", ["auto", "autodiff"])
def test_gradients_are_differences_of_losses(differentiation: str) -> None:
    """Along random directions, and along one coordinate of each array, the targets being held constant."""
    rows = transitions()
    with jax.enable_x64(True):
        theta, found, (losses, _) = gradients(differentiation, "tanh", "squared", False)
    next_q = np.array([numpy_cnn.q_values(theta, image) for image in rows.next_observation])
    targets = rows.reward + GAMMA * (1 - rows.terminated) * next_q.max(-1)

    def loss(parameters: CNN) -> np.ndarray:
        q = np.array([numpy_cnn.q_values(parameters, image) for image in rows.observation])
        return (q[np.arange(ROWS), rows.action] - targets) ** 2

    groups = [*PICKS, np.arange(ROWS)]
    at_theta = loss(theta)
    np.testing.assert_allclose(losses, [at_theta[group].mean() for group in groups], rtol=1e-10)

    rng, h = np.random.default_rng(1), 1e-5
    leaves, structure = jax.tree.flatten(theta)
    directions = [[rng.normal(size=leaf.shape) / np.sqrt(leaf.size) for leaf in leaves]]
    for chosen in range(len(leaves)):
        directions.append([np.zeros(leaf.shape) for leaf in leaves])
        directions[-1][chosen].flat[rng.integers(leaves[chosen].size)] = 1
    for direction in directions:
        ends = [
            loss(jax.tree.unflatten(structure, [np.asarray(x) + s * d for x, d in zip(leaves, direction, strict=True)]))
            for s in (h, -h)
        ]
        slopes = (ends[0] - ends[1]) / (2 * h)
        for group, gradient in zip(groups, found, strict=True):
            parts = zip(jax.tree.leaves(gradient), direction, strict=True)
            along = sum(float((np.asarray(leaf) * d).sum()) for leaf, d in parts)
            assert along == pytest.approx(slopes[group].mean(), rel=1e-6, abs=1e-8)


def test_a_network_of_ones_own_beside_the_built_in_one_goes_by_autodiff() -> None:
    class Doubled(CNN):
        def __call__(self, x: jax.Array) -> jax.Array:
            return 2 * super().__call__(x)

    plain = network_of("relu").init(jax.random.key(1))
    doubled = make_network(NetworkSettings(), SHAPE, ACTIONS, Doubled(plain.convolutions, plain.layers, "relu"))
    chosen = GradientSettings(differentiation="auto")
    theta = doubled.init(jax.random.key(0))
    batch = make_batch(chosen, doubled, jax.tree.map(jnp.asarray, transitions()), theta)
    found, _, max_q = jax.jit(make_gradients(chosen, doubled).mean)(theta, batch)
    np.testing.assert_allclose(max_q, 2 * plain(batch.observation).max(-1).mean(), rtol=1e-5)
    assert isinstance(found, Doubled)


def test_closed_form_is_refused() -> None:
    with pytest.raises(InputError, match=r"'closed-form' needs the built-in perceptron"):
        make_gradients(GradientSettings(differentiation="closed-form"), network_of("relu"))


def test_structure_holds_no_arrays() -> None:
    """Or a compiled program would hold a network of its own."""
    assert not [leaf for leaf in jax.tree.leaves(network_of("relu").structure) if eqx.is_array(leaf)]
