"""Gradients of the convolutional network: its affine layers in closed form, its convolutions by autodiff, one pick
after the other.

Nearly all of its parameters are in the first affine layer, whose gradient is handed on as its factors
(`closed_form`). The convolutions' gradients of many picks at once would be grouped convolutions, for which XLA has only
slow code on a processor.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
from jaxtyping import Array

from srgdqn.config import GradientSettings
from srgdqn.learner.convolution import Convolution
from srgdqn.learner.gradients.bellman import Batch
from srgdqn.learner.gradients.closed_form import Factors, closed_form_query, multiply_out
from srgdqn.learner.networks import CNN, MLP


class PartlyFactored(NamedTuple):
    """The gradient of a pick: the convolutions' as it is, and the factors of the affine layers'."""

    convolutions: tuple[Convolution, ...]
    layers: tuple[Factors, ...]


def convolutional_query(
    settings: GradientSettings, parameters: CNN, picks: Batch
) -> tuple[PartlyFactored, Array, Array]:
    """For each pick of `picks` (k, b): its gradient, its mean loss and mean max_a Q."""
    return jax.lax.map(lambda rows: _of_rows(settings, parameters, rows), picks)


def convolutional_mean(settings: GradientSettings, parameters: CNN, batch: Batch) -> tuple[CNN, Array, Array]:
    """The mean gradient over the rows of the batch, their mean loss and mean max_a Q."""
    gradient, loss, max_q = _of_rows(settings, parameters, batch)
    return multiply_layers_out(parameters, gradient), loss, max_q


def multiply_layers_out(structure: CNN, gradient: PartlyFactored) -> CNN:
    """The gradient of one pick, in the form of the parameters."""
    layers = multiply_out(MLP((), structure.activation), gradient.layers).layers
    return CNN(gradient.convolutions, layers, structure.activation)


def _of_rows(settings: GradientSettings, parameters: CNN, rows: Batch) -> tuple[PartlyFactored, Array, Array]:
    def features(convolutions: tuple[Convolution, ...]) -> Array:
        return CNN(convolutions, parameters.layers, parameters.activation).features(rows.observation)

    seen, pull_back = jax.vjp(features, parameters.convolutions)
    moving = rows.frozen_target is None
    seen_next = parameters.features(rows.next_observation) if moving else seen
    alone = jax.tree.map(lambda leaf: leaf[None], rows._replace(observation=seen, next_observation=seen_next))
    queried = closed_form_query(settings, MLP(parameters.layers, parameters.activation), alone)
    factors, loss, max_q = jax.tree.map(lambda leaf: leaf[0], queried)
    (convolutions,) = pull_back(factors[0].deltas @ parameters.layers[0].weight.T / len(rows.reward))
    return PartlyFactored(convolutions, factors), loss, max_q
