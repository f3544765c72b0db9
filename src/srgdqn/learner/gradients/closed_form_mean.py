"""The mean gradient of a perceptron over a whole batch in closed form, with transitions along the last axis.

The paper's batches have more transitions than its layers have units: laid out along them, what is done unit by unit
fills the processor's vectors. The layout of `closed_form` suits few rows.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array

from srgdqn.config import GradientSettings
from srgdqn.learner.gradients.bellman import Batch, bellman_target
from srgdqn.learner.gradients.loss import loss_of, loss_slope
from srgdqn.learner.networks import MLP
from srgdqn.learner.networks.mlp import ACTIVATIONS, Layer


def closed_form_mean(settings: GradientSettings, parameters: MLP, batch: Batch) -> tuple[MLP, Array, Array]:
    """The mean gradient over the rows of the batch, their mean loss and mean max_a Q."""
    size = batch.reward.shape[0]
    activation = ACTIVATIONS[parameters.activation]

    frozen = batch.frozen_target
    x = (batch.observation if frozen is not None else jnp.concatenate([batch.observation, batch.next_observation])).T
    inputs = [x]
    for layer in parameters.layers[:-1]:
        x = activation.value(layer.weight.T @ x + layer.bias[:, None])
        inputs.append(x)
    last = parameters.layers[-1]
    q = last.weight.T @ x + last.bias[:, None]
    y = bellman_target(batch.reward, batch.discount, q[:, size:].T) if frozen is None else frozen
    q = q[:, :size]
    inputs = [layer_input[:, :size] for layer_input in inputs]

    chosen = (batch.action == jnp.arange(q.shape[0])[:, None]).astype(q.dtype)
    error = (q * chosen).sum(0) - y
    delta = loss_slope(settings, error) * chosen / size
    layers: list[Layer] = []
    for index in range(len(parameters.layers) - 1, -1, -1):
        layers.insert(0, Layer(inputs[index] @ delta.T, delta.sum(1)))
        if index:
            delta = (parameters.layers[index].weight @ delta) * activation.slope(inputs[index])
    return MLP(tuple(layers), parameters.activation), loss_of(settings, error).mean(), q.max(0).mean()
