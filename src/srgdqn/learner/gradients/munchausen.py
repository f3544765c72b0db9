"""Munchausen DQN (Vieillard, Pietquin and Geist 2020): with the policy π = softmax(Q / τ),

    y = R + α_M clip(τ log π(A|S), floor, 0) + γ Σ_a π(a|S') (Q(S', a) - τ log π(a|S'))

Q is that of the parameters behind y. Differences to the largest Q-value are divided by τ, and nothing else is, so that
no exponential overflows; the sum is τ log Σ_a exp(Q(S', a) / τ).
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from srgdqn.config import GradientSettings


def log_policy_bonus(settings: GradientSettings, q: Float[Array, "rows actions"], action: Int[Array, " rows"]) -> Array:
    """What is added to R: α_M clip(τ log π(A|S), floor, 0), given Q(S, ·)."""
    best, excess = _soft_maximum(settings, q)
    gap = jnp.take_along_axis(q, action[..., None], axis=-1)[..., 0] - best
    return settings.munchausen_share * jnp.clip(gap - excess, settings.munchausen_floor, 0.0)


def soft_value(settings: GradientSettings, q: Float[Array, "rows actions"]) -> Float[Array, " rows"]:
    """Σ_a π(a|S') (Q(S', a) - τ log π(a|S')), given Q(S', ·)."""
    best, excess = _soft_maximum(settings, q)
    return best + excess


def _soft_maximum(settings: GradientSettings, q: Float[Array, "rows actions"]) -> tuple[Array, Array]:
    """The largest Q-value, and by how much τ log Σ_a exp(Q / τ) exceeds it."""
    best, temperature = q.max(-1), settings.munchausen_temperature
    return best, temperature * jnp.log(jnp.exp((q - best[..., None]) / temperature).sum(-1))
