"""The anchors of one algorithm's training run: their distances from exact ones, and the anatomy of their error.

Distances (the paper's Figure 3, right, and claim C7): from one θ_0, one D and the same picks, SRG and SVRG each make an
outer iteration. At its inner iteration m, SRG's anchor is Δ_{m-1} and SVRG's is Δ_0. The exact gradient at a θ is that
over all recorded transitions.

Anatomy (claim C11): how far apart the gradients at one θ are: those on D, on the replay that D was drawn from, on all
recorded transitions, and on fresh transitions of the present policy.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import polars as pl
from jaxtyping import Array, Float, Int, PRNGKeyArray

from srgdqn.config import Configuration
from srgdqn.learner.exploration import epsilon, epsilon_greedy
from srgdqn.learner.gradients import Transitions, make_batch, make_gradients
from srgdqn.learner.networks import Network, Parameters
from srgdqn.learner.outer_iteration import outer_iteration
from srgdqn.learner.replay import pack
from srgdqn.paper.measurements.parts import Parts
from srgdqn.paper.measurements.recorded import (
    ESTIMATORS,
    Moment,
    Plan,
    RecordedRun,
    Report,
    alike,
    batch_at,
    call_compiled,
    exact_gradient,
    frozen_parameters,
    learner_at,
    record_moments,
    rounds_table,
)
from srgdqn.paper.measurements.smoothness import local_smoothness, theory_step_size
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.tasks import Task
from srgdqn.training.interaction import Situation, action_count, begin_episode, take_step


class Distances(NamedTuple):
    """For m = 1 … M. The first three are claim C7's definitions."""

    own: Float[Array, " M"]  # of the anchor from the exact gradient at the anchor's own θ
    present: Float[Array, " M"]  # of the anchor from the exact gradient at θ_m
    estimate: Float[Array, " M"]  # of Δ_m from the exact gradient at θ_m
    floor: Float[Array, " M"]  # of the gradient on D from the exact gradient at θ_m: D's own error
    own_norm: Float[Array, " M"]  # of the exact gradient at the anchor's own θ
    norm: Float[Array, " M"]  # of the exact gradient at θ_m


class AnchorError(NamedTuple):
    """Squared distances between gradients at one θ.

    Fresh transitions are a sample, and so is the replay: their errors must not pass for drift. The product of the
    distances from two independent fresh samples is free of these samples' errors, and half of their squared distance
    from each other estimates that of a sample as long as they are, the replay. What is left may come out below 0.
    """

    sampling: Float[Array, ""]  # D against the replay
    unseen: Float[Array, ""]  # the replay against all recorded: the paper's first reason
    drift: Float[Array, ""]  # the replay against the present policy: the paper's second reason
    total: Float[Array, ""]  # D against all recorded


def measure(
    plan: Plan, report: Report, stop: threading.Event, manager: CheckpointManager | None = None
) -> dict[str, pl.DataFrame]:
    """Distances for every estimator and inner iteration, the anatomy, and Theorem 1's bound on η, at every moment of
    every round that did not diverge.
    """
    place_of = {"round": int, "step": int}
    schemas = {
        "distances": {**place_of, "estimator": str, "m": int, **_reals(Distances)},
        "anatomy": {**place_of, **_reals(AnchorError)},
        "bounds": {"step": int, "bound": float, "eta": float, "satisfied": bool},
    }
    parts = Parts(manager, schemas)
    run, moments = record_moments(plan, report, stop, parts, training_share=0.2)
    look = _Look(run)
    for moment in moments:
        place: dict[str, Any] = {"round": moment.number, "step": moment.step}
        parts.add(
            distances=[place | row for row in look.distances(moment)],
            anatomy=[place | look.anatomy(moment)],
            bounds=[{"step": moment.step, **look.bound(moment)}],
        )
    return {**parts.tables(), "rounds": rounds_table(run)}


