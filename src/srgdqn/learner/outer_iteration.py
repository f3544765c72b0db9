"""One outer iteration: the paper's Algorithm 1 and its companions, as a pure function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, UInt32

from srgdqn.config import Configuration, OptimiserSettings
from srgdqn.config.discovery import BUILT_IN_ESTIMATORS
from srgdqn.config.estimator_numbers import numbers_of_estimator
from srgdqn.errors import InputError
from srgdqn.learner.estimators import Clock, Direction, Estimator, Origin, Query, Work, estimator
from srgdqn.learner.gradients import (
    BEYOND,
    Batch,
    RowNoise,
    Transitions,
    make_gradients,
    outer_batch,
    row_noise,
)
from srgdqn.learner.gradients.bellman import values_and_targets
from srgdqn.learner.guarded import guarded, require_form
from srgdqn.learner.networks import Network, Parameters
from srgdqn.learner.optimiser import (
    AdamState,
    adam,
    adam_step,
    after_copy,
    clip,
    descend,
    init_adam,
    schedule,
)
from srgdqn.learner.prioritised import Priorities, init_priorities, learned
from srgdqn.learner.prioritised import weights as importance_weights
from srgdqn.learner.replay import ring_length
from srgdqn.learner.reward_estimation import RewardEstimate, fitted, with_estimates
from srgdqn.learner.target_network import copied_where, init_target, moved

__all__ = [
    "LearnerState",
    "Trace",
    "batch_rows",
    "evaluated_parameters",
    "evaluations_per_iteration",
    "init_learner",
    "logged_columns",
    "logged_numbers",
    "outer_iteration",
    "queries_per_iteration",
]


class LearnerState(NamedTuple):
    """What survives an outer iteration."""

    parameters: Parameters
    adam: AdamState
    target: Parameters | None  # a target network's parameters, where there is one: a stack of copies if it has several
    memory: Any  # the estimator's
    iterations: Int[Array, ""]  # outer iterations made, the paper's s
    rewards: RewardEstimate | None = None  # where they are estimated
    priorities: Priorities | None = None  # of the replay's transitions, where D is drawn by them


class Trace(NamedTuple):
    """What happened within an outer iteration. The stacks at the end are there only on request."""

    loss: Float[Array, ""]  # mean loss on D at θ_0
    max_q: Float[Array, ""]  # mean max_a Q(S, a; θ_0) on D
    last_delta: Parameters  # Δ_M
    last_gradient: Parameters | None  # g_M, where it is asked for or Adam takes it
    last_theta: Parameters | None  # θ_M, where Δ_M was computed, if it is asked for
    entered: Parameters | None  # Adam's m last, if that is asked for; not shortened to clip_norm
    batch: Batch | None  # D as gradients see it, if what is above is asked for
    queries: Any  # gradients by the formula
    evaluations: Any  # gradients evaluated
    deltas: Parameters | None  # Δ_0 … Δ_M
    iterates: Parameters | None  # θ_0 … θ_{M+1}, before the Adam process


class _Inner(NamedTuple):
    """The carry of the inner iterations; None where the configuration does not need it."""

    theta: Parameters
    delta: Parameters | None
    adam: AdamState
    state: Any
    previous_theta: Parameters | None
    gradient: Parameters | None
    entered: Parameters | None


def chosen_estimator(configuration: Configuration) -> Estimator | None:
    """The configuration's estimator; None where there are no inner iterations."""
    settings = configuration.estimator
    if settings.estimator == "none":
        return None
    chosen = estimator(settings.estimator)
    if settings.estimator not in BUILT_IN_ESTIMATORS:
        chosen = guarded(settings.estimator, chosen, adam_steps=configuration.optimiser.step == "adam")
    return chosen if settings.inner_iterations > 0 or chosen.per == "batch" else None


