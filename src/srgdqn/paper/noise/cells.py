"""The cells of the noise map: candidates side by side, of which the two outcomes of every round are stored."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from srgdqn.paper.tuning_search import StageCell
from srgdqn.results.comparison import areas, greedy_returns
from srgdqn.results.result import Result

ROUND_COLUMNS = {"round": pl.Int64, "area": pl.Float64, "final": pl.Float64, "diverged": pl.Boolean}
ERROR_COLUMNS = {
    "round": pl.Int64,
    "step": pl.Int64,
    "squared_norm": pl.Float64,
    "squared_error": pl.Float64,
    "squared_bias": pl.Float64,
    "cosine": pl.Float64,
    "plain_squared_error": pl.Float64,
}
"""What is stored of directions; `plain_squared_error` is that of the mean gradient on D."""


@dataclass(frozen=True)
class OutcomesCell(StageCell):
    """Candidates whose rounds' areas and final returns are stored."""

    def rows(self, result: Result) -> pl.DataFrame:
        """A row per round."""
        area, final = areas(result), greedy_returns(result)
        lost = dict(result.rounds.select("round", pl.col("diverged_at").is_not_null()).iter_rows())
        rows = [(number, area.get(number), final.get(number), lost[number]) for number in sorted(lost)]
        return pl.DataFrame(rows, schema=ROUND_COLUMNS, orient="row")


@dataclass(frozen=True)
class RandomCell(StageCell):
    """The random policy, whose episodes of training are as good as any: its mean return is both outcomes."""

    def rows(self, result: Result) -> pl.DataFrame:
        """A row per round."""
        means = result.episodes.group_by("round").agg(pl.col("return").mean()).sort("round")
        rows = [(number, mean, mean, False) for number, mean in means.iter_rows()]
        return pl.DataFrame(rows, schema=ROUND_COLUMNS, orient="row")


@dataclass(frozen=True)
class DirectionsCell(StageCell):
    """Candidates whose directions' errors are stored, at each of the evaluations."""

    def rows(self, result: Result) -> pl.DataFrame:
        """A row per round and evaluation."""
        table = result.run.tables["directions"]
        return table.select(pl.col(name).cast(kind) for name, kind in ERROR_COLUMNS.items()).sort("round", "step")
