"""Gradients of any network by automatic differentiation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array

from srgdqn.gradients.bellman import Batch, bellman_target
from srgdqn.gradients.loss import loss_of
from srgdqn.networks import Network, Parameters
from srgdqn.settings import GradientSettings


def autodiff_query(
    settings: GradientSettings, network: Network, parameters: Parameters, picks: Batch
) -> tuple[Parameters, Array, Array]:
    """For each pick of `picks` (k, b): the mean gradient over its b rows, their mean loss and mean max_a Q."""

    def mean_loss(theta: Parameters, rows: Batch) -> tuple[Array, Array]:
        q = network.q_values(theta, rows.observation)
        y = rows.frozen_target
        if y is None:
            y = bellman_target(rows.reward, rows.discount, network.q_values(theta, rows.next_observation))
        predicted = jnp.take_along_axis(q, rows.action[:, None], axis=1)[:, 0]
        return loss_of(settings, predicted - jax.lax.stop_gradient(y)).mean(), q.max(-1).mean()

    def one(rows: Batch) -> tuple[Parameters, Array, Array]:
        (loss, max_q), gradient = jax.value_and_grad(mean_loss, has_aux=True)(parameters, rows)
        return gradient, loss, max_q

    return jax.vmap(one)(picks)
