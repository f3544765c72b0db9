"""The anchors of one algorithm's training run: their distances from exact ones, and the anatomy of their error."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl

from srgdqn.config import Configuration
from srgdqn.learner.exploration import epsilon
from srgdqn.learner.gradients import Transitions
from srgdqn.learner.replay import pack
from srgdqn.paper.measurements.anchor_distances import ESTIMATORS, Distances, alike, anchor_distances
from srgdqn.paper.measurements.anchor_error import AnchorError, anchor_error, fresh_transitions
from srgdqn.paper.measurements.gradient_spread import first_layers
from srgdqn.paper.measurements.recorded import (
    RecordedRun,
    Report,
    at_steps,
    batch_at,
    call_compiled,
    probed_at,
    record,
)
from srgdqn.paper.measurements.theorem_1 import paper_eta_rows
from srgdqn.runs.interrupts import StopRequestedError
from srgdqn.training.interaction import action_count

_TRAINING_SHARE = 0.2  # of the time, roughly


@dataclass(frozen=True)
class Plan:
    """Whose run, and at which environment steps to look."""

    configuration: Configuration
    steps: tuple[int, ...]


def measure(plan: Plan, report: Report, stop: threading.Event) -> dict[str, pl.DataFrame]:
    """Distances for every estimator and inner iteration, the anatomy, and Theorem 1's bound on η, at every moment of
    every round that did not diverge.
    """
    run = record(
        plan.configuration,
        lambda share: report(_TRAINING_SHARE * share),
        stop,
        probe=first_layers,  # Table 2's, so that both have the same program
        probe_at=at_steps(plan.configuration, plan.steps),
    )
    look = _Look(run)
    distances: list[dict[str, Any]] = []
    anatomy: list[dict[str, Any]] = []
    moments = [(number, position) for number in run.finite for position in range(len(run.blocks))]
    for count, (number, position) in enumerate(moments):
        if stop.is_set():
            raise StopRequestedError
        place: dict[str, Any] = {"round": number, "step": run.steps_of(int(run.blocks[position]))}
        distances += [place | row for row in look.distances(number, position)]
        anatomy.append(place | look.anatomy(number, position))
        report(_TRAINING_SHARE + (1 - _TRAINING_SHARE) * (count + 1) / len(moments))
    bounds = paper_eta_rows(
        run.configuration,
        run.network,
        [probed_at(run, *moment)[0] for moment in moments],
        [look.batch(*moment) for moment in moments],
        [row["step"] for row in anatomy],
    )
    diverged = plan.configuration.training.rounds - len(run.finite)
    place_of = {"round": int, "step": int}
    return {
        "distances": pl.DataFrame(distances, schema={**place_of, "estimator": str, "m": int, **_reals(Distances)}),
        "anatomy": pl.DataFrame(anatomy, schema={**place_of, **_reals(AnchorError)}),
        "bounds": bounds,
        "rounds": pl.DataFrame({"rounds": [plan.configuration.training.rounds], "diverged": [diverged]}),
    }


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

    def distances(self, number: int, position: int) -> list[dict[str, Any]]:
        """A row per estimator and inner iteration."""
        theta, recording, block = self._moment(number, position)
        rows: list[dict[str, Any]] = []
        for name in ESTIMATORS:
            place = theta, recording, np.uint32(number), jnp.int32(block)
            found = jax.tree.map(np.asarray, self._call(name, functools.partial(self._distances, name), *place))
            for m in range(len(found.own)):
                values = {column: float(values[m]) for column, values in found._asdict().items()}
                rows.append({"estimator": name, "m": m + 1, **values})
        return rows

    def batch(self, number: int, position: int) -> Transitions:
        """The batch D of one moment."""
        _, recording, block = self._moment(number, position)
        return self._call("batch", self._batch, recording, np.uint32(number), jnp.int32(block))[0]

    def anatomy(self, number: int, position: int) -> dict[str, Any]:
        """The squared distances of one moment."""
        theta, recording, block = self._moment(number, position)
        progress = self.run.steps_of(block) / recording.shape[0]
        found = self._call(
            "anatomy",
            self._anatomy,
            theta,
            recording,
            self.run.replay_at(number, block),
            np.uint32(number),
            jnp.int32(block),
            epsilon(self.run.configuration.acting, progress),
        )
        return {name: float(value) for name, value in found._asdict().items()}

    def _moment(self, number: int, position: int) -> tuple[Any, np.ndarray, int]:
        return probed_at(self.run, number, position)[0], self.run.recording[number], int(self.run.blocks[position])
