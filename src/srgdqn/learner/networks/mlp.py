"""The paper's Q-network: a fully connected perceptron from an observation to one Q-value per action."""

from __future__ import annotations

import math
from typing import ClassVar

import equinox as eqx
from jaxtyping import Array, Float, PRNGKeyArray

from srgdqn.config import NetworkSettings
from srgdqn.learner.layers import Layer, make_layers, perceive


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
