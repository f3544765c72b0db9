"""SVR-DQN with exact anchors (the paper's Figure 1): the same batches and picks, with g̃ over all recorded transitions.

Three arms, round by round:

- `ordinary` is SVR-DQN without the Adam process, and all its transitions are recorded.
- `exact` is made on the batches and picks of `ordinary`, with the gradient over all that was recorded (the future
  included) as its anchor. It acts as well, but learns nothing from what it does.
- `oracle` acts and learns for itself, with the same oracle's anchor.

All are evaluated by the same greedy roll-outs, on the reward that they learn from: mean reward per action is the
total reward over the total length of episodes from the same starts.

Over a long run the anchor is the gradient on a sample of the recording, drawn once per round; how far it is from that
on all of it is measured at a few steps of `ordinary`.
"""

from __future__ import annotations

import dataclasses
import threading
from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np
import optax
import polars as pl
from jaxtyping import Array, Float

from srgdqn import tasks
from srgdqn.config import Configuration
from srgdqn.interrupts import StopRequestedError
from srgdqn.learner.networks import Parameters
from srgdqn.paper.measurements.recorded import (
    RecordedRun,
    Report,
    at_steps,
    call_compiled,
    exact_gradient,
    frozen_parameters,
    record,
)
from srgdqn.tasks import Task
from srgdqn.training import Trained, train_rounds
from srgdqn.training.batches import BatchContext, OuterBatch, from_replay
from srgdqn.training.lane import Instruments

ARMS = ("ordinary", "exact", "oracle")
_SHARES = (0.05, 0.25, 0.5, 0.75, 1.0)  # of the budget, after which a sampled anchor is compared
_EVALUATION_STEPS = 1_000  # after which an episode of the roll-outs is cut


@dataclass(frozen=True)
class Plan:
    """What to run: SVR-DQN without the Adam process, its rounds, budget and evaluations."""

    configuration: Configuration


@dataclass(frozen=True)
class SampledPlan(Plan):
    """The first two arms over a long run: anchors are computed on so many rows of the recording."""

    rows: int = 8_192


class Data(NamedTuple):
    """What the second and third arm are given of a round of the first."""

    recording: Float[Array, "steps width"]
    sample: Float[Array, "rows width"] | None  # that anchors are computed on; None: the recording


def from_recording(context: BatchContext) -> OuterBatch:
    """The recorded round's own batch and picks, with the exact anchor at the present θ."""
    recorded = from_replay(context._replace(ring=context.data.recording))
    return recorded._replace(anchor=_exact(context))


def with_oracle(context: BatchContext) -> OuterBatch:
    """The lane's own batch and picks, with the exact anchor of the recorded run at the present θ."""
    return from_replay(context)._replace(anchor=_exact(context))


def _exact(context: BatchContext) -> Parameters:
    assert context.learner is not None
    theta, target = context.learner.parameters, context.learner.target
    frozen = frozen_parameters(context.configuration, theta, target)
    recording, sample = context.data
    rows = recording if sample is None else sample
    return exact_gradient(context.configuration, context.network, theta, rows, frozen)


def measure(plan: Plan, report: Report, stop: threading.Event) -> dict[str, pl.DataFrame]:
    """The evaluations of the arms, which of their rounds diverged and when, and the error of a sampled anchor."""
    configuration = plan.configuration
    task = evaluated_as_trained(tasks.make(configuration.task))
    rows = plan.rows if isinstance(plan, SampledPlan) else None
    steps = () if rows is None else _look_at(configuration)
    # The anchors take nearly all the time: the recorded run counts for little of it.
    ordinary = record(
        configuration, lambda share: report(0.04 * share), stop, probe_at=at_steps(configuration, steps), task=task
    )
    data = Data(ordinary.recording, None if rows is None else sampled(ordinary.recording, rows))
    arms, others = {"ordinary": ordinary.trained}, ARMS[1:] if rows is None else ("exact",)
    each = 0.96 / len(others)
    for position, name in enumerate(others):
        arms[name] = train_rounds(
            configuration,
            task,
            listener=lambda progress, begun=position * each: report(0.04 + begun + each * progress.share),
            workers=1,
            stop=stop,
            instruments=Instruments(source={"exact": from_recording, "oracle": with_oracle}[name]),
            data=data,  # of which each lane is given its own round's
        )
        if arms[name].interrupted:
            raise StopRequestedError
    tables = {
        "evaluations": pl.concat([_evaluations(name, arm) for name, arm in arms.items()]),
        "rounds": pl.concat([_rounds(name, arm, arms["ordinary"]) for name, arm in arms.items()]),
    }
    if data.sample is None:
        return tables
    diverged = pl.concat([_diverged_at(name, arm) for name, arm in arms.items()])
    return {**tables, "diverged": diverged, "anchors": _anchor_errors(ordinary, data.sample)}


