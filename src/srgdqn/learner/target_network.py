"""A target network's parameters: where they begin, and how they follow θ.

With `target_networks` K > 1 they are a stack of the last K copies, newest first, whose Q-values are averaged
(Averaged-DQN, Anschel et al. 2017).
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Int

from srgdqn.config import GradientSettings
from srgdqn.learner.networks import Parameters


def init_target(settings: GradientSettings, parameters: Parameters) -> Parameters | None:
    """θ_0, or K copies of it; None where there is no target network."""
    if settings.target not in ("hard", "polyak"):
        return None
    if settings.target_networks == 1:
        return parameters
    return jax.tree.map(lambda leaf: jnp.stack([leaf] * settings.target_networks), parameters)


def copied_where(
    settings: GradientSettings, due: Bool[Array, ""], target: Parameters, parameters: Parameters
) -> Parameters:
    """A hard target network after θ was copied, where that is due: of a stack the oldest copy leaves."""
    copy = parameters
    if settings.target_networks > 1:
        copy = jax.tree.map(lambda new, old: jnp.concatenate([new[None], old[:-1]]), parameters, target)
    return jax.tree.map(partial(jnp.where, due), copy, target)


def moved(
    settings: GradientSettings, target: Parameters | None, parameters: Parameters, iterations: Int[Array, ""]
) -> Parameters | None:
    """A target network after an outer iteration that ended at θ: copied every `target_period`, or drifting by τ; as it
    is where it is copied before outer iterations.
    """
    if target is None or settings.target_update_interval is not None:
        return target
    if settings.target == "hard":
        return copied_where(settings, iterations % settings.target_period == 0, target, parameters)
    return optax.incremental_update(parameters, target, settings.target_tau)
