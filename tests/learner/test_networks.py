"""Networks: what they compute, how they start, and the errors for a module that does not fit."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings

import numpy_cnn
import reference
from srgdqn.config import NetworkSettings
from srgdqn.errors import InputError
from srgdqn.learner.convolution import convolve
from srgdqn.learner.networks import MLP, make_network
from translation import to_parameters


@pytest.mark.parametrize("activation", ["relu", "tanh", "softplus"])
@pytest.mark.parametrize("hidden", [(4,), (5, 3)])
@settings(max_examples=10)
@given(seed=st.integers(0, 999), spread=st.floats(0.01, 30))
def test_q_values_are_the_references(activation: str, hidden: tuple[int, ...], seed: int, spread: float) -> None:
    sizes = (3, *hidden, 2)
    theta, data, _ = reference.random_problem(seed, sizes, 4, 0, spread=spread)
    o = reference.Options(sizes, activation)
    expected = np.array([reference.q_values(o, theta, x.s) for x in data])
    with jax.enable_x64(True):
        network = make_network(NetworkSettings(hidden=hidden, activation=activation), 3, 2)
        parameters = to_parameters(theta, sizes, activation)
        rows = network.q_values(parameters, jnp.asarray(np.array([x.s for x in data])))
        single = network.module(parameters)(jnp.asarray(data[0].s))
    np.testing.assert_allclose(rows, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(single, expected[0], rtol=1e-12, atol=1e-12)


def test_lecun_uniform_has_its_bounds_its_variance_and_zero_biases() -> None:
    sizes = (40, 300, 200)
    network = make_network(NetworkSettings(hidden=(300,), initialisation="lecun-uniform"), 40, 200)
    parameters = network.init(jax.random.key(1))
    assert len(parameters.layers) == 2
    for fan_in, outputs, layer in zip(sizes[:-1], sizes[1:], parameters.layers, strict=True):
        weight, bound = np.asarray(layer.weight, np.float64), np.sqrt(3 / fan_in)
        assert weight.shape == (fan_in, outputs)
        assert np.abs(weight).max() <= bound * (1 + 1e-6)
        assert np.abs(weight).max() > 0.99 * bound
        assert weight.var() == pytest.approx(1 / fan_in, rel=0.05)
        assert scipy.stats.kstest(weight.ravel() / bound, "uniform", (-1, 2)).pvalue > 1e-3
        np.testing.assert_array_equal(layer.bias, np.zeros(outputs))


def test_normal_has_its_spread_and_its_biases() -> None:
    network = make_network(NetworkSettings(hidden=(300,), initialisation="normal"), 40, 200)
    for layer in network.init(jax.random.key(2)).layers:
        weight = np.asarray(layer.weight, np.float64).ravel()
        assert scipy.stats.kstest(weight, "norm", (0, 0.3)).pvalue > 1e-3
        assert weight.std() == pytest.approx(0.3, rel=0.05)
        np.testing.assert_array_equal(layer.bias, np.full(layer.bias.shape, 0.1, np.float32))


def test_pytorchs_weights_and_biases_are_uniform_within_the_root_of_their_inputs() -> None:
    network = make_network(NetworkSettings(hidden=(300,), initialisation="pytorch"), 40, 200)
    for fan_in, layer in zip((40, 300), network.init(jax.random.key(3)).layers, strict=True):
        for values in (layer.weight, layer.bias):
            scaled = np.asarray(values, np.float64).ravel() * np.sqrt(fan_in)
            assert np.abs(scaled).max() <= 1 + 1e-6
            assert scipy.stats.kstest(scaled, "uniform", (-1, 2)).pvalue > 1e-3


def test_pytorchs_convolutions_count_the_pixels_that_they_see() -> None:
    settings_ = NetworkSettings(hidden=(5,), network="cnn", initialisation="pytorch")
    parameters = make_network(settings_, (4, 84, 84), 6).init(jax.random.key(0))
    for fan_in, layer in zip((4 * 8 * 8, 32 * 4 * 4, 64 * 3 * 3), parameters.convolutions, strict=True):
        for values in (layer.weight, layer.bias):
            scaled = np.asarray(values, np.float64).ravel() * np.sqrt(fan_in)
            assert scipy.stats.kstest(scaled, "uniform", (-1, 2)).pvalue > 1e-3


@pytest.mark.parametrize("initialisation", ["lecun-uniform", "normal", "pytorch"])
def test_draws_follow_the_key_and_differ_between_layers(initialisation: str) -> None:
    network = make_network(NetworkSettings(hidden=(4, 4), initialisation=initialisation), 4, 4)
    first, again, other = (network.init(jax.random.key(seed)) for seed in (0, 0, 1))
    weights = [np.asarray(layer.weight) for layer in first.layers]
    for layer, repeated, different in zip(first.layers, again.layers, other.layers, strict=True):
        np.testing.assert_array_equal(layer.weight, repeated.weight)
        assert not np.array_equal(layer.weight, different.weight)
    assert not np.array_equal(weights[0], weights[1])
    assert not np.array_equal(weights[1], weights[2])


# The convolutional network


IMAGES = NetworkSettings(hidden=(5,), network="cnn")


def images(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


@pytest.mark.parametrize(
    ("activation", "shape"), [("tanh", (1, 36, 36)), ("relu", (4, 84, 84)), ("relu", (3, 41, 54))], ids=str
)
def test_q_values_of_images_are_those_of_numpy(activation: str, shape: tuple[int, ...]) -> None:
    rows = images(0, 2, *shape)
    with jax.enable_x64(True):
        settings_ = NetworkSettings(hidden=(5,), network="cnn", activation=activation, initialisation="normal")
        network = make_network(settings_, shape, 3)
        parameters = jax.tree.map(lambda leaf: leaf / 3, network.init(jax.random.key(1)))
        expected = np.array([numpy_cnn.q_values(parameters, row) for row in rows])
        module = network.module(parameters)
        for number in (np.uint8, np.float64):
            given = jnp.asarray(rows.astype(number))
            np.testing.assert_allclose(network.q_values(parameters, given), expected, rtol=1e-11)
            np.testing.assert_allclose(module(given[0]), expected[0], rtol=1e-11)
            np.testing.assert_allclose(module(given[None])[0], expected, rtol=1e-11)
    assert np.std(expected) > 0


def test_convolutions_are_those_of_the_nature_network() -> None:
    parameters = make_network(NetworkSettings(hidden=(512,), network="cnn"), (4, 84, 84), 6).init(jax.random.key(0))
    shapes = [leaf.shape for leaf in jax.tree.leaves(parameters.convolutions)]
    assert shapes == [(32, 4, 8, 8), (32,), (64, 32, 4, 4), (64,), (64, 64, 3, 3), (64,)]
    assert [convolution.stride for convolution in parameters.convolutions] == [4, 2, 1]
    assert [layer.weight.shape for layer in parameters.layers] == [(3136, 512), (512, 6)]
    paths = [jax.tree_util.keystr(p, simple=True, separator=".") for p, _ in jax.tree.leaves_with_path(parameters)]
    assert paths[:2] == ["convolutions.0.weight", "convolutions.0.bias"]
    assert paths[-2:] == ["layers.1.weight", "layers.1.bias"]


def test_convolutions_start_by_their_fan_in() -> None:
    parameters = make_network(NetworkSettings(hidden=(512,), network="cnn"), (4, 84, 84), 6).init(jax.random.key(1))
    for part in (*parameters.convolutions, *parameters.layers[:1]):
        weight = np.asarray(part.weight, np.float64)
        fan_in = weight[0].size if weight.ndim == 4 else weight.shape[0]
        bound = np.sqrt(3 / fan_in)
        assert 0.99 * bound < np.abs(weight).max() <= bound * (1 + 1e-6)
        assert weight.var() == pytest.approx(1 / fan_in, rel=0.05)
        assert scipy.stats.kstest(weight.ravel() / bound, "uniform", (-1, 2)).pvalue > 1e-3
        assert not np.asarray(part.bias).any()


@settings(max_examples=8)
@given(
    seed=st.integers(0, 999),
    rows=st.integers(1, 3),
    channels=st.integers(1, 3),
    filters=st.integers(1, 3),
    kernel=st.integers(1, 4),
    stride=st.integers(1, 3),
    extra=st.tuples(st.integers(0, 5), st.integers(0, 5)),
)
def test_a_convolution_pulls_back_what_jax_finds(
    seed: int, rows: int, channels: int, filters: int, kernel: int, stride: int, extra: tuple[int, int]
) -> None:
    """The pullback of our own against that of the convolution in the order of the definition, (rows, C, H, W)."""
    draw = np.random.default_rng(seed).normal
    with jax.enable_x64(True):
        x = jnp.asarray(draw(size=(rows, channels, kernel + extra[0], kernel + extra[1])))
        weight = jnp.asarray(draw(size=(filters, channels, kernel, kernel)))
        expected, pull = jax.vjp(lambda x, w: jax.lax.conv(x, w, (stride, stride), "VALID"), x, weight)

        def ours(x: jax.Array, w: jax.Array) -> jax.Array:
            return convolve(x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0), stride).transpose(0, 3, 1, 2)

        found, our_pull = jax.vjp(ours, x, weight)
        deltas = jnp.asarray(draw(size=expected.shape))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
        for mine, other in zip(our_pull(deltas), pull(deltas), strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("observation", [4, (4,), (84, 84), (4, 35, 84), (4, 84, 35), (84, 84, 4)])
def test_observations_that_are_no_images_are_refused(observation: int | tuple[int, ...]) -> None:
    expected = r"'cnn' is for images of shape \(channels, height, width\) with sides of 36 or more, but an observation"
    with pytest.raises(InputError, match=expected):
        make_network(IMAGES, observation, 2)


def test_a_perceptron_takes_flattened_images() -> None:
    network = make_network(NetworkSettings(hidden=(5,)), (2, 3, 4), 2)
    assert network.init(jax.random.key(0)).layers[0].weight.shape == (24, 5)


# Modules of the user's own


def make_module(key: Any, outputs: int = 2) -> eqx.nn.MLP:
    return eqx.nn.MLP(3, outputs, 4, depth=1, key=key)


def test_a_module_is_where_every_round_starts() -> None:
    module = make_module(jax.random.key(5))
    network = make_network(NetworkSettings(), 3, 2, module)
    observations = jnp.arange(12.0).reshape(4, 3)
    for seed in (0, 1):
        parameters = network.init(jax.random.key(seed))
        np.testing.assert_array_equal(network.q_values(parameters, observations), jax.vmap(module)(observations))
    assert not network.is_mlp


def test_a_factory_gives_every_round_its_own_start() -> None:
    network = make_network(NetworkSettings(), 3, 2, make_module)
    observations = jnp.arange(12.0).reshape(4, 3)
    starts = [network.init(jax.random.key(seed)) for seed in (0, 1)]
    for seed, start in enumerate(starts):
        expected = jax.vmap(make_module(jax.random.key(seed)))(observations)
        np.testing.assert_allclose(network.q_values(start, observations), expected, rtol=1e-6)
    assert not np.array_equal(starts[0].layers[0].weight, starts[1].layers[0].weight)


def test_the_built_in_perceptron_is_known_again_when_it_is_given() -> None:
    settings_ = NetworkSettings(hidden=(4,))
    start = make_network(settings_, 3, 2).init(jax.random.key(3))
    network = make_network(settings_, 3, 2, start)
    assert network.is_mlp
    np.testing.assert_array_equal(network.init(jax.random.key(0)).layers[0].weight, start.layers[0].weight)


class Reordered(eqx.Module):
    """A network that holds an array of whole numbers, which is no parameter."""

    order: jax.Array
    linear: eqx.nn.Linear

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.linear(x[self.order])


def test_arrays_of_whole_numbers_are_structure() -> None:
    """What is learned is a module's inexact arrays; the rest is its structure."""
    module = Reordered(jnp.array([2, 0, 1]), eqx.nn.Linear(3, 2, key=jax.random.key(0)))
    network = make_network(NetworkSettings(), 3, 2, module)
    parameters = network.init(jax.random.key(0))
    assert parameters.order is None
    observations = jnp.arange(12.0).reshape(4, 3)
    np.testing.assert_array_equal(network.q_values(parameters, observations), jax.vmap(module)(observations))