def sampled(recording: np.ndarray, rows: int) -> np.ndarray:
    """So many rows of every round's recording, drawn with replacement: the same of every round."""
    picks = np.random.default_rng(0).integers(0, recording.shape[1], rows)
    return recording[:, picks]


def _look_at(configuration: Configuration) -> tuple[int, ...]:
    """The steps at which a sampled anchor is compared with the whole one."""
    steps = configuration.training.steps
    assert steps is not None
    return tuple(int(steps * share) for share in _SHARES)


def _anchor_errors(run: RecordedRun, sample: np.ndarray) -> pl.DataFrame:
    """By round and step: ‖anchor on the sample − anchor on all rows‖ / ‖anchor on all rows‖."""
    configuration, network = run.configuration, run.network

    def error(theta: Parameters, recording: Array, rows: Array) -> Array:
        whole, part = (exact_gradient(configuration, network, theta, each) for each in (recording, rows))
        return optax.tree.norm(optax.tree.sub(part, whole)) / optax.tree.norm(whole)

    found = []
    for number in run.finite:
        for position, block in enumerate(run.blocks):
            theta = jax.tree.map(lambda leaf, at=(number, position): leaf[at], run.probed)
            key = (__name__, "error", configuration)
            value = call_compiled(key, error, theta, run.recording[number], sample[number])
            found.append({"round": number, "step": run.steps_of(int(block)), "error": float(value)})
    return pl.DataFrame(found, schema={"round": int, "step": int, "error": float})


def evaluated_as_trained(task: Task) -> Task:
    """The task, evaluated on the reward that is learned from, and long enough for a poor policy to show."""
    return dataclasses.replace(task, raw=task.environment, evaluation_limit=_EVALUATION_STEPS)


def _evaluations(arm: str, trained: Trained) -> pl.DataFrame:
    columns = trained.tables["evaluations"]
    rows = pl.DataFrame({name: np.asarray(columns[name]) for name in ("round", "step", "return", "length", "success")})
    evaluated = rows.group_by("round", "step").agg(
        reward=pl.col("return").sum() / pl.col("length").sum(),
        length=pl.col("length").mean(),
        success=pl.col("success").cast(pl.Float64).mean(),
    )
    return evaluated.select(pl.lit(arm).alias("arm"), pl.all()).sort("round", "step")


def _rounds(arm: str, trained: Trained, recorded: Trained) -> pl.DataFrame:
    """A round of which there is no whole recording cannot be replayed: it counts as diverged in every arm."""
    own, first = (each.tables["rounds"]["diverged_at"] for each in (trained, recorded))
    return pl.DataFrame(
        {
            "arm": [arm] * len(own),
            "round": np.asarray(trained.tables["rounds"]["round"]),
            "diverged": ~(np.ma.getmaskarray(own) & np.ma.getmaskarray(first)),
        }
    )


def _diverged_at(arm: str, trained: Trained) -> pl.DataFrame:
    """The step at which each round diverged that did."""
    at = np.ma.masked_array(trained.tables["rounds"]["diverged_at"])
    numbers = np.flatnonzero(~np.ma.getmaskarray(at))
    steps = np.asarray(at)[numbers].astype(int)
    return pl.DataFrame({"arm": [arm] * len(numbers), "round": numbers, "step": steps}, schema_overrides={"arm": str})
