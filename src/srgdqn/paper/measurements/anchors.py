"""The anchors of one algorithm's training run: their distances from exact ones, and the anatomy of their error."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import polars as pl

from srgdqn.config import Configuration
from srgdqn.learner.exploration import epsilon
from srgdqn.learner.replay import pack
from srgdqn.paper.measurements.anchor_distances import ESTIMATORS, Distances, alike, anchor_distances
from srgdqn.paper.measurements.anchor_error import AnchorError, anchor_error, fresh_transitions
from srgdqn.paper.measurements.gradient_spread import first_layers
from srgdqn.paper.measurements.recorded import (
    Moment,
    RecordedRun,
    Report,
    at_steps,
    batch_at,
    call_compiled,
    from_share,
    moments,
    record,
    rounds_table,
)
from srgdqn.paper.measurements.smoothness import local_smoothness, theory_step_size
from srgdqn.paper.measurements.theorem_problems import compiled
from srgdqn.training.interaction import action_count

_TRAINING_SHARE = 0.2  # of the time, roughly
BOUNDS_SCHEMA = {"step": pl.Int64, "bound": pl.Float64, "eta": pl.Float64, "satisfied": pl.Boolean}


@dataclass(frozen=True)
class Plan:
    """Whose run, and at which environment steps to look."""

    configuration: Configuration
    steps: tuple[int, ...]


def measure(plan: Plan, report: Report, stop: threading.Event) -> dict[str, pl.DataFrame]:
    """Distances for every estimator and inner iteration, the anatomy, and Theorem 1's bound on η, at every moment of
    every round that did not diverge.
    """
    training, looking = from_share(report, _TRAINING_SHARE)
    # Table 2's probe, so that both have the same program.
    probe_at = at_steps(plan.configuration, plan.steps)
    run = record(plan.configuration, training, stop, probe=first_layers, probe_at=probe_at)
    look = _Look(run)
    distances: list[dict[str, Any]] = []
    anatomy: list[dict[str, Any]] = []
    bounds: list[dict[str, Any]] = []
    for moment in moments(run, looking, stop):
        place: dict[str, Any] = {"round": moment.number, "step": moment.step}
        distances += [place | row for row in look.distances(moment)]
        anatomy.append(place | look.anatomy(moment))
        bounds.append({"step": moment.step, **look.bound(moment)})
    place_of = {"round": int, "step": int}
    return {
        "distances": pl.DataFrame(distances, schema={**place_of, "estimator": str, "m": int, **_reals(Distances)}),
        "anatomy": pl.DataFrame(anatomy, schema={**place_of, **_reals(AnchorError)}),
        "bounds": pl.DataFrame(bounds, schema=BOUNDS_SCHEMA),
        "rounds": rounds_table(run),
    }


def _reals(measured: type[Distances] | type[AnchorError]) -> dict[str, type]:
    return dict.fromkeys(measured._fields, float)


class _Look:
    """What there is to see at a run's moments. What does not depend on the algorithm is compiled once for all."""

    def __init__(self, run: RecordedRun) -> None:
        self.run = run
        self.plain = alike(run.configuration, ESTIMATORS[0])
        self.smoothness = compiled(functools.partial(local_smoothness, run.configuration, run.network))

    def _batch(self, recording: Any, number: Any, block: Any) -> Any:
        actions = action_count(self.run.task.environment)
        return batch_at(self.plain, self.run.network, recording, number, block, actions)

    def _distances(self, estimator: str, theta: Any, recording: Any, number: Any, block: Any) -> Distances:
        transitions, picks = self._batch(recording, number, block)
        return anchor_distances(self.plain, self.run.network, theta, transitions, picks, recording, estimator)

    def _anatomy(
        self, theta: Any, recording: Any, replay: Any, number: Any, block: Any, exploration: Any
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
        return anchor_error(self.plain, self.run.network, theta, pack(transitions), replay, recording, fresh)

    def _call(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        return call_compiled((__name__, name, self.plain), function, *arguments)

    def distances(self, moment: Moment) -> list[dict[str, Any]]:
        """A row per estimator and inner iteration."""
        rows: list[dict[str, Any]] = []
        for name in ESTIMATORS:
            distances = functools.partial(self._distances, name)
            found = jax.tree.map(np.asarray, self._call(name, distances, moment.theta, *moment.batch_place))
            for m in range(len(found.own)):
                values = {column: float(values[m]) for column, values in found._asdict().items()}
                rows.append({"estimator": name, "m": m + 1, **values})
        return rows

    def anatomy(self, moment: Moment) -> dict[str, float]:
        """The squared distances of one moment."""
        recording, number, block = moment.batch_place
        exploration = epsilon(self.run.configuration.acting, moment.step / recording.shape[0])
        found = self._call("anatomy", self._anatomy, moment.theta, recording, moment.replay, number, block, exploration)
        return {name: float(value) for name, value in found._asdict().items()}

    def bound(self, moment: Moment) -> dict[str, Any]:
        """Whether the run's η satisfies Theorem 1's bound for θ and D.

        The bound comes from the Hessians at θ and can only be too large: what is not satisfied here certainly is not.
        """
        settings = self.run.configuration
        transitions, _ = self._call("batch", self._batch, *moment.batch_place)
        constants = self.smoothness(moment.theta, transitions)
        bound, eta = theory_step_size(constants, settings.estimator.inner_iterations), float(settings.optimiser.eta)
        return {"bound": bound, "eta": eta, "satisfied": eta <= bound}
