"""SVR-DQN with exact anchors (the paper's Figure 1): the same batches and picks, with g̃ over all recorded transitions.

Three arms, round by round:

- `ordinary` is SVR-DQN without the Adam process, and all its transitions are recorded.
- `exact` is made on the batches and picks of `ordinary`, with the gradient over all that was recorded (the future
  included) as its anchor. It acts as well, but learns nothing from what it does.
- `oracle` acts and learns for itself, with the same oracle's anchor.

All are evaluated by the same greedy roll-outs, on the reward that they learn from: mean reward per action is the
total reward over the total length of episodes from the same starts.
"""

from __future__ import annotations

import dataclasses
import threading
from dataclasses import dataclass

import numpy as np
import polars as pl

from srgdqn import tasks
from srgdqn.config import Configuration
from srgdqn.interrupts import StopRequestedError
from srgdqn.learner.networks import Parameters
from srgdqn.paper.measurements.recorded import Report, at_steps, exact_gradient, frozen_parameters, record
from srgdqn.tasks import Task
from srgdqn.training import Trained, train_rounds
from srgdqn.training.batches import BatchContext, OuterBatch, from_replay
from srgdqn.training.lane import Instruments

ARMS = ("ordinary", "exact", "oracle")
_EVALUATION_STEPS = 1_000  # after which an episode of the roll-outs is cut


@dataclass(frozen=True)
class Plan:
    """What to run: SVR-DQN without the Adam process, its rounds, budget and evaluations."""

    configuration: Configuration


def from_recording(context: BatchContext) -> OuterBatch:
    """The recorded round's own batch and picks, with the exact anchor at the present θ."""
    recorded = from_replay(context._replace(ring=context.data))
    return recorded._replace(anchor=_exact(context))


def with_oracle(context: BatchContext) -> OuterBatch:
    """The lane's own batch and picks, with the exact anchor of the recorded run at the present θ."""
    return from_replay(context)._replace(anchor=_exact(context))


def _exact(context: BatchContext) -> Parameters:
    assert context.learner is not None
    theta, target = context.learner.parameters, context.learner.target
    frozen = frozen_parameters(context.configuration, theta, target)
    return exact_gradient(context.configuration, context.network, theta, context.data, frozen)


def measure(plan: Plan, report: Report, stop: threading.Event) -> dict[str, pl.DataFrame]:
    """The evaluations of the three arms, and which of their rounds diverged."""
    configuration = plan.configuration
    task = evaluated_as_trained(tasks.make(configuration.task))
    # The anchors take nearly all the time: the recorded run counts for little of it.
    ordinary = record(
        configuration, lambda share: report(0.04 * share), stop, probe_at=at_steps(configuration, ()), task=task
    )
    arms = {"ordinary": ordinary.trained}
    for position, (name, source) in enumerate((("exact", from_recording), ("oracle", with_oracle))):
        arms[name] = train_rounds(
            configuration,
            task,
            listener=lambda progress, position=position: report(0.04 + 0.48 * (position + progress.share)),
            workers=1,
            stop=stop,
            instruments=Instruments(source=source),
            data=ordinary.recording,  # of which each lane is given its own round's
        )
        if arms[name].interrupted:
            raise StopRequestedError
    return {
        "evaluations": pl.concat([_evaluations(name, arm) for name, arm in arms.items()]),
        "rounds": pl.concat([_rounds(name, arm, arms["ordinary"]) for name, arm in arms.items()]),
    }


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
