"""What is done with a direction: clipping, the step of size η, and Adam (lines 16 to 21 of Algorithm 1)."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from srgdqn.config import OptimiserSettings
from srgdqn.learner.networks import Parameters


class AdamState(NamedTuple):
    """Adam's moments m and v, and the number s of updates that have entered them. They survive outer iterations."""

    first: Parameters
    second: Parameters
    updates: Int[Array, ""]


def init_adam(parameters: Parameters) -> AdamState:
    """Moments of zero."""
    zeros = jax.tree.map(jnp.zeros_like, parameters)
    return AdamState(zeros, zeros, jnp.zeros((), jnp.int32))


def after_copy(settings: OptimiserSettings, state: AdamState, copied: Bool[Array, ""]) -> AdamState:
    """Adam's state in the first outer iteration with a new target network: as it was; all 0 (Asadi et al. 2023); or
    with s = 0 alone (Adam-Rel, Ellis et al. 2024).
    """
    if settings.adam_at_copy == "keep":
        return state
    restarted = state._replace(updates=jnp.zeros_like(state.updates))
    if settings.adam_at_copy == "reset":
        restarted = jax.tree.map(jnp.zeros_like, state)
    return jax.tree.map(partial(jnp.where, copied), restarted, state)


def adam(
    settings: OptimiserSettings, state: AdamState, gradient: Parameters, second: Parameters | None = None
) -> tuple[Parameters, AdamState]:
    """The direction m̂ / (√v̂ + ϵ) of lines 17 to 21, and the new moments; `second` enters v in the gradient's place.

    Line 21 prints √‖v̂‖, one number for all parameters; that is `adam_denominator="norm"` (row 8 of the readings).
    """
    first = optax.tree.update_moment(gradient, state.first, settings.beta1, 1)
    squared = gradient if second is None else second
    after = AdamState(
        first,
        optax.tree.update_moment_per_elem_norm(squared, state.second, settings.beta2, 2),
        state.updates + 1,
    )
    return direction_of(settings, after), after


def direction_of(settings: OptimiserSettings, moments: AdamState) -> Parameters:
    """The direction that moments, with the newest gradient among them, stand for."""
    first_hat = optax.tree.bias_correction(moments.first, settings.beta1, moments.updates)
    return jax.tree.map(lambda m, v: m / v, first_hat, denominator_of(settings, moments))


def denominator_of(settings: OptimiserSettings, moments: AdamState) -> Parameters:
    """What that direction divides by: √v̂ + ϵ, number by number, or one for all of them."""
    second_hat = optax.tree.bias_correction(moments.second, settings.beta2, moments.updates)
    if settings.adam_denominator == "elementwise":
        root = jax.tree.map(jnp.sqrt, second_hat)
    else:
        norm = jnp.sqrt(optax.tree.norm(second_hat))
        root = jax.tree.map(lambda _: norm, second_hat)
    return jax.tree.map(lambda v: v + settings.adam_epsilon, root)


def adam_step(
    settings: OptimiserSettings, parameters: Parameters, direction: Parameters, step_size: Array | float
) -> Parameters:
    """θ - α (Δ + λθ), with `weight_decay` λ decoupled from the moments (Loshchilov and Hutter 2019)."""
    if settings.weight_decay is not None:
        direction = jax.tree.map(lambda delta, theta: delta + settings.weight_decay * theta, direction, parameters)
    return descend(parameters, direction, step_size)


def clip(settings: OptimiserSettings, direction: Parameters) -> Parameters:
    """The direction, shortened to `clip_norm` where it is longer."""
    if settings.clip_norm is None:
        return direction
    factor = jnp.minimum(1.0, settings.clip_norm / optax.tree.norm(direction))
    return jax.tree.map(lambda leaf: leaf * factor, direction)


def descend(parameters: Parameters, direction: Parameters, step_size: Array | float) -> Parameters:
    """θ - ηΔ (lines 6 and 14)."""
    return jax.tree.map(lambda theta, delta: theta - step_size * delta, parameters, direction)


def schedule(settings: OptimiserSettings, progress: Float[Array, ""] | float) -> Array | float:
    """The factor on η and α once the share `progress` of the budget is spent."""
    if settings.schedule == "linear":
        return optax.linear_schedule(1.0, settings.schedule_end, 1)(progress)
    if settings.schedule == "cosine":
        return optax.cosine_decay_schedule(1.0, 1, settings.schedule_end)(progress)
    return 1.0
