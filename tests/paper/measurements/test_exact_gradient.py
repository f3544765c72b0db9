"""The gradient over many rows against a plain loop over them."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
import pytest

import reference
from srgdqn.config import Configuration
from srgdqn.config.configure import configure
from srgdqn.learner.networks import make_network
from srgdqn.paper.measurements import recorded as module
from srgdqn.paper.measurements.recorded import exact_gradient
from translation import CLOSE, distance, flat, mean_gradient, options_of, to_packed, to_parameters

pytestmark = pytest.mark.usefixtures("double")

SIZES = (3, 5, 2)


@functools.cache
def compiled(configuration: Configuration, piece: int) -> Any:
    network = make_network(configuration.network, SIZES[0], SIZES[-1])
    return jax.jit(lambda theta, rows: exact_gradient(configuration, network, theta, rows))


def both(seed: int, count: int, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """What is measured, and what is expected, on a random problem of that many rows."""
    configuration = configure("CartPole", hidden=SIZES[1:-1], **options)
    theta, data, _ = reference.random_problem(seed, SIZES, count, 1)
    parameters = to_parameters(theta, SIZES, configuration.network.activation)
    got = compiled(configuration, module._PIECE)(parameters, to_packed(data))
    assert jax.tree.structure(got) == jax.tree.structure(parameters)
    return flat(got), mean_gradient(options_of(configuration, SIZES), theta, data)


@pytest.mark.parametrize("count", [1, 3, 4, 5, 8, 11])
def test_rows_beyond_whole_pieces_count_as_much_as_the_others(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PIECE", 4)
    got, expected = both(count, count)
    assert distance(got, expected) < CLOSE


@pytest.mark.parametrize(
    "options",
    [
        dict(activation="tanh", gamma=0.5),
        dict(mask_terminal=False),
        dict(loss="huber", huber_delta=0.3),
        dict(differentiation="autodiff"),
    ],
)
def test_it_is_the_gradient_that_the_configuration_asks_for(options: dict[str, Any]) -> None:
    got, expected = both(7, 12, **options)
    assert distance(got, expected) < CLOSE
    plain, _ = both(7, 12)
    assert (distance(got, plain) < CLOSE) == ("differentiation" in options)


def test_y_may_be_frozen_elsewhere() -> None:
    configuration = configure("CartPole", hidden=SIZES[1:-1])
    network = make_network(configuration.network, SIZES[0], SIZES[-1])
    theta, data, _ = reference.random_problem(1, SIZES, 9, 1)
    other, _, _ = reference.random_problem(2, SIZES, 9, 1)
    at, frozen = (to_parameters(each, SIZES, configuration.network.activation) for each in (theta, other))
    got = jax.jit(lambda rows: exact_gradient(configuration, network, at, rows, frozen))(to_packed(data))
    o = options_of(configuration, SIZES)
    assert distance(flat(got), mean_gradient(o, theta, data, other)) < CLOSE
    assert distance(flat(got), mean_gradient(o, theta, data)) > CLOSE


@pytest.mark.parametrize("target", ["outer", "hard", "polyak"])
def test_y_is_at_the_same_theta_unless_it_is_frozen(target: str) -> None:
    np.testing.assert_array_equal(both(3, 9, target=target)[0], both(3, 9)[0])
