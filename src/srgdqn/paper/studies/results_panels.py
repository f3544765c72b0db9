"""Panels of what runs came to beside their reward: success and episode length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from srgdqn.figures.charts import STYLES, Panel, Series
from srgdqn.paper.studies.experiment import Outcomes
from srgdqn.runs.result import Result

_LABELS = {"success": "share of greedy episodes that succeed", "length": "steps per episode"}


def per_window(outcomes: Outcomes, task: str, readings: Sequence[str], algorithms: Sequence[str], column: str) -> Panel:
    """A column of the greedy evaluations over training, mean over rounds."""
    series = []
    for each in readings:
        for algorithm in algorithms:
            result: Result = outcomes[f"{task}-{algorithm}-{each}"]
            means = (
                result.evaluations.with_columns(pl.col(column).cast(pl.Float64))
                .group_by("step")
                .agg(pl.col(column).mean(), pl.col("round").n_unique())
                # The last evaluation of a round that ended early has a step of its own.
                .filter(pl.col("round") >= result.rounds.height / 2)
                .sort("step")
            )
            series.append(
                Series(
                    algorithm,
                    STYLES[algorithm],
                    {"steps": means["step"].to_numpy()},
                    means[column].to_numpy(),
                    group=each,
                    shown=each == readings[0],
                )
            )
    return Panel(task, _LABELS[column], {"steps": "environment steps"}, tuple(series))


def over_episodes(
    outcomes: Outcomes, task: str, readings: Sequence[str], algorithms: Sequence[str], column: str
) -> Panel:
    """A column of the training episodes by their number, mean over the rounds, as long as half of them have so many."""
    series = []
    for each in readings:
        for algorithm in algorithms:
            result: Result = outcomes[f"{task}-{algorithm}-{each}"]
            means = (
                result.episodes.group_by("episode")
                .agg(pl.col(column).mean(), pl.col("round").n_unique())
                .filter(pl.col("round") >= result.rounds.height / 2)
                .sort("episode")
            )
            series.append(
                Series(
                    algorithm,
                    STYLES[algorithm],
                    {"episodes": means["episode"].to_numpy() + 1},
                    means[column].to_numpy().astype(np.float64),
                    group=each,
                    shown=each == readings[0],
                )
            )
    return Panel(task, _LABELS[column], {"episodes": "episodes"}, tuple(series))