def _reals(measured: type[Distances] | type[AnchorError]) -> dict[str, type]:
    return dict.fromkeys(measured._fields, float)


class _Look:
    """What there is to see at a run's moments. What does not depend on the algorithm is compiled once for all."""

    def __init__(self, run: RecordedRun) -> None:
        self.run = run
        self.plain = alike(run.configuration, ESTIMATORS[0])

    def _batch(self, recording: Any, number: Any, block: Any) -> Any:
        actions = action_count(self.run.task.environment)
        return batch_at(self.plain, self.run.network, recording, number, block, actions)

    def _distances(self, estimator: str, theta: Any, target: Any, recording: Any, number: Any, block: Any) -> Distances:
        transitions, picks = self._batch(recording, number, block)
        return anchor_distances(self.plain, self.run.network, theta, transitions, picks, recording, estimator, target)

    def _anatomy(
        self, theta: Any, target: Any, recording: Any, replay: Any, number: Any, block: Any, exploration: Any
    ) -> AnchorError:
        transitions, _ = self._batch(recording, number, block)
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(self.plain.training.seed), number), block)
        fresh = jax.vmap(
            lambda key: fresh_transitions(
                self.run.task,
                self.run.network,
                theta,
                exploration,
                key,
                steps=self.plain.replay.replay_capacity,
                reward_scale=self.plain.task.reward_scale,
            )
        )(jax.random.split(key))
        return anchor_error(self.plain, self.run.network, theta, pack(transitions), replay, recording, fresh, target)

    def _call(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        return call_compiled((__name__, name, self.plain), function, *arguments)

    def distances(self, moment: Moment) -> list[dict[str, Any]]:
        """A row per estimator and inner iteration."""
        rows: list[dict[str, Any]] = []
        for name in ESTIMATORS:
            distances = functools.partial(self._distances, name)
            found = jax.tree.map(np.asarray, self._call(name, distances, *moment.learner, *moment.batch_place))
            for m in range(len(found.own)):
                values = {column: float(values[m]) for column, values in found._asdict().items()}
                rows.append({"estimator": name, "m": m + 1, **values})
        return rows

    def anatomy(self, moment: Moment) -> dict[str, float]:
        """The squared distances of one moment."""
        recording, number, block = moment.batch_place
        exploration = epsilon(self.run.configuration.acting, moment.step / recording.shape[0])
        given = (*moment.learner, recording, moment.replay, number, block, exploration)
        found = self._call("anatomy", self._anatomy, *given)
        return {name: float(value) for name, value in found._asdict().items()}

    def bound(self, moment: Moment) -> dict[str, Any]:
        """Whether the run's η satisfies Theorem 1's bound for θ and D.

        The bound comes from the Hessians at θ and can only be too large: what is not satisfied here certainly is not.
        """
        settings = self.run.configuration
        transitions, _ = self._call("batch", self._batch, *moment.batch_place)
        smoothness = functools.partial(local_smoothness, self.plain, self.run.network)
        constants = self._call("smoothness", smoothness, moment.theta, transitions, moment.target)
        bound, eta = theory_step_size(constants, settings.estimator.inner_iterations), float(settings.optimiser.eta)
        return {"bound": bound, "eta": eta, "satisfied": eta <= bound}


# Distances


def anchor_distances(
    configuration: Configuration,
    network: Network,
    theta: Parameters,
    batch: Transitions,
    picks: Int[Array, "M b"],
    recording: Float[Array, "steps width"],
    estimator: str,
    target: Parameters | None = None,
) -> Distances:
    """The distances within one outer iteration, made without the Adam process, of one estimator."""
    chosen = alike(configuration, estimator)
    _, trace = outer_iteration(chosen, network, learner_at(chosen, theta, target), batch, picks, keep_iterates=True)
    before = jax.tree.map(lambda leaf: leaf[:-1], trace.iterates)  # θ_0 … θ_M
    frozen = frozen_parameters(configuration, theta, target)
    exact = jax.lax.map(lambda at: exact_gradient(configuration, network, at, recording, frozen), before)
    source = make_gradients(configuration.gradients, network)
    rows = make_batch(configuration.gradients, network, batch, frozen)
    on_batch = jax.vmap(lambda at: source.mean(at, rows)[0])(before)

    deltas = trace.deltas
    later, earlier = slice(1, None), slice(None, -1)
    if estimator == "srg":
        anchor, exact_at_anchor = _at(deltas, earlier), _at(exact, earlier)
    else:
        anchor, exact_at_anchor = (_first_repeated(tree) for tree in (deltas, exact))
    return Distances(
        own=_apart(anchor, exact_at_anchor),
        present=_apart(anchor, _at(exact, later)),
        estimate=_apart(_at(deltas, later), _at(exact, later)),
        floor=_apart(_at(on_batch, later), _at(exact, later)),
        own_norm=_norms(exact_at_anchor),
        norm=_norms(_at(exact, later)),
    )


def _at(tree: Parameters, index: slice) -> Parameters:
    return jax.tree.map(lambda leaf: leaf[index], tree)


def _first_repeated(tree: Parameters) -> Parameters:
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[:1], leaf[1:].shape), tree)


