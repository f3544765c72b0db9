"""Transitions, their Bellman targets y, and the loss of a Bellman error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from srgdqn.config import GradientSettings
from srgdqn.config.discovery import OWN_RULES
from srgdqn.errors import UserCodeError
from srgdqn.learner.guarded import calling
from srgdqn.learner.networks import Network, Parameters


class Transitions(NamedTuple):
    """Rows of (S, A, R, S') and whether S' ended the episode by termination (1) or not (0).

    Those of several steps lead from the first one's S and A to the last one's S', and have a further axis of rewards,
    one for each step and zeros beyond.
    """

    observation: Float[Array, "*rows size"]
    action: Int[Array, "*rows"]
    reward: Float[Array, "*rows"]
    next_observation: Float[Array, "*rows size"]
    terminated: Float[Array, "*rows"]
    steps: Int[Array, "*rows"] | None = None  # None: one each


class Batch(NamedTuple):
    """Transitions as gradients see them: with the discount that applies, and y where it does not depend on θ."""

    observation: Float[Array, "*rows size"]
    action: Int[Array, "*rows"]
    reward: Float[Array, "*rows"]
    next_observation: Float[Array, "*rows size"]
    discount: Float[Array, "*rows"]
    frozen_target: Float[Array, "*rows"] | None
    weight: Float[Array, "*rows"] | None = None  # of the row's loss in F, where it is not 1

    def rows(self, index: Array | slice) -> Batch:
        """The rows at `index`."""
        return jax.tree.map(lambda leaf: leaf[index], self)


def outer_batch(
    settings: GradientSettings,
    network: Network,
    transitions: Transitions,
    online: Parameters,
    target: Parameters | None,
    weights: Float[Array, "*rows"] | None = None,
) -> Batch:
    """The batch of an outer iteration that begins at the parameters `online`, beside those of a target network."""
    return make_batch(settings, network, transitions, target_parameters(settings, online, target), weights, online)


def target_parameters(settings: GradientSettings, online: Parameters, target: Parameters | None) -> Parameters | None:
    """What y is computed with in an outer iteration that begins at `online`; None: with each gradient's own θ."""
    return {"current": None, "outer": online}.get(settings.target, target)


def make_batch(
    settings: GradientSettings,
    network: Network,
    transitions: Transitions,
    frozen: Parameters | None,
    weights: Float[Array, "*rows"] | None = None,
    online: Parameters | None = None,
) -> Batch:
    """The batch of these transitions, with y computed once if the parameters to compute it with are given; `online` are
    θ_0, for rules that look at them too.

    The discount is γ (of K steps γ^K), or 0 where the episode terminated and `mask_terminal` is on (row 3 of the
    readings).
    """
    observation, action, reward, next_observation, terminated, steps = transitions
    gamma: Any = settings.gamma
    if steps is not None:  # R_1 + γ R_2 + … + γ^(K-1) R_K
        powers = settings.gamma ** jnp.arange(reward.shape[-1] + 1)
        reward, gamma = (powers[:-1] * reward).sum(-1), powers[steps]
    discount = gamma * (1 - terminated) if settings.mask_terminal else gamma * jnp.ones_like(reward)
    y = None
    if frozen is not None:
        if online is None and settings.bootstrap != "max":
            raise ValueError(f"bootstrap = {settings.bootstrap!r} looks at θ_0 as well: give `online`")
        values = value_of_next(settings, lambda theta: network.q_values(theta, next_observation), frozen, online)
        y = reward + discount * values
    return Batch(observation, action, reward, next_observation, discount, y, weights)


def value_of_next(settings: GradientSettings, q: Callable[[Any], Array], frozen: Any, online: Any) -> Array:
    """The values of S' in Y = R + γ max_a Q(S', a) (lines 5, 9 and 11 of Algorithm 1), or by another rule than max."""
    if settings.bootstrap == "max":
        return q(frozen).max(-1)
    if settings.bootstrap == "double":  # van Hasselt et al. (2016)
        chosen = q(online).argmax(-1)
        return jnp.take_along_axis(q(frozen), chosen[..., None], axis=-1)[..., 0]
    what = f"the rule {settings.bootstrap!r} for bootstrap"
    values: Array = calling(what, OWN_RULES["bootstrap"][settings.bootstrap])(q, frozen, online)
    if jnp.shape(values) != (rows := jax.eval_shape(q, frozen).shape[:-1]):
        raise UserCodeError(f"{what} gives values of shape {jnp.shape(values)}. Return one for each of {rows} rows.")
    return values


def target_of(settings: GradientSettings, rows: Batch, next_q: Float[Array, "*rows actions"] | None) -> Array:
    """Y of each row, given Q(S', ·) at the present θ where y moves with it."""
    if rows.frozen_target is not None:
        return rows.frozen_target
    assert next_q is not None
    return rows.reward + rows.discount * value_of_next(settings, lambda theta: next_q, None, None)


def values_and_targets(
    settings: GradientSettings, network: Network, parameters: Parameters, rows: Batch
) -> tuple[Float[Array, "*rows"], Float[Array, "*rows"]]:
    """Q(S, A) and y of each row."""
    values = network.q_values(parameters, rows.observation)
    next_q = network.q_values(parameters, rows.next_observation) if rows.frozen_target is None else None
    return jnp.take_along_axis(values, rows.action[..., None], axis=-1)[..., 0], target_of(settings, rows, next_q)


def loss_and_slope(
    settings: GradientSettings, rows: Batch, predicted: Array, next_q: Float[Array, "*rows actions"] | None
) -> tuple[Array, Array]:
    """The loss of each row and its derivative with respect to Q with y held constant, given Q(S, A) and, where y moves
    with θ, Q(S', ·).
    """
    error = predicted - jax.lax.stop_gradient(target_of(settings, rows, next_q))
    loss, slope = loss_of(settings, error), loss_slope(settings, error)
    return (loss, slope) if rows.weight is None else (loss * rows.weight, slope * rows.weight)


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