def sizes_of(configuration: Configuration) -> Work:
    """What an estimator's memory may depend on: its other numbers are not known where a program for it is compiled."""
    declared, work = numbers_of_estimator(configuration.estimator.estimator), work_of(configuration)
    sizes = {name: value for name, value in work.numbers.items() if name in declared and declared[name].size}
    return work._replace(window=None, numbers=sizes)


def work_of(configuration: Configuration) -> Work:
    """What an estimator's cost depends on."""
    settings = configuration.estimator
    declared = numbers_of_estimator(settings.estimator)
    numbers = {name: int(value) if name in declared and declared[name].size else value for name, value in settings.own}
    return Work(
        configuration.replay.batch_size,
        settings.inner_iterations,
        settings.inner_batch,
        ring_length(configuration.replay, configuration.training.learning_frequency),
        _window(configuration),
        numbers,
    )


def _window(configuration: Configuration) -> Any:
    """The outer iterations for which a hard target network stands still; None where it does not."""
    gradients, training = configuration.gradients, configuration.training
    if gradients.target != "hard":
        return None
    if gradients.target_update_interval is None:
        return gradients.target_period
    blocks = jnp.maximum(1, gradients.target_update_interval / training.learning_frequency)
    return blocks * training.gradient_steps


def init_learner(
    configuration: Configuration, parameters: Parameters, rewards: RewardEstimate | None = None
) -> LearnerState:
    """The state before the first outer iteration; `rewards` is the estimate where rewards are estimated."""
    if (rewards is not None) != configuration.gradients.reward_estimation:
        raise ValueError("give `rewards`, from `first_estimate`, exactly where reward_estimation is on")
    chosen = chosen_estimator(configuration)
    return LearnerState(
        parameters,
        init_adam(parameters),
        init_target(configuration.gradients, parameters),
        None if chosen is None or chosen.init is None else chosen.init(parameters, sizes_of(configuration)),
        jnp.zeros((), jnp.int32),
        rewards,
        init_priorities(configuration),
    )


def evaluated_parameters(configuration: Configuration, state: LearnerState, *, rounds: bool = False) -> Parameters:
    """The parameters that evaluations and saved policies have: θ, unless the estimator has others. `rounds`: all arrays
    have an axis of rounds first.
    """
    chosen = chosen_estimator(configuration)
    if chosen is None or chosen.evaluated is None:
        return state.parameters
    # Not compiled apart: what was compiled of a function of the user's would outlast a change of what it reads.
    function = jax.vmap(chosen.evaluated) if rounds else chosen.evaluated
    parameters: Parameters = function(state.memory, state.parameters)
    return parameters


def evaluates_others(configuration: Configuration) -> bool:
    """Whether evaluations have other parameters than θ."""
    chosen = chosen_estimator(configuration)
    return chosen is not None and chosen.evaluated is not None


def logged_columns(configuration: Configuration) -> tuple[str, ...]:
    """The names of the numbers that the estimator logs."""
    chosen = chosen_estimator(configuration)
    return () if chosen is None else tuple(name for name, _ in chosen.logged)


def logged_numbers(configuration: Configuration, state: LearnerState) -> tuple[Array, ...]:
    """What the estimator logs after an outer iteration, in the order of the names."""
    chosen = chosen_estimator(configuration)
    return () if chosen is None else tuple(number(state.memory, state.parameters) for _, number in chosen.logged)


def batch_rows(configuration: Configuration) -> int:
    """The transitions in D: N, or N + 2bM where one step is to spend as many queries as Algorithm 1."""
    inner = configuration.estimator
    extra = 2 * inner.inner_batch * inner.inner_iterations
    matched = configuration.optimiser.single_step_matches == "queries"
    return configuration.replay.batch_size + (extra if matched else 0)


def replay_rows(configuration: Configuration) -> int:
    """The rows of the replay beyond D that the estimator may ask about."""
    chosen = chosen_estimator(configuration)
    return 0 if chosen is None or chosen.replay_rows is None else chosen.replay_rows(sizes_of(configuration))


