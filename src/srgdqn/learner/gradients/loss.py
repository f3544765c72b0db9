"""The loss of a Bellman error and its slope, for both ways of differentiating."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array

from srgdqn.config import GradientSettings


def loss_of(settings: GradientSettings, error: Array) -> Array:
    """e² of the error e = Q - y; beyond `huber_delta` (if Huber's) continued along its tangent."""
    if settings.loss == "squared":
        return error**2
    inside = jnp.clip(error, -settings.huber_delta, settings.huber_delta)
    return inside * (2 * error - inside)


def loss_slope(settings: GradientSettings, error: Array) -> Array:
    """The derivative of the loss with respect to Q with y held constant: -2(y - Q), clipped if Huber's.

    The paper prints +2(y - Q), along which θ - ηΔ would ascend the loss (row 1 of the readings).
    """
    if settings.loss == "huber":
        error = jnp.clip(error, -settings.huber_delta, settings.huber_delta)
    return 2 * error
