"""A saved run as if it had been watched to its end, from its tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import polars as pl

from srgdqn.integrations.json_lines import Line, header
from srgdqn.integrations.scalars import (
    EPISODES,
    ITERATIONS,
    LENGTH,
    LOSS,
    MAX_Q,
    RECENT,
    RETURN,
    REWARD,
)
from srgdqn.integrations.watched import Watched

if TYPE_CHECKING:
    from srgdqn.runs.result import Result


def watched_to_the_end(result: Result) -> Watched:
    """What would be known of a run that has ended; what its tables do not have (ε, the speed) is missing."""
    watched = Watched()
    watched.hear(header(result.configuration))
    for line in _lines(result):
        watched.hear(line)
    watched.hear({"ended": True})
    return watched


def _lines(result: Result) -> Iterator[Line]:
    """One for every row of the curves, with the means over the last episodes by then."""
    recent = result.episodes.sort("round", "episode").select(
        "round",
        "step",
        pl.col("return").rolling_mean(RECENT, min_samples=1).over("round").alias(RETURN),
        pl.col("length").cast(pl.Float64).rolling_mean(RECENT, min_samples=1).over("round").alias(LENGTH),
    )
    curves = result.curves.sort("step").join_asof(
        recent.sort("step"), on="step", by="round", strategy="backward", check_sortedness=False
    )
    named = curves.select(
        "round",
        "step",
        RETURN,
        LENGTH,
        pl.col("reward").alias(REWARD),
        pl.col("episodes").alias(EPISODES),
        pl.col("loss").alias(LOSS),
        pl.col("max_q").alias(MAX_Q),
    )
    yield from named.iter_rows(named=True)
    for row in result.rounds.iter_rows(named=True):
        yield {
            "round": row["round"],
            "step": row["steps"],
            ITERATIONS: row["outer_iterations"],
            "diverged_at": row["diverged_at"],
        }