def _norms(stack: Parameters) -> Float[Array, " M"]:
    return jax.vmap(optax.tree.norm)(stack)


def _apart(a: Parameters, b: Parameters) -> Float[Array, " M"]:
    return _norms(optax.tree.sub(a, b))


# The anatomy


def anchor_error(
    configuration: Configuration,
    network: Network,
    theta: Parameters,
    batch: Float[Array, "N width"],
    replay: Float[Array, "filled width"],
    recording: Float[Array, "steps width"],
    fresh: Float[Array, "2 fresh width"],
    target: Parameters | None = None,
) -> AnchorError:
    """The squared distances at θ; all transitions are packed rows."""
    frozen = frozen_parameters(configuration, theta, target)
    on_batch, on_replay, on_all, on_one, on_other = (
        exact_gradient(configuration, network, theta, rows, frozen) for rows in (batch, replay, recording, *fresh)
    )
    return AnchorError(
        sampling=_squared_distance(on_batch, on_replay),
        unseen=_squared_distance(on_replay, on_all),
        drift=optax.tree.vdot(optax.tree.sub(on_replay, on_one), optax.tree.sub(on_replay, on_other))
        - _squared_distance(on_one, on_other) / 2,
        total=_squared_distance(on_batch, on_all),
    )


def fresh_transitions(
    task: Task,
    network: Network,
    theta: Parameters,
    exploration: Float[Array, ""] | float,
    key: PRNGKeyArray,
    *,
    steps: int,
    reward_scale: Array | float = 1.0,
) -> Float[Array, "steps width"]:
    """Packed transitions of the ε-greedy policy of θ, from a fresh episode on."""
    environment = task.environment
    first, rest = jax.random.split(key)

    def step(situation: Situation, step_key: PRNGKeyArray) -> tuple[Situation, Array]:
        explore, act, episode, observe, move = jax.random.split(step_key, 5)
        q_values = network.q_values(theta, situation.observation[None])[0]
        random_action = jax.random.randint(act, (), 0, action_count(environment))
        action = epsilon_greedy(q_values, jnp.asarray(exploration), jax.random.uniform(explore), random_action)
        fresh = begin_episode(environment, episode, observe)
        after, outcome = take_step(environment, situation, action, fresh, task.time_limit, move)
        made = outcome.transition
        return after, pack(made._replace(reward=made.reward * reward_scale))

    start = begin_episode(environment, *jax.random.split(first))
    return jax.lax.scan(step, start, jax.random.split(rest, steps))[1]


def _squared_distance(a: Parameters, b: Parameters) -> Float[Array, ""]:
    return optax.tree.norm(optax.tree.sub(a, b), squared=True)
