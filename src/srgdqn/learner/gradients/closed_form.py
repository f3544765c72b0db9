"""Gradients of a perceptron in closed form: of single picks as factors, and the mean over a whole batch.

The gradient of one transition's loss with respect to a layer's weights is the outer product of the layer's input and
its delta (the loss's derivative with respect to its output). A gradient is handed on as these two factors and
multiplied out only where it is used: most of an inner iteration's memory traffic would otherwise be gradients that are
read once.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from srgdqn.config import GradientSettings
from srgdqn.learner.gradients.bellman import Batch, loss_and_slope
from srgdqn.learner.layers import ACTIVATIONS, Layer
from srgdqn.learner.networks import MLP


class Factors(NamedTuple):
    """The factors of a layer's gradient over b rows: their mean outer product is the gradient of its weights."""

    inputs: Float[Array, "*picks b inputs"]
    deltas: Float[Array, "*picks b outputs"]


def closed_form_query(
    settings: GradientSettings, parameters: MLP, picks: Batch
) -> tuple[tuple[Factors, ...], Array, Array]:
    """For each pick of `picks` (k, b): the factors of its gradient, its mean loss and mean max_a Q."""
    count, width = picks.reward.shape
    rows = jax.tree.map(lambda leaf: leaf.reshape(count * width, *leaf.shape[2:]), picks)
    slope = ACTIVATIONS[parameters.activation].slope
    size = count * width

    moving = rows.frozen_target is None
    x = jnp.concatenate([rows.observation, rows.next_observation]) if moving else rows.observation
    inputs = [x]
    for layer in parameters.layers[:-1]:
        x = ACTIVATIONS[parameters.activation].value(x @ layer.weight + layer.bias)
        inputs.append(x)
    last = parameters.layers[-1]
    q = x @ last.weight + last.bias
    next_q, q = q[size:] if moving else None, q[:size]
    inputs = [layer_input[:size] for layer_input in inputs]

    chosen = jax.nn.one_hot(rows.action, q.shape[-1], dtype=q.dtype)
    loss, slopes = loss_and_slope(settings, rows, (q * chosen).sum(-1), next_q)
    at_output = slopes[:, None]
    deltas = [at_output * chosen]
    # Only the chosen action's column of the last layer passes anything back: a gather, not a product.
    delta = at_output * last.weight.T[rows.action]
    for index in range(len(parameters.layers) - 2, -1, -1):
        delta = delta * slope(inputs[index + 1])
        deltas.insert(0, delta)
        if index:
            delta = delta @ parameters.layers[index].weight.T

    def by_pick(leaf: Array) -> Array:
        return leaf.reshape(count, width, *leaf.shape[1:])

    factors = tuple(Factors(by_pick(i), by_pick(d)) for i, d in zip(inputs, deltas, strict=True))
    return factors, by_pick(loss).mean(1), by_pick(q.max(-1)).mean(1)


def multiply_out(structure: MLP, factors: tuple[Factors, ...]) -> MLP:
    """The gradient of one pick, in the form of the parameters."""
    return MLP(tuple(layer_gradient(*layer) for layer in factors), structure.activation)


def layer_gradient(inputs: Float[Array, "b inputs"], deltas: Float[Array, "b outputs"]) -> Layer:
    """The gradient of a layer from its factors."""
    width = inputs.shape[0]
    if width == 1:  # an outer product fuses into the sum that uses it; a matrix product would not
        return Layer(inputs[0][:, None] * deltas[0][None, :], deltas[0])
    return Layer(inputs.T @ deltas / width, deltas.mean(0))


def closed_form_mean(settings: GradientSettings, parameters: MLP, batch: Batch) -> tuple[MLP, Array, Array]:
    """The mean gradient over the rows of the batch, their mean loss and mean max_a Q.

    Transitions lie along the last axis: the paper's batches have more of them than its layers have units, so that work
    done unit by unit fills the processor's vectors. The layout of `closed_form_query` suits few rows.
    """
    size = batch.reward.shape[0]
    activation = ACTIVATIONS[parameters.activation]

    moving = batch.frozen_target is None
    x = (jnp.concatenate([batch.observation, batch.next_observation]) if moving else batch.observation).T
    inputs = [x]
    for layer in parameters.layers[:-1]:
        x = activation.value(layer.weight.T @ x + layer.bias[:, None])
        inputs.append(x)
    last = parameters.layers[-1]
    q = last.weight.T @ x + last.bias[:, None]
    next_q, q = q[:, size:].T if moving else None, q[:, :size]
    inputs = [layer_input[:, :size] for layer_input in inputs]

    chosen = (batch.action == jnp.arange(q.shape[0])[:, None]).astype(q.dtype)
    loss, slopes = loss_and_slope(settings, batch, (q * chosen).sum(0), next_q)
    delta = slopes * chosen / size
    layers: list[Layer] = []
    for index in range(len(parameters.layers) - 1, -1, -1):
        layers.insert(0, Layer(inputs[index] @ delta.T, delta.sum(1)))
        if index:
            delta = (parameters.layers[index].weight @ delta) * activation.slope(inputs[index])
    return MLP(tuple(layers), parameters.activation), loss.mean(), q.max(0).mean()