def coins_needed(configuration: Configuration) -> int:
    """The random numbers that the estimator uses in an outer iteration."""
    chosen = chosen_estimator(configuration)
    if chosen is None or not chosen.coins:
        return 0
    return 1 if chosen.per == "batch" else configuration.estimator.inner_iterations


def uses_anchor(configuration: Configuration) -> bool:
    """Whether Δ_0, the gradient on D at θ_0, is computed (and counted)."""
    chosen = chosen_estimator(configuration)
    if chosen is not None and chosen.per == "batch":
        return False
    return configuration.estimator.anchor_step or chosen is None or chosen.anchor


def queries_per_iteration(configuration: Configuration) -> int:
    """Gradient queries of one outer iteration by its formula: N + 2bM for Algorithm 1."""
    return round(_count(configuration, "queries"))


def evaluations_per_iteration(configuration: Configuration) -> int:
    """Gradients of single transitions that one outer iteration really evaluates."""
    return round(_count(configuration, "evaluations"))


def _count(configuration: Configuration, count: str) -> Any:
    chosen = chosen_estimator(configuration)
    beside = 0 if chosen is None else getattr(chosen, count)(work_of(configuration))
    return beside + (batch_rows(configuration) if uses_anchor(configuration) else 0)


def outer_iteration(
    configuration: Configuration,
    network: Network,
    state: LearnerState,
    transitions: Transitions,
    picks: Int[Array, "M b"],
    *,
    weights: Float[Array, " rows"] | None = None,
    origin: Origin | None = None,
    replay: Callable[[], Transitions] | None = None,
    coins: Float[Array, " directions"] | None = None,
    renewed: Bool[Array, ""] | None = None,
    noise: UInt32[Array, " words"] | None = None,
    anchor: Parameters | None = None,
    progress: Float[Array, ""] | float = 0.0,
    keep_iterates: bool = False,
    keep_last: bool = False,
) -> tuple[LearnerState, Trace]:
    """Lines 3 to 21 of Algorithm 1 on the batch D and the inner picks given.

    Args:
      configuration: the settings; its numbers may be traced.
      network: the Q-network.
      state: the learner's state; its parameters are θ_0.
      transitions: D.
      picks: row m - 1 holds the b rows of D that inner iteration m uses.
      weights: of the rows' losses in F_D, where they are not all 1.
      origin: where D is in the replay, for estimators that store something for every transition.
      replay: gives rows of the replay beyond D, for estimators that ask about such.
      coins: random numbers for estimators that use such, one for each direction.
      renewed: whether a hard target network is copied first, where environment steps say when (None: no).
      noise: a random key's data, of which the noise of D's rows is drawn, where the network has any (None: it has the
        means of noisy layers, and drops nothing).
      anchor: Δ_0, where it is not to be the gradient on D (SVR-DQN with exact anchors).
      progress: the share of the budget already spent, for step-size schedules.
      keep_iterates: return every Δ_m and θ_m, and what `keep_last` does.
      keep_last: return g_M and θ_M in the trace.

    Returns:
      The new state, and the trace.

    """
    settings, inner = configuration.optimiser, configuration.estimator
    theta_0 = state.parameters
    if renewed is not None:
        state = state._replace(target=copied_where(configuration.gradients, renewed, state.target, theta_0))
    clock = _clock(configuration, state, progress, renewed)
    state = state._replace(adam=after_copy(settings, state.adam, clock.synchronised))
    priorities = state.priorities
    if priorities is not None:
        assert origin is not None
        weights = importance_weights(configuration.replay, priorities, origin.slots, progress)
    rewards = state.rewards
    if rewards is not None:
        rewards = fitted(configuration, network, rewards, transitions, weights)
    source = make_gradients(configuration.gradients, network)

    def batch_of(
        transitions: Transitions, weights: Float[Array, " rows"] | None, noise_of_rows: RowNoise | None
    ) -> Batch:
        seen = with_estimates(network, rewards, transitions)
        given = (configuration.gradients, network, seen, theta_0, state.target)
        return outer_batch(*given, weights, noise_of_rows)

    of_rows = row_noise(configuration.network, noise)
    batch = batch_of(transitions, weights, of_rows)
    if priorities is not None and origin is not None:
        q, y = values_and_targets(configuration.gradients, network, theta_0, batch)
        priorities = learned(configuration.replay, priorities, origin.slots, y - q)
    factor = schedule(settings, progress)
    chosen = chosen_estimator(configuration)

    matched = inner.inner_iterations + 1 if settings.single_step_matches == "length" else 1
    eta = matched * settings.eta

    def step(theta: Parameters, made: Direction, moments: AdamState) -> tuple[Parameters, AdamState]:
        if settings.step == "adam":
            direction, moments = adam(settings, moments, *_entering(settings, made))
            return adam_step(settings, theta, direction, factor * settings.alpha), moments
        return descend(theta, clip(settings, made.delta), factor * eta), moments

    full, loss, max_q = source.mean(theta_0, batch)  # line 5; the compiler drops what nobody uses
    delta_0 = None
    if uses_anchor(configuration) or keep_iterates:
        delta_0 = full if anchor is None else anchor
    moments, theta_1 = state.adam, theta_0
    anchor_step = inner.anchor_step and not (chosen is not None and chosen.per == "batch")
    if anchor_step:
        theta_1, moments = step(theta_0, Direction(delta_0, delta_0, None), state.adam)  # line 6
    keep_last = keep_last or keep_iterates
    needs_previous = keep_last or (settings.adam_process and settings.adam_from == "previous")
    needs_gradient = keep_last or (settings.adam_process and settings.adam_input == "gradient")
    nothing = jax.tree.map(jnp.zeros_like, theta_0) if delta_0 is None else delta_0
    end = _Inner(
        theta_1,
        nothing,
        moments,
        None,
        theta_0 if needs_previous else None,
        nothing if needs_gradient else None,
        nothing if keep_last else None,
    )
    stacks = None
    memory = state.memory
    if chosen is not None:
        query = Query(
            source,
            batch,
            None,
            0,
            picks,
            {"coefficient": inner.coefficient, **dict(inner.own)},
            clock,
            state.target,
            origin,
            None if replay is None else lambda: batch_of(replay(), None, of_rows and of_rows.of(BEYOND)),
            coins,
        )
        run = _on_whole_batch if chosen.per == "batch" else _inner_iterations
        end, stacks = run(configuration, chosen, query, step, state, end, delta_0, keep_iterates)
        if chosen.finish is not None:
            memory = chosen.finish(end.state, end.theta)
        elif chosen.per == "batch":
            memory = end.state
        whose = f"of the estimator {inner.estimator!r}"
        require_form(f"what the memory {whose} becomes", memory, state.memory, "the memory that init makes")

    parameters, moments, entered = end.theta, end.adam, end.entered
    if settings.adam_process:  # lines 16 to 21
        # Without inner iterations g_M is not defined: Δ_0 takes its place (row 6 of the readings).
        entering = end.delta if settings.adam_input == "delta" else end.gradient
        direction, moments = adam(settings, moments, clip(settings, entering))
        entered = entering
        start = end.theta if settings.adam_from == "last" else end.previous_theta
        parameters = adam_step(settings, start, direction, factor * settings.alpha)

    iterations = state.iterations + 1
    target = moved(configuration.gradients, state.target, parameters, iterations)
    trace = Trace(
        loss,
        max_q,
        end.delta,
        end.gradient,
        end.previous_theta if keep_last else None,
        entered if keep_last else None,
        batch if keep_last else None,
        _count(configuration, "queries"),
        _count(configuration, "evaluations"),
        _stack(nothing, None if stacks is None else stacks[0]) if keep_iterates else None,
        _stack_iterates(theta_0, theta_1, None if stacks is None else stacks[1]) if keep_iterates else None,
    )
    return LearnerState(parameters, moments, target, memory, iterations, rewards, priorities), trace


