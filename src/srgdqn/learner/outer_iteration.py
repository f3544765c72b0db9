"""One outer iteration: the paper's Algorithm 1 and its companions, as a pure function."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from srgdqn.config import Configuration
from srgdqn.learner.estimators import Query, Work, estimator
from srgdqn.learner.gradients import GradientSource, Transitions, make_gradients, outer_batch
from srgdqn.learner.networks import Network, Parameters
from srgdqn.learner.optimiser import (
    AdamState,
    adam,
    clip,
    descend,
    init_adam,
    schedule,
)

__all__ = [
    "LearnerState",
    "Trace",
    "batch_rows",
    "evaluations_per_iteration",
    "init_learner",
    "outer_iteration",
    "queries_per_iteration",
]


class LearnerState(NamedTuple):
    """What survives an outer iteration."""

    parameters: Parameters
    adam: AdamState
    target: Parameters | None  # a target network's parameters, where there is one
    memory: Any  # the estimator's
    iterations: Int[Array, ""]  # outer iterations made, the paper's s


class Trace(NamedTuple):
    """What happened within an outer iteration. The stacks at the end are there only on request."""

    loss: Float[Array, ""]  # mean loss on D at θ_0
    max_q: Float[Array, ""]  # mean max_a Q(S, a; θ_0) on D
    last_delta: Parameters  # Δ_M
    last_gradient: Parameters | None  # g_M, where it is asked for or Adam takes it
    queries: int  # gradients by the formula
    evaluations: int  # gradients evaluated
    deltas: Parameters | None  # Δ_0 … Δ_M
    iterates: Parameters | None  # θ_0 … θ_{M+1}, before the Adam process


class _Inner(NamedTuple):
    """The carry of the inner iterations; None where the configuration does not need it."""

    theta: Parameters
    delta: Parameters
    adam: AdamState
    state: Any
    previous_theta: Parameters | None
    gradient: Parameters | None


def init_learner(configuration: Configuration, parameters: Parameters) -> LearnerState:
    """The state before the first outer iteration."""
    name = configuration.estimator.estimator
    return LearnerState(
        parameters,
        init_adam(parameters),
        parameters if configuration.gradients.target in ("hard", "polyak") else None,
        None if name == "none" else estimator(name).init(parameters),
        jnp.zeros((), jnp.int32),
    )


def batch_rows(configuration: Configuration) -> int:
    """The transitions in D: N, or N + 2bM where one step is to spend as many queries as Algorithm 1."""
    inner = configuration.estimator
    extra = 2 * inner.inner_batch * inner.inner_iterations
    matched = configuration.optimiser.single_step_matches == "queries"
    return configuration.replay.batch_size + (extra if matched else 0)


def queries_per_iteration(configuration: Configuration) -> int:
    """Gradient queries of one outer iteration by its formula: N + 2bM for Algorithm 1."""
    return batch_rows(configuration) + _inner_work(configuration, "queries")


def evaluations_per_iteration(configuration: Configuration) -> int:
    """Gradients of single transitions that one outer iteration really evaluates."""
    return batch_rows(configuration) + _inner_work(configuration, "evaluations")


def _inner_work(configuration: Configuration, count: str) -> int:
    inner = configuration.estimator
    if inner.estimator == "none" or inner.inner_iterations == 0:
        return 0
    work = Work(configuration.replay.batch_size, inner.inner_iterations, inner.inner_batch)
    return int(getattr(estimator(inner.estimator), count)(work))


def outer_iteration(
    configuration: Configuration,
    network: Network,
    state: LearnerState,
    transitions: Transitions,
    picks: Int[Array, "M b"],
    *,
    anchor: Parameters | None = None,
    progress: Float[Array, ""] | float = 0.0,
    keep_iterates: bool = False,
    keep_gradient: bool = False,
) -> tuple[LearnerState, Trace]:
    """Lines 3 to 21 of Algorithm 1 on the batch D and the inner picks given.

    Args:
      configuration: the settings; its numbers may be traced.
      network: the Q-network.
      state: the learner's state; its parameters are θ_0.
      transitions: D.
      picks: row m - 1 holds the b rows of D that inner iteration m uses.
      anchor: Δ_0, where it is not to be the gradient on D (SVR-DQN with exact anchors).
      progress: the share of the budget already spent, for step-size schedules.
      keep_iterates: return every Δ_m and θ_m, and g_M, in the trace.
      keep_gradient: return g_M in the trace.

    Returns:
      The new state, and the trace.

    """
    settings, inner = configuration.optimiser, configuration.estimator
    theta_0 = state.parameters
    source = make_gradients(configuration.gradients, network)
    batch = outer_batch(configuration.gradients, network, transitions, theta_0, state.target)
    factor = schedule(settings, progress)

    def step(theta: Parameters, delta: Parameters, moments: AdamState) -> tuple[Parameters, AdamState]:
        delta = clip(settings, delta)
        if settings.step == "adam":
            delta, moments = adam(settings, moments, delta)
            return descend(theta, delta, factor * settings.alpha), moments
        return descend(theta, delta, factor * eta), moments

    matched = inner.inner_iterations + 1 if settings.single_step_matches == "length" else 1
    eta = matched * settings.eta

    full, loss, max_q = source.mean(theta_0, batch)  # line 5
    delta_0 = full if anchor is None else anchor
    if inner.anchor_step:
        theta_1, moments = step(theta_0, delta_0, state.adam)  # line 6
    else:
        theta_1, moments = theta_0, state.adam
    needs_previous = settings.adam_process and settings.adam_from == "previous"
    needs_gradient = keep_iterates or keep_gradient or (settings.adam_process and settings.adam_input == "gradient")
    end = _Inner(
        theta_1,
        delta_0,
        moments,
        None,
        theta_0 if needs_previous else None,
        delta_0 if needs_gradient else None,
    )
    stacks = None
    memory = state.memory
    if inner.estimator != "none" and inner.inner_iterations > 0:
        end, stacks = _inner_iterations(configuration, source, step, state, batch, picks, end, keep_iterates)
        memory = estimator(inner.estimator).finish(end.state)

    parameters, moments = end.theta, end.adam
    if settings.adam_process:  # lines 16 to 21
        # Without inner iterations g_M is not defined: Δ_0 takes its place (row 6 of the readings).
        entering = end.delta if settings.adam_input == "delta" else end.gradient
        direction, moments = adam(settings, moments, clip(settings, entering))
        start = end.theta if settings.adam_from == "last" else end.previous_theta
        parameters = descend(start, direction, factor * settings.alpha)

    iterations = state.iterations + 1
    target = _move_target(configuration, state.target, parameters, iterations)
    trace = Trace(
        loss,
        max_q,
        end.delta,
        end.gradient,
        queries_per_iteration(configuration),
        evaluations_per_iteration(configuration),
        _stack(delta_0, None if stacks is None else stacks[0]) if keep_iterates else None,
        _stack_iterates(theta_0, theta_1, None if stacks is None else stacks[1]) if keep_iterates else None,
    )
    return LearnerState(parameters, moments, target, memory, iterations), trace


def _inner_iterations(
    configuration: Configuration,
    source: GradientSource,
    step: Any,
    state: LearnerState,
    batch: Any,
    picks: Int[Array, "M b"],
    start: _Inner,
    keep_iterates: bool,
) -> tuple[_Inner, Any]:
    """Lines 7 to 15: M steps along the estimator's directions."""
    inner = configuration.estimator
    chosen = estimator(inner.estimator)
    rows = batch.rows(jnp.concatenate([picks, picks[-1:]]))
    anchor = start.delta
    begun = chosen.begin(state.memory, state.parameters, anchor, Query(source, batch, rows, 0))

    def iterate(carry: _Inner, m: Array) -> tuple[_Inner, Any]:
        query = Query(source, batch, rows, m)
        delta, gradient, after = chosen.direction(carry.state, carry.theta, carry.delta, query, inner.coefficient)
        theta, moments = step(carry.theta, delta, carry.adam)
        new = _Inner(
            theta,
            delta,
            moments,
            after,
            None if carry.previous_theta is None else carry.theta,
            None if carry.gradient is None else gradient,
        )
        return new, ((delta, theta) if keep_iterates else None)

    return jax.lax.scan(iterate, start._replace(state=begun), jnp.arange(1, inner.inner_iterations + 1))


def _move_target(
    configuration: Configuration, target: Parameters | None, parameters: Parameters, iterations: Array
) -> Parameters | None:
    """A target network's parameters after an outer iteration: copied every `target_period`, or drifting by τ."""
    settings = configuration.gradients
    if target is None:
        return None
    if settings.target == "hard":
        due = iterations % settings.target_period == 0
        return jax.tree.map(lambda old, new: jnp.where(due, new, old), target, parameters)
    return optax.incremental_update(parameters, target, settings.target_tau)


def _stack(first: Parameters, rest: Parameters | None) -> Parameters:
    if rest is None:
        return jax.tree.map(lambda leaf: leaf[None], first)
    return jax.tree.map(lambda one, many: jnp.concatenate([one[None], many]), first, rest)


def _stack_iterates(theta_0: Parameters, theta_1: Parameters, rest: Parameters | None) -> Parameters:
    return _stack(theta_0, _stack(theta_1, rest))
