"""Transitions, their Bellman targets y, and the loss of a Bellman error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt32

from srgdqn.config import GradientSettings, NetworkSettings
from srgdqn.config.discovery import OWN_RULES
from srgdqn.errors import UserCodeError
from srgdqn.learner.gradients import distributional
from srgdqn.learner.gradients.munchausen import log_policy_bonus, soft_value
from srgdqn.learner.guarded import calling
from srgdqn.learner.networks import Network, Noise, Parameters


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
    next_mask: Bool[Array, "*rows actions"] | None = None  # the actions that are allowed in S', where not all are


class Batch(NamedTuple):
    """Transitions as gradients see them: with the discount that applies, and y where it does not depend on θ."""

    observation: Float[Array, "*rows size"]
    action: Int[Array, "*rows"]
    reward: Float[Array, "*rows"]
    next_observation: Float[Array, "*rows size"]
    discount: Float[Array, "*rows"]
    frozen_target: Float[Array, "*rows"] | Float[Array, "*rows atoms"] | None  # of C51 the distribution m
    weight: Float[Array, "*rows"] | None = None  # of the row's loss in F, where it is not 1
    noise: Noise | None = None  # of the network at S, where it has any
    next_noise: Noise | None = None  # likewise at S', where y moves with θ
    next_mask: Bool[Array, "*rows actions"] | None = None  # the actions that are allowed in S', where y is not frozen

    def rows(self, index: Array | slice) -> Batch:
        """The rows at `index`."""
        return jax.tree.map(lambda leaf: leaf[index], self)


class RowNoise(NamedTuple):
    """What the noise of rows is drawn from. It is theirs, whatever θ is: the gradients of a pair have the same."""

    key: PRNGKeyArray
    dropout: Array | float | None  # the probability with which a hidden unit is dropped

    def of(self, what: int) -> RowNoise:
        """Noise of its own for something else."""
        return self._replace(key=jax.random.fold_in(self.key, what))


# What is folded into the key: Q(S, ·), Q(S', ·) at θ, and both by a target network have noise of their own, and so have
# rows that are not of D.
_PRESENT, _NEXT, _TARGET, BEYOND, REFERENCE, _TARGET_PRESENT = range(6)


def row_noise(settings: NetworkSettings, words: UInt32[Array, " words"] | None) -> RowNoise | None:
    """The noise of D from a key's data; None for a network without any."""
    if words is None or not settings.has_noise:
        return None
    return RowNoise(jax.random.wrap_key_data(words, impl="threefry2x32"), settings.dropout)


def outer_batch(
    settings: GradientSettings,
    network: Network,
    transitions: Transitions,
    online: Parameters,
    target: Parameters | None,
    weights: Float[Array, "*rows"] | None = None,
    noise: RowNoise | None = None,
) -> Batch:
    """The batch of an outer iteration that begins at the parameters `online`, beside those of a target network."""
    frozen = target_parameters(settings, online, target)
    return make_batch(settings, network, transitions, frozen, weights, online, noise)


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
    noise: RowNoise | None = None,
) -> Batch:
    """The batch of these transitions, with y computed once if the parameters to compute it with are given; `online` are
    θ_0, for rules that look at them too, and for the sizes of the network's noise.

    The discount is γ (of K steps γ^K), or 0 where the episode terminated and `mask_terminal` is on (row 3 of the
    readings).
    """
    observation, action, reward, next_observation, terminated, steps, mask = transitions
    gamma: Any = settings.gamma
    if steps is not None:  # R_1 + γ R_2 + … + γ^(K-1) R_K
        powers = settings.gamma ** jnp.arange(reward.shape[-1] + 1)
        reward, gamma = (powers[:-1] * reward).sum(-1), powers[steps]
    discount = gamma * (1 - terminated) if settings.mask_terminal else gamma * jnp.ones_like(reward)

    def drawn(what: int) -> Noise | None:
        if noise is None:
            return None
        return network.draw_noise(online, noise.of(what).key, reward.shape, noise.dropout)

    y = None
    if frozen is not None:
        if online is None and settings.bootstrap not in ("max", "munchausen"):
            raise ValueError(f"bootstrap = {settings.bootstrap!r} looks at θ_0 as well: give `online`")

        def outputs(theta: Parameters, observations: Array, at_target: int) -> Array:
            what = _NEXT if theta is online and at_target == _TARGET else at_target
            return network.outputs(theta, observations, drawn(what))

        def q(theta: Parameters, observations: Array = next_observation, at_target: int = _TARGET) -> Array:
            if settings.target_networks > 1 and _like(theta, frozen):  # mean_k Q(S, a; θ_k), which share noise
                several = jax.vmap(lambda one: q_values(settings, outputs(one, observations, at_target)))(theta)
                return several.mean(0)
            return q_values(settings, outputs(theta, observations, at_target))

        if settings.loss == "c51":
            logits = outputs(frozen, next_observation, _TARGET)
            choosing = allowed(q(online) if settings.bootstrap == "double" else q_values(settings, logits), mask)
            y = distributional.categorical_target(settings, choosing, logits, reward, discount)
        else:
            y = reward + discount * value_of_next(settings, q, frozen, online, mask)
        if settings.bootstrap == "munchausen":
            y = y + log_policy_bonus(settings, q(frozen, observation, _TARGET_PRESENT), action)
    own = drawn(_PRESENT)
    at_next, mask = (drawn(_NEXT), mask) if frozen is None else (None, None)
    return Batch(observation, action, reward, next_observation, discount, y, weights, own, at_next, mask)


