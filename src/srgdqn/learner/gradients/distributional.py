"""Losses of networks that give a distribution of the return for every action: C51 and HL-Gauss.

The network gives logits over K atoms z_1 … z_K from `value_min` to `value_max`, equally spaced; Q = Σ_i z_i p_i. The
loss is the cross entropy -Σ_i m_i log p_i(S, A) to a target distribution m.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy.special import erf
from jaxtyping import Array, Float

from srgdqn.config import GradientSettings


def value_range(settings: GradientSettings) -> tuple[Array, Array]:
    """The least and the largest atom."""
    assert settings.value_min is not None
    assert settings.value_max is not None
    return jnp.asarray(settings.value_min), jnp.asarray(settings.value_max)


def atoms_of(settings: GradientSettings) -> Float[Array, " atoms"]:
    """The values z, the centres of a histogram's bins."""
    least, most = value_range(settings)
    return least + (most - least) * jnp.linspace(0, 1, settings.atoms)


def spacing(settings: GradientSettings) -> Array:
    """Δz, the width of a bin."""
    least, most = value_range(settings)
    return (most - least) / (settings.atoms - 1)


def expected(settings: GradientSettings, logits: Float[Array, "*rows atoms"]) -> Float[Array, "*rows"]:
    """Q = Σ z p."""
    return jax.nn.softmax(logits) @ atoms_of(settings)


def cross_entropy(target: Float[Array, "*rows atoms"], logits: Float[Array, "*rows atoms"]) -> Float[Array, "*rows"]:
    """-Σ m log p."""
    return -(target * jax.nn.log_softmax(logits)).sum(-1)


def projected(
    settings: GradientSettings,
    probabilities: Float[Array, "*rows atoms"],
    reward: Float[Array, "*rows"],
    discount: Float[Array, "*rows"],
) -> Float[Array, "*rows atoms"]:
    """The distribution of r + γz brought back to the atoms (Bellemare et al. 2017, equation 7): each value, clipped to
    the range, shares its mass between its two neighbours, Σ_j [1 - |[r + γz_j] - z_i| / Δz]₀ p_j.
    """
    z = atoms_of(settings)
    moved = jnp.clip(reward[..., None] + discount[..., None] * z, *value_range(settings))
    away = jnp.abs(moved[..., None, :] - z[:, None]) / spacing(settings)
    return (jnp.maximum(1 - away, 0) * probabilities[..., None, :]).sum(-1)


def categorical_target(
    settings: GradientSettings,
    choosing: Float[Array, "*rows actions"],
    logits: Float[Array, "*rows actions atoms"],
    reward: Float[Array, "*rows"],
    discount: Float[Array, "*rows"],
) -> Float[Array, "*rows atoms"]:
    """C51's m: the projected distribution of the action that is best by the Q-values `choosing`."""
    best = jnp.take_along_axis(logits, choosing.argmax(-1)[..., None, None], axis=-2)[..., 0, :]
    return projected(settings, jax.nn.softmax(best), reward, discount)


def histogram(settings: GradientSettings, y: Float[Array, "*rows"]) -> Float[Array, "*rows atoms"]:
    """HL-Gauss's m: the mass that a normal distribution around y, clipped to the range, has in each bin, of all that it
    has in them (Imani and White 2018; Farebrother et al. 2024, section 3.1). σ is `hl_gauss_sigma` widths of a bin.
    """
    width = spacing(settings)
    least, most = value_range(settings)
    edges = jnp.append(atoms_of(settings) - width / 2, most + width / 2)
    y = jnp.clip(y, least, most)
    below = erf((edges - y[..., None]) / (jnp.sqrt(2.0) * settings.hl_gauss_sigma * width))
    mass = jnp.diff(below)
    return mass / (below[..., -1:] - below[..., :1])
