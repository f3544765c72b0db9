"""What a step of training costs (claim C10), in single-core seconds: each algorithm in turn, so that noise hits all."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from srgdqn import tasks
from srgdqn.config import Configuration
from srgdqn.interrupts import StopRequestedError
from srgdqn.paper.measurements.recorded import Report
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.training.budget import budget_of
from srgdqn.training.lanes import LaneRounds
from srgdqn.training.loop import Segment, segments
from srgdqn.training.program import programs_for

_ENDLESS = 2**30  # more of any budget than is ever spent


@dataclass(frozen=True)
class Plan:
    """The configurations to time, and how many turns each has."""

    configurations: dict[str, Configuration]
    turns: int
    blocks: int = 128
    """Blocks of a turn, all of which end in an outer iteration."""


def measure(
    plan: Plan, report: Report, stop: threading.Event, manager: CheckpointManager | None = None
) -> dict[str, pl.DataFrame]:
    """Seconds per environment step of one round, with all lanes in use, for each configuration and turn. It is too
    short for checkpoints.
    """
    del manager
    runs = {name: _learning(configuration, plan.blocks) for name, configuration in plan.configurations.items()}
    rows = []
    for turn in range(plan.turns):
        for name, timed in runs.items():
            if stop.is_set():
                raise StopRequestedError
            training = plan.configurations[name].training
            segment = next(timed)
            steps = segment.log.reward.shape[1] * training.learning_frequency * training.lanes
            rows.append({"name": name, "turn": turn, "seconds_per_step": segment.train_seconds / steps})
        report((turn + 1) / plan.turns)
    return {"times": pl.DataFrame(rows)}


def _learning(configuration: Configuration, blocks: int) -> Iterator[Segment]:
    """The segments after the one in which learning starts, without end: the first is run here, and warms up."""
    budget = budget_of(configuration.training).unit
    # Neither numbers nor the budget's size change the program. Steps of length 0 cost what others do, and no lane can
    # finish or diverge, which might end the run before its last turn.
    endless = configuration.with_options({budget: _ENDLESS, "eta": 0.0, "alpha": 0.0, "evaluation_interval": None})
    programs, _ = programs_for(endless, tasks.make(endless.task))
    rounds = LaneRounds(endless, programs, range(endless.training.lanes))
    rounds.begin()
    timed = segments(rounds, most=blocks)
    while next(timed).blocks_done < endless.training.first_learning_block:
        pass
    return timed