def _entering(settings: OptimiserSettings, made: Direction) -> tuple[Parameters, Parameters | None]:
    """What enters Adam's m and v, the latter where it is something else; each is shortened to `clip_norm`."""
    first = _first(made)
    second = None if made.first is None and made.second is None else made.delta if made.second is None else made.second
    return clip(settings, first), None if second is None else clip(settings, second)


def _first(made: Direction) -> Parameters:
    return made.delta if made.first is None else made.first


def _clock(configuration: Configuration, state: LearnerState, progress: Array | float, renewed: Any) -> Clock:
    synchronised = state.iterations == 0
    if renewed is not None:
        synchronised |= renewed
    elif configuration.gradients.target == "hard" and configuration.gradients.target_update_interval is None:
        synchronised |= state.iterations % configuration.gradients.target_period == 0
    return Clock(state.iterations, progress, synchronised)


def _on_whole_batch(
    configuration: Configuration,
    chosen: Estimator,
    query: Query,
    step: Any,
    state: LearnerState,
    start: _Inner,
    anchor: None,
    keep_iterates: bool,
) -> tuple[_Inner, Any]:
    """One step along an estimator's direction for all of D."""
    begun = state.memory if chosen.begin is None else chosen.begin(state.memory, start.theta, anchor, query)
    made = chosen.direction(begun, start.theta, None, query)
    if made.ended is not None:
        raise InputError(
            f"the estimator {configuration.estimator.estimator!r} says that inner iterations have ended, but it has a "
            "direction per batch, and there are none. Leave ended out."
        )
    theta, moments = step(start.theta, made, start.adam)
    end = start._replace(theta=theta, delta=made.delta, adam=moments, state=made.state)
    if start.gradient is not None:
        end = end._replace(gradient=made.gradient)
    if start.entered is not None:
        end = end._replace(entered=_first(made))
    return end, (jax.tree.map(lambda leaf: leaf[None], (made.delta, theta)) if keep_iterates else None)


