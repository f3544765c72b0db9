"""The convolutional Q-network of Mnih et al. (2015), from an image to one Q-value per action."""

from __future__ import annotations

import math
from typing import ClassVar

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from srgdqn.config import NetworkSettings
from srgdqn.errors import InputError
from srgdqn.learner.convolution import Convolution, seen
from srgdqn.learner.layers import Layer, draw_layer, make_layers, perceive

# Channels out, side of the kernel, stride; of each convolution in turn.
CONVOLUTIONS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))

SMALLEST_SIDE = 36
"""The least height and width of an image of which the convolutions leave anything."""


class CNN(eqx.Module):
    """Convolutions and then affine layers, with an activation after each but the last; works on one image of numbers
    from 0 to 255, or on rows of them.
    """

    convolutions: tuple[Convolution, ...]
    layers: tuple[Layer, ...]
    activation: str = eqx.field(static=True)
    takes_rows: ClassVar[bool] = True

    def __call__(self, x: Shaped[Array, "*rows channels height width"]) -> Float[Array, "*rows outputs"]:
        """The Q-values of the images `x`."""
        return perceive(self.layers, self.activation, self.features(x))

    def features(self, x: Shaped[Array, "*rows channels height width"]) -> Float[Array, "*rows features"]:
        """The output of the convolutions, flattened channels first."""
        return seen(self.convolutions, self.activation, x)


def make(settings: NetworkSettings, shape: tuple[int, ...], actions: int, *, key: PRNGKeyArray) -> CNN:
    """A freshly initialised network for images of the given shape, `hidden` being its layers after the convolutions."""
    if len(shape) != 3 or min(shape[1:]) < SMALLEST_SIDE:
        raise InputError(
            f"network = 'cnn' is for images of shape (channels, height, width) with sides of {SMALLEST_SIDE} or more, "
            f"but an observation has shape {shape}. Give network = 'mlp', or an environment of such images."
        )
    *keys, layers_key = jax.random.split(key, len(CONVOLUTIONS) + 1)
    channels, *sides = shape
    convolutions = []
    for (filters, kernel, stride), convolution_key in zip(CONVOLUTIONS, keys, strict=True):
        weight, bias = draw_layer(settings, convolution_key, channels, filters, (kernel, kernel))
        convolutions.append(Convolution(weight, bias, stride))
        channels, sides = filters, [(side - kernel) // stride + 1 for side in sides]
    sizes = (channels * math.prod(sides), *settings.hidden, actions)
    return CNN(tuple(convolutions), make_layers(settings, sizes, key=layers_key), settings.activation)