class Pair(eqx.Module):
    """A network that gives more than Q-values."""

    linear: eqx.nn.Linear

    def __call__(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return self.linear(x), x


def wants_a_tensor(given: object) -> eqx.Module:
    raise TypeError("argument 'input' must be Tensor, not PRNGKeyArray")


OTHER_OUTPUTS = (
    r"maps an observation of shape \(3,\) to an output of shape \(5,\), but the task has 2 actions\. "
    r"Give an equinox module with an output of shape \(2,\)\."
)


@pytest.mark.parametrize(
    ("module", "observation", "problem"),
    [
        (make_module(jax.random.key(0), 5), 3, OTHER_OUTPUTS),
        (lambda key: make_module(key, 5), 3, OTHER_OUTPUTS),
        (Pair(eqx.nn.Linear(3, 2, key=jax.random.key(0))), 3, r"the task has 2 actions\. Give an equinox module with"),
        (make_module(jax.random.key(0)), 7, r"cannot take an observation of shape \(7,\): .*maps one flat observation"),
        (wants_a_tensor, 4, r"TypeError \(argument 'input' must be Tensor.*function from a random key"),
    ],
)
def test_a_module_that_does_not_fit_is_refused(module: Any, observation: int, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        make_network(NetworkSettings(network="mine"), observation, 2, module)


def test_a_subclass_of_the_perceptron_is_differentiated_as_it_is() -> None:
    class Doubled(MLP):
        def __call__(self, x: jax.Array) -> jax.Array:
            return 2 * super().__call__(x)

    plain = make_network(NetworkSettings(hidden=(3,)), 2, 2).init(jax.random.key(0))
    network = make_network(NetworkSettings(), 2, 2, Doubled(plain.layers, plain.activation))
    assert not network.is_mlp
    x = jnp.ones((1, 2))
    np.testing.assert_allclose(network.q_values(network.init(jax.random.key(0)), x), 2 * plain(x), rtol=1e-6)


class Pooled(eqx.Module):
    """A user's own network for images, whose convolution takes fractions alone."""

    convolution: eqx.nn.Conv2d

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.convolution(x).mean((1, 2))


def test_a_module_for_images_is_given_them_as_fractions() -> None:
    module = Pooled(eqx.nn.Conv2d(3, 2, 4, key=jax.random.key(0)))
    network = make_network(NetworkSettings(network="Pooled"), (3, 10, 12), 2, module)
    assert not network.is_mlp
    rows = images(0, 5, 3, 10, 12)
    expected = [module(jnp.asarray(row, jnp.float32)) for row in rows]
    found = network.q_values(network.init(jax.random.key(0)), jnp.asarray(rows))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
