"""Gradients of any network by automatic differentiation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array

from srgdqn.config import GradientSettings
from srgdqn.learner.gradients.bellman import Batch, loss_and_slope
from srgdqn.learner.networks import Network, Parameters


def autodiff_mean(
    settings: GradientSettings, network: Network, parameters: Parameters, batch: Batch
) -> tuple[Parameters, Array, Array]:
    """The mean gradient over the rows of the batch, their mean loss and mean max_a Q."""

    def mean_loss(theta: Parameters) -> tuple[Array, Array]:
        q = network.q_values(theta, batch.observation)
        next_q = network.q_values(theta, batch.next_observation) if batch.frozen_target is None else None
        predicted = jnp.take_along_axis(q, batch.action[:, None], axis=1)[:, 0]
        return loss_and_slope(settings, batch, predicted, next_q)[0].mean(), q.max(-1).mean()

    (loss, max_q), gradient = jax.value_and_grad(mean_loss, has_aux=True)(parameters)
    return gradient, loss, max_q
