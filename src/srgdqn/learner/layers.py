"""Affine layers and the activations between them: what every built-in network is made of."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn import initializers
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


def make_layers(settings: NetworkSettings, sizes: Sequence[int], *, key: PRNGKeyArray) -> tuple[Layer, ...]:
    """Freshly initialised layers of the given sizes, input and output included."""
    shapes = list(itertools.pairwise(sizes))
    keys = jax.random.split(key, len(shapes))
    return tuple(Layer(*draw_layer(settings, layer_key, *each)) for layer_key, each in zip(keys, shapes, strict=True))


def draw_layer(
    settings: NetworkSettings, key: PRNGKeyArray, inputs: int, outputs: int, kernel: tuple[int, ...] | None = None
) -> tuple[Array, Array]:
    """The weights and biases that a layer starts with; those of a convolution have axes of outputs, inputs and its
    kernel's sides.
    """
    shape, axes = ((inputs, outputs), (0, 1)) if kernel is None else ((outputs, inputs, *kernel), (1, 0))
    dtype, share = jnp.result_type(float), inputs * math.prod(kernel or ())
    uniform = functools.partial(
        initializers.variance_scaling, mode="fan_in", distribution="uniform", in_axis=axes[0], out_axis=axes[1]
    )
    if settings.initialisation == "pytorch":
        weight_key, bias_key = jax.random.split(key)
        most = 1 / math.sqrt(share)
        biases = jax.random.uniform(bias_key, (outputs,), dtype, -most, most)
        return uniform(1 / 3)(weight_key, shape, dtype), biases
    draw, bias = {"lecun-uniform": (uniform(1.0), 0.0), "normal": (initializers.normal(0.3), 0.1)}[
        settings.initialisation
    ]
    return draw(key, shape, dtype), jnp.full(outputs, bias, dtype)
