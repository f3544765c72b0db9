"""What is run of the factorial: one cached cell for each reading of each task, which holds the rounds of all arms."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from srgdqn.config import Configuration
from srgdqn.config.algorithms import PAPER
from srgdqn.interrupts import StopRequestedError
from srgdqn.paper.cells import MeasurementCell
from srgdqn.paper.claims.verdicts import RESAMPLES
from srgdqn.paper.experiment import LAST_EPISODES, LAST_SHARE, RANDOM, UNTRAINED, configured
from srgdqn.paper.factorial.design import ALL_READINGS, COMPILED, Reading, code_of, options_of, readings_of
from srgdqn.paper.measurements.recorded import Report
from srgdqn.paper.scale import CONFIRMATION
from srgdqn.paper.scores import values_of
from srgdqn.paper.studies.figure_2 import TASKS
from srgdqn.results.result import Result
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.session.prepare import result_of, with_kernel
from srgdqn.tasks import task_of
from srgdqn.training import train_side_by_side

LEARNING = (*PAPER, "sgd-inner-adam", "svr-dqn-no-adam")
"""The arms that learn, and so can be best."""
ARMS = (*LEARNING, RANDOM, UNTRAINED)
OURS = "srg-dqn"
CONTRASTS = {"svr": "svr-dqn", "sgd": "sgd-inner-adam"}
"""What SRG-DQN is compared with, by the name of the columns."""


@dataclass(frozen=True)
class Extent:
    """How much is run."""

    seed: int = 42_001
    rounds: int = 50
    readings: tuple[Reading, ...] = ALL_READINGS
    shorter: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options that replace the paper's budgets, by task."""
    resamples: int = RESAMPLES


WHOLE = Extent()


@dataclass(frozen=True)
class Plan:
    """All arms of one reading of a task, and what their scores are taken over."""

    arms: dict[str, Configuration]
    last_share: float = LAST_SHARE
    last_episodes: int = LAST_EPISODES


def configurations(task: str, reading: Reading, extent: Extent = WHOLE) -> dict[str, Configuration]:
    """The configuration of every arm of a reading."""
    scale = replace(CONFIRMATION, seed=extent.seed)
    own = {**options_of(task, reading), "rounds": extent.rounds, "evaluation_interval": None}
    return {arm: configured(scale, task, arm, "corrected", **own, **extent.shorter.get(task, {})) for arm in ARMS}


def cell_name(task: str, reading: Reading) -> str:
    """The name of the cell that holds all arms of a reading of a task."""
    return f"{task}-{code_of(reading)}"


def cells(extent: Extent = WHOLE) -> list[MeasurementCell]:
    """One cell for each reading of each task. Their bits are those of training."""
    listed = []
    for task in TASKS:
        # Readings that share compiled programs are run one after the other.
        ordered = sorted(readings_of(task, extent.readings), key=lambda each: [each[place] for place in COMPILED])
        for reading in ordered:
            arms = {arm: with_kernel(each) for arm, each in configurations(task, reading, extent).items()}
            listed.append(MeasurementCell(cell_name(task, reading), measure, Plan(arms), computation="training"))
    return listed


def measure(
    plan: Plan, report: Report, stop: threading.Event, manager: CheckpointManager | None = None
) -> dict[str, pl.DataFrame]:
    """The rounds of all arms of a reading. Arms that differ in numbers alone are trained side by side. It is too short
    for checkpoints.
    """
    del manager
    programs: dict[Configuration, list[str]] = {}
    for arm, configuration in plan.arms.items():
        programs.setdefault(configuration.shape(), []).append(arm)
    tables: dict[str, pl.DataFrame] = {}
    for arms in programs.values():
        members = [plan.arms[arm] for arm in arms]
        task, done = task_of(members[0]), len(tables)
        for place, trained in train_side_by_side(
            members,
            task,
            listener=lambda progress: report((done + len(arms) * progress.share) / len(plan.arms)),  # noqa: B023
            workers=1,
            stop=stop,
        ):
            if trained.interrupted:
                raise StopRequestedError
            tables[arms[place]] = rounds_table(arms[place], result_of(members[place], task, trained))
    return {"rounds": pl.concat([tables[arm] for arm in plan.arms])}


def rounds_table(arm: str, result: Result) -> pl.DataFrame:
    """A row for each round of an arm: its final score (null if it diverged), and what its last evaluation came to, by
    greedy episodes on the raw task.
    """
    final = values_of(result, "final")
    last = result.evaluations.filter(pl.col("step") == pl.col("step").max().over("round"))
    greedy = last.group_by("round").agg(
        pl.col("return").mean().alias("greedy_return"), pl.col("success").cast(pl.Float64).mean()
    )
    rounds = result.rounds.sort("round").select(
        pl.lit(arm).alias("arm"),
        "round",
        pl.Series("score", final.means, pl.Float64).fill_nan(None),
        pl.Series("diverged", final.diverged, pl.Boolean),
    )
    return rounds.join(greedy, on="round", how="left", maintain_order="left")