def _inner_iterations(
    configuration: Configuration,
    chosen: Estimator,
    query: Query,
    step: Any,
    state: LearnerState,
    start: _Inner,
    anchor: Parameters | None,
    keep_iterates: bool,
) -> tuple[_Inner, Any]:
    """Lines 7 to 15: M steps along the estimator's directions."""
    inner, picks = configuration.estimator, query.picked
    query = query._replace(picks=query.batch.rows(jnp.concatenate([picks, picks[-1:]])))
    begun = state.memory if chosen.begin is None else chosen.begin(state.memory, state.parameters, anchor, query)

    def iterate(carry: _Inner, m: Array) -> tuple[_Inner, Any]:
        made = chosen.direction(carry.state, carry.theta, carry.delta, query._replace(m=m))
        theta, moments = step(carry.theta, made, carry.adam)
        new = _Inner(
            theta,
            made.delta,
            moments,
            made.state,
            None if carry.previous_theta is None else carry.theta,
            None if carry.gradient is None else made.gradient,
            None if carry.entered is None else _first(made),
        )
        if (ended := made.ended) is not None:
            new = jax.tree.map(lambda old, moved: jnp.where(ended, old, moved), carry, new)
        return new, ((new.delta, new.theta) if keep_iterates else None)

    return jax.lax.scan(iterate, start._replace(state=begun), jnp.arange(1, inner.inner_iterations + 1))


def _stack(first: Parameters, rest: Parameters | None) -> Parameters:
    if rest is None:
        return jax.tree.map(lambda leaf: leaf[None], first)
    return jax.tree.map(lambda one, many: jnp.concatenate([one[None], many]), first, rest)


def _stack_iterates(theta_0: Parameters, theta_1: Parameters, rest: Parameters | None) -> Parameters:
    return _stack(theta_0, _stack(theta_1, rest))
