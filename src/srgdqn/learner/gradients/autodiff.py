"""Gradients of any network by automatic differentiation."""

from __future__ import annotations

import jax
from jaxtyping import Array

from srgdqn.config import GradientSettings
from srgdqn.learner.gradients.bellman import Batch, row_losses
from srgdqn.learner.networks import Network, Parameters


def autodiff_mean(
    settings: GradientSettings, network: Network, parameters: Parameters, batch: Batch
) -> tuple[Parameters, Array, Array]:
    """The mean gradient over the rows of the batch, their mean loss and mean max_a Q."""

    def mean_loss(theta: Parameters) -> tuple[Array, Array]:
        outputs = network.outputs(theta, batch.observation, batch.noise)
        moving = batch.frozen_target is None
        next_outputs = network.outputs(theta, batch.next_observation, batch.next_noise) if moving else None
        losses, q = row_losses(settings, batch, outputs, next_outputs)
        return losses.mean(), q.max(-1).mean()

    (loss, max_q), gradient = jax.value_and_grad(mean_loss, has_aux=True)(parameters)
    return gradient, loss, max_q
