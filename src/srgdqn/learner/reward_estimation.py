"""Reward estimation (Romoff et al. 2018): y has an estimate R̂(S, A) in the place of the R that was drawn.

R̂ is a network like the Q-network, with parameters ψ of its own. Before the targets of every outer iteration it makes
one step of Adam along

    ∇_ψ 1/N Σ_{i in D} w_i (R̂(S_i, A_i; ψ) - R_i)²
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from srgdqn.config import Configuration
from srgdqn.learner.gradients import Transitions
from srgdqn.learner.networks import Network, Parameters
from srgdqn.learner.optimiser import AdamState, adam, descend, init_adam

_STREAM = 0x5EED_0001  # folded into the key of the Q-network, whose own draw it leaves as it is


class RewardEstimate(NamedTuple):
    """ψ, and the moments of its Adam."""

    parameters: Parameters
    adam: AdamState


def first_estimate(configuration: Configuration, network: Network, key: PRNGKeyArray) -> RewardEstimate | None:
    """That of a round whose Q-network is drawn from this key; None where rewards are not estimated."""
    if not configuration.gradients.reward_estimation:
        return None
    parameters = network.init(jax.random.fold_in(key, _STREAM))
    return RewardEstimate(parameters, init_adam(parameters))


def fitted(
    configuration: Configuration,
    network: Network,
    estimate: RewardEstimate,
    transitions: Transitions,
    weights: Float[Array, " rows"] | None = None,
) -> RewardEstimate:
    """After one step of least squares on D."""

    def mean_squared_error(parameters: Parameters) -> Array:
        squares = (rewards_of(network, parameters, transitions) - transitions.reward) ** 2
        return (squares if weights is None else weights * squares).mean()

    gradient = jax.grad(mean_squared_error)(estimate.parameters)
    direction, moments = adam(configuration.optimiser, estimate.adam, gradient)
    return RewardEstimate(descend(estimate.parameters, direction, configuration.gradients.reward_alpha), moments)


def with_estimates(network: Network, estimate: RewardEstimate | None, transitions: Transitions) -> Transitions:
    """The transitions with R̂(S, A) in the place of R, where rewards are estimated."""
    if estimate is None:
        return transitions
    return transitions._replace(reward=rewards_of(network, estimate.parameters, transitions))


def rewards_of(network: Network, parameters: Parameters, transitions: Transitions) -> Float[Array, " rows"]:
    """R̂(S, A; ψ) of every row."""
    each = network.q_values(parameters, transitions.observation)
    return jnp.take_along_axis(each, transitions.action[..., None], axis=-1)[..., 0]
