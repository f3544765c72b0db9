"""Targets from several copies, beside rules and estimators of the user's own; the outer iterations themselves are
compared with the plain program in `test_outer_iteration`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import numpy_cnn
import reference
from srgdqn.config import Configuration, GradientSettings, NetworkSettings
from srgdqn.config.configure import configure
from srgdqn.config.discovery import OWN_RULES
from srgdqn.learner.estimators import ESTIMATORS, Direction, Estimator, Query, register_estimator
from srgdqn.learner.gradients import Transitions, make_gradients, outer_batch
from srgdqn.learner.networks import make_network
from srgdqn.learner.outer_iteration import init_learner, outer_iteration
from srgdqn.learner.own_rules import register_bootstrap
from translation import CLOSE, flat, options_of, to_parameters, to_transitions

SIZES, ROWS, INNER, COPIES = (3, 4, 3), 6, 3, 3


@pytest.fixture(autouse=True)
def registries() -> Iterator[None]:
    before = dict(OWN_RULES["bootstrap"]), dict(ESTIMATORS)
    yield
    for registry, kept in zip((OWN_RULES["bootstrap"], ESTIMATORS), before, strict=True):
        registry.clear()
        registry.update(kept)


def configured(name: str = "srg-dqn", **options: Any) -> Configuration:
    sizes: dict[str, Any] = dict(hidden=SIZES[1:-1], batch_size=ROWS, inner_iterations=INNER, inner_batch=1)
    return configure("CartPole", name, **sizes, target="hard", target_networks=COPIES, **options)


def copies(seed: int) -> np.ndarray:
    """One θ in each row."""
    return np.array([reference.random_problem(seed + k, SIZES, 0, 0)[0] for k in range(COPIES)])


def stacked(thetas: np.ndarray, activation: str = "relu") -> Any:
    each = [to_parameters(theta, SIZES, activation) for theta in thetas]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)


def iterated(configuration: Configuration, seed: int, **given: Any) -> tuple[Any, Any]:
    theta, data, picks = reference.random_problem(seed, SIZES, ROWS, INNER)
    network = make_network(configuration.network, SIZES[0], SIZES[-1])
    state = init_learner(configuration, to_parameters(theta, SIZES))._replace(target=stacked(copies(seed + 50)))
    run = jax.jit(lambda *traced: outer_iteration(configuration, network, *traced, **given))
    after: tuple[Any, Any] = run(state, to_transitions(data), jnp.asarray(picks))
    return after


def test_a_rule_of_the_users_sees_the_mean() -> None:
    """As Double DQN it is the built-in one; and the newest copy alone is a network like any other."""
    seen: list[tuple[int, int]] = []

    def mine(q: Any, frozen: Any, online: Any) -> Any:
        newest = jax.tree.map(lambda leaf: leaf[0], frozen)
        seen.append((q(newest).ndim, q(frozen).ndim))
        return jnp.take_along_axis(q(frozen), q(online).argmax(-1)[..., None], axis=-1)[..., 0]

    register_bootstrap("mine", mine)
    with jax.enable_x64(True):
        own, built_in = (iterated(configured(bootstrap=rule), 3)[0] for rule in ("mine", "double"))
    np.testing.assert_array_equal(flat(own.parameters), flat(built_in.parameters))
    assert set(seen) == {(2, 2)}


def test_copies_by_environment_steps_shift_before_the_targets() -> None:
    """θ_0 is then the newest of the copies behind y, and the oldest is forgotten."""
    configuration = configured("dqn-sgd", target_update_interval=8)
    o, theta = options_of(configuration, SIZES), reference.random_problem(7, SIZES, ROWS, INNER)[0]
    data, before = reference.random_problem(7, SIZES, ROWS, INNER)[1], copies(57)
    for renewed in (False, True):
        with jax.enable_x64(True):
            state, trace = iterated(configuration, 7, renewed=jnp.asarray(renewed))
        behind = np.array([theta, *before[:-1]]) if renewed else before
        expected = [reference.gradient(o, theta, x, reference.bellman_target(o, behind, x)) for x in data]
        np.testing.assert_allclose(flat(trace.last_delta), np.mean(expected, axis=0), atol=CLOSE)
        np.testing.assert_allclose(flat(state.target, axes=1), behind, atol=CLOSE)


def test_an_estimator_is_given_the_copies() -> None:
    """What y is computed with: the form that `Query` says, after a copy that is due."""
    shapes: list[Any] = []

    def direction(state: Any, theta: Any, previous: Any, query: Query) -> Direction:
        shapes.append(jax.tree.map(lambda copy, own: copy.shape == (COPIES, *own.shape), query.target, theta))
        newest = jax.tree.map(lambda leaf: leaf[0], query.target)
        return Direction(newest, newest, None)

    register_estimator("curious", Estimator(direction, queries=lambda w: 0, evaluations=lambda w: 0))
    configuration = configured(estimator="curious", target_update_interval=8)
    theta = reference.random_problem(9, SIZES, ROWS, INNER)[0]
    _, trace = iterated(configuration, 9, renewed=jnp.asarray(True))
    assert all(jax.tree.leaves(shapes))
    np.testing.assert_allclose(flat(trace.last_delta), theta, rtol=1e-6)


@pytest.mark.parametrize("bootstrap", ["max", "double", "munchausen"])
def test_the_two_gradients_of_a_pair_have_the_same_targets(bootstrap: str) -> None:
    """Their difference goes to zero as the two θ meet, in proportion to how far they are apart."""
    configuration = configured(activation="tanh", differentiation="autodiff", bootstrap=bootstrap)
    theta, data, _ = reference.random_problem(11, SIZES, ROWS, INNER)
    way = reference.random_problem(12, SIZES, ROWS, INNER)[0]
    network = make_network(configuration.network, SIZES[0], SIZES[-1])
    with jax.enable_x64(True):
        at = to_parameters(theta, SIZES, "tanh")
        target = stacked(copies(60), "tanh")
        batch = outer_batch(configuration.gradients, network, to_transitions(data), at, target)
        source = make_gradients(configuration.gradients, network)
        apart = [1e-2, 1e-4, 1e-6]
        nearby = [flat(source.mean(to_parameters(theta + by * way, SIZES, "tanh"), batch)[0]) for by in apart]
        here = flat(source.mean(at, batch)[0])
    ratios = [np.linalg.norm(there - here) / by for there, by in zip(nearby, apart, strict=True)]
    np.testing.assert_allclose(ratios[1:], ratios[-1], rtol=1e-2)
    assert ratios[-1] > 0.1


def test_of_images_it_is_the_mean_as_well() -> None:
    """y of a convolutional network, by NumPy."""
    shape, rng = (2, 37, 40), np.random.default_rng(0)
    images = rng.integers(0, 256, (2, 2, *shape), dtype=np.uint8)
    rows = Transitions(images[0], np.array([0, 1]), rng.normal(size=2), images[1], np.zeros(2))
    gradients = GradientSettings(target="hard", target_networks=COPIES, gamma=0.9)
    network = make_network(NetworkSettings(hidden=(5,), network="cnn"), shape, 3)
    with jax.enable_x64(True):
        each = [network.init(jax.random.key(seed)) for seed in range(COPIES)]
        target = jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)
        batch = jax.jit(lambda *given: outer_batch(gradients, network, *given))(rows, each[0], target)
    q = np.array([[numpy_cnn.q_values(one, image) for image in images[1]] for one in each])
    assert (q.max(-1).mean(0) > q.mean(0).max(-1) + 1e-4).all()  # a mean of maxima would be another number
    np.testing.assert_allclose(batch.frozen_target, rows.reward + 0.9 * q.mean(0).max(-1), rtol=1e-9)