def q_values(settings: GradientSettings, outputs: Array) -> Float[Array, "*rows actions"]:
    """The Q-values of what the network gives."""
    return distributional.expected(settings, outputs) if settings.is_distributional else outputs


def _like(theta: Parameters, stack: Parameters) -> bool:
    """Whether θ is a stack of copies too."""
    ones, others = jax.tree.leaves(theta), jax.tree.leaves(stack)
    return all(jnp.ndim(one) == jnp.ndim(other) for one, other in zip(ones, others, strict=True))


_FORBIDDEN = -1e30
"""The Q-value of an action that is not allowed: below any other, and finite, so that 0 times it is 0."""


def allowed(q: Array, mask: Bool[Array, "*rows actions"] | None) -> Array:
    """The Q-values, below any other where an action is not allowed."""
    return q if mask is None else jnp.where(mask, q, _FORBIDDEN)


def value_of_next(
    settings: GradientSettings,
    values_of: Callable[[Any], Array],
    frozen: Any,
    online: Any,
    mask: Bool[Array, "*rows actions"] | None = None,
) -> Array:
    """The values of S' in Y = R + γ max_a Q(S', a) (lines 5, 9 and 11 of Algorithm 1), or by another rule than max;
    over the actions that are allowed in S'.
    """

    def q(theta: Any) -> Array:
        return allowed(values_of(theta), mask)

    if settings.bootstrap == "max":
        return q(frozen).max(-1)
    if settings.bootstrap == "double":  # van Hasselt et al. (2016)
        chosen = q(online).argmax(-1)
        return jnp.take_along_axis(q(frozen), chosen[..., None], axis=-1)[..., 0]
    if settings.bootstrap == "munchausen":
        return soft_value(settings, q(frozen))
    what = f"the rule {settings.bootstrap!r} for bootstrap"
    values: Array = calling(what, OWN_RULES["bootstrap"][settings.bootstrap])(q, frozen, online)
    if jnp.shape(values) != (rows := jax.eval_shape(q, frozen).shape[:-1]):
        raise UserCodeError(f"{what} gives values of shape {jnp.shape(values)}. Return one for each of {rows} rows.")
    return values


def target_of(settings: GradientSettings, rows: Batch, next_q: Float[Array, "*rows actions"] | None) -> Array:
    """Y of each row, given Q(S', ·) at the present θ where y moves with it; the mean of a distribution."""
    if rows.frozen_target is not None:
        return rows.frozen_target @ distributional.atoms_of(settings) if settings.loss == "c51" else rows.frozen_target
    assert next_q is not None
    return rows.reward + rows.discount * value_of_next(settings, lambda theta: next_q, None, None, rows.next_mask)


def row_losses(
    settings: GradientSettings, rows: Batch, outputs: Array, next_outputs: Array | None
) -> tuple[Float[Array, "*rows"], Float[Array, "*rows actions"]]:
    """The loss of each row and its Q-values, to be differentiated: given what the network gives at S and, where y moves
    with θ, at S'.
    """
    q = q_values(settings, outputs)
    next_q = None if next_outputs is None else q_values(settings, next_outputs)
    if not settings.is_distributional:
        predicted = jnp.take_along_axis(q, rows.action[..., None], axis=-1)[..., 0]
        return loss_and_slope(settings, rows, predicted, next_q)[0], q
    if settings.loss == "hl-gauss":
        target = distributional.histogram(settings, target_of(settings, rows, next_q))
    elif rows.frozen_target is not None:
        target = rows.frozen_target
    else:
        assert next_outputs is not None
        assert next_q is not None
        target = distributional.categorical_target(
            settings, allowed(next_q, rows.next_mask), next_outputs, rows.reward, rows.discount
        )
    chosen = jax.nn.one_hot(rows.action, q.shape[-1], dtype=q.dtype)
    logits = (outputs * chosen[..., None]).sum(-2)  # not a gather, whose derivative would be a scatter
    losses = distributional.cross_entropy(jax.lax.stop_gradient(target), logits)
    return losses if rows.weight is None else losses * rows.weight, q


def values_and_targets(
    settings: GradientSettings, network: Network, parameters: Parameters, rows: Batch
) -> tuple[Float[Array, "*rows"], Float[Array, "*rows"]]:
    """Q(S, A) and y of each row."""
    values = q_values(settings, network.outputs(parameters, rows.observation, rows.noise))
    next_q = None
    if rows.frozen_target is None:
        next_q = q_values(settings, network.outputs(parameters, rows.next_observation, rows.next_noise))
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
