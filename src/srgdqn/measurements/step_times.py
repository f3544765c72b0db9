"""What a step of training costs (claim C10), in single-core seconds: each algorithm in turn, so that noise hits all."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import polars as pl

from srgdqn import tasks
from srgdqn.interrupts import ToldToStopError
from srgdqn.measurements.recorded import Hear
from srgdqn.settings import Configuration
from srgdqn.training.chunk import train_chunk
from srgdqn.training.program import programs_for


@dataclass(frozen=True)
class Plan:
    """The configurations to time, and how many turns each has."""

    configurations: dict[str, Configuration]
    turns: int
    blocks: int = 128
    """Blocks of a turn, all of which end in an outer iteration."""


def measure(plan: Plan, hear: Hear, stop: threading.Event) -> dict[str, pl.DataFrame]:
    """Seconds per environment step of one round, with all lanes in use, for each configuration and turn."""
    runs = {}
    for name, configuration in plan.configurations.items():
        programs, _ = programs_for(configuration, tasks.make(configuration.task))
        rounds = range(configuration.training.lanes)
        runs[name] = iter(train_chunk(configuration, programs, rounds, segment_blocks=plan.blocks))
        while next(runs[name]).blocks_done < configuration.training.first_learning_block:
            pass
    rows = []
    for turn in range(plan.turns):
        for name, segments in runs.items():
            if stop.is_set():
                raise ToldToStopError
            training = plan.configurations[name].training
            segment = next(segments)
            blocks = segment.log.reward.shape[1]
            steps = blocks * training.learning_frequency * training.lanes
            rows.append({"name": name, "turn": turn, "seconds_per_step": segment.train_seconds / steps})
        hear((turn + 1) / plan.turns)
    return {"times": pl.DataFrame(rows)}
