"""The paper's Q-network: a fully connected perceptron from an observation to one Q-value per action."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn import initializers
from jax.nn.initializers import Initializer
from jaxtyping import Array, Float, PRNGKeyArray

from srgdqn.config import NetworkSettings


class Activation(NamedTuple):
    """An activation, and its derivative written as a function of the activation's own value."""

    value: Callable[[Array], Array]
    slope: Callable[[Array], Array]


ACTIVATIONS = {
    "relu": Activation(jax.nn.relu, lambda a: (a > 0).astype(a.dtype)),
    "tanh": Activation(jnp.tanh, lambda a: 1 - a**2),
    "softplus": Activation(jax.nn.softplus, lambda a: -jnp.expm1(-a)),
}


class Layer(eqx.Module):
    """An affine map x ↦ x W + b, with W stored input first so that a row of observations multiplies it directly."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]


def perceive(
    layers: tuple[Layer, ...], activation: str, x: Float[Array, "*rows inputs"]
) -> Float[Array, "*rows outputs"]:
    """The output of affine layers with an activation between them."""
    *hidden, last = layers
    for layer in hidden:
        x = ACTIVATIONS[activation].value(x @ layer.weight + layer.bias)
    return x @ last.weight + last.bias


class MLP(eqx.Module):
    """Affine layers with an activation between them; works on one observation or on rows of them."""

    layers: tuple[Layer, ...]
    activation: str = eqx.field(static=True)
    takes_rows: ClassVar[bool] = True

    def __call__(self, x: Float[Array, "*rows inputs"]) -> Float[Array, "*rows outputs"]:
        """The Q-values of the observations `x`."""
        return perceive(self.layers, self.activation, x)


def make(settings: NetworkSettings, shape: tuple[int, ...], actions: int, *, key: PRNGKeyArray) -> MLP:
    """A freshly initialised perceptron for observations of that shape, flattened."""
    sizes = (math.prod(shape), *settings.hidden, actions)
    return MLP(make_layers(settings, sizes, key=key), settings.activation)


def make_layers(settings: NetworkSettings, sizes: Sequence[int], *, key: PRNGKeyArray) -> tuple[Layer, ...]:
    """Freshly initialised layers of the given sizes, input and output included."""
    dtype = jnp.result_type(float)
    draw, bias = draws_of(settings, initializers.lecun_uniform())
    shapes = list(itertools.pairwise(sizes))
    return tuple(
        Layer(draw(layer_key, shape, dtype), jnp.full(shape[1], bias, dtype))
        for layer_key, shape in zip(jax.random.split(key, len(shapes)), shapes, strict=True)
    )


def draws_of(settings: NetworkSettings, lecun: Initializer) -> tuple[Initializer, float]:
    """How weights are drawn, and the value that biases start from; `lecun` knows which axes are a weight's inputs."""
    return {"lecun-uniform": (lecun, 0.0), "normal": (initializers.normal(0.3), 0.1)}[settings.initialisation]
