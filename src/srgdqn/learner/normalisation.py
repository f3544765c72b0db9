"""Running statistics of observations and of discounted returns, and constants that observations are scaled by."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float

from srgdqn.config.options import VARIANCE_FLOOR, NormalisationSettings


class Moments(NamedTuple):
    """Number, mean and variance of everything seen, merged block by block (Chan, Golub and LeVeque 1979)."""

    weight: Float[Array, ""]
    mean: Float[Array, "*shape"]
    variance: Float[Array, "*shape"]


class Scale(NamedTuple):
    """Constants by which observations are shifted and then divided; they never change."""

    mean: Float[Array, " size"]
    deviation: Float[Array, " size"]


class Normaliser(NamedTuple):
    """The statistics and constants that are on; None where an option is off."""

    observations: Moments | Scale | None
    returns: Moments | None
    open_return: Float[Array, ""] | None  # the discounted return of the open episode


def init_normaliser(
    settings: NormalisationSettings, observation_size: int, scale: tuple[ArrayLike, ArrayLike] | None = None
) -> Normaliser:
    """Statistics of nothing: mean 0, variance 1, with the weight of one thousandth of a sample. `scale` has the mean
    and the deviation of constants (by default 0 and 1), for where these are on.
    """

    def fresh(shape: tuple[int, ...]) -> Moments:
        return Moments(jnp.asarray(1e-3), jnp.zeros(shape), jnp.ones(shape))

    observations: Moments | Scale | None = None
    if settings.normalise_observations:
        observations = fresh((observation_size,))
    elif settings.scale_observations:
        mean, deviation = (0, 1) if scale is None else scale
        observations = Scale(*(jnp.full(observation_size, each, float) for each in (mean, deviation)))
    rewards = settings.normalise_rewards
    return Normaliser(
        observations,
        fresh(()) if rewards else None,
        jnp.zeros(()) if rewards else None,
    )


def is_running(normaliser: Normaliser) -> bool:
    """Whether it has statistics, which `observe` changes."""
    return isinstance(normaliser.observations, Moments) or normaliser.returns is not None


def merge(moments: Moments, rows: Float[Array, "count *shape"]) -> Moments:
    """The statistics after further rows."""
    weight = moments.weight + rows.shape[0]
    shift = rows.mean(0) - moments.mean
    spread = moments.variance * moments.weight + rows.var(0) * rows.shape[0]
    spread = spread + shift**2 * moments.weight * rows.shape[0] / weight
    return Moments(weight, moments.mean + shift * rows.shape[0] / weight, spread / weight)


def observe(
    normaliser: Normaliser,
    observations: Float[Array, "block size"],
    rewards: Float[Array, " block"],
    ended: Bool[Array, " block"],
    gamma: Array | float,
) -> Normaliser:
    """The statistics after a block of steps."""
    moments, returns, open_return = normaliser
    if isinstance(moments, Moments):
        moments = merge(moments, observations)
    if returns is not None:
        open_return, totals = jax.lax.scan(partial(_add_reward, gamma), open_return, (rewards, ended))
        returns = merge(returns, totals)
    return Normaliser(moments, returns, open_return)


def _add_reward(gamma: Array | float, total: Any, step: tuple[Array, Array]) -> tuple[Any, Array]:
    """The open episode's discounted return after a step, 0 where that ended it; and as it stood before being reset."""
    reward, ended = step
    total = gamma * total + reward
    return jnp.where(ended, 0.0, total), total


def normalise_observation(normaliser: Normaliser, observation: Float[Array, "*rows size"]) -> Array:
    """Observations as the network sees them."""
    seen = normaliser.observations
    if seen is None:
        return observation
    deviation = seen.deviation if isinstance(seen, Scale) else jnp.sqrt(seen.variance + VARIANCE_FLOOR)
    return (observation - seen.mean) / deviation


def normalise_reward(normaliser: Normaliser, reward: Float[Array, "*rows"]) -> Array:
    """Rewards as the learner sees them: scaled, never shifted."""
    moments = normaliser.returns
    return reward if moments is None else reward / jnp.sqrt(moments.variance + VARIANCE_FLOOR)
