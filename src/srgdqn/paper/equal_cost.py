"""What arms come to at equal cost: after as many environment steps, gradient queries or seconds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from srgdqn.learner.outer_iteration import queries_per_iteration
from srgdqn.paper.arm_columns import share_text
from srgdqn.paper.experiment import LAST_SHARE
from srgdqn.results.curves import Curve
from srgdqn.results.result import Result

Cost = Literal["steps", "queries", "seconds"]
COSTS: tuple[Cost, ...] = ("steps", "queries", "seconds")
POINTS = 20
"""Points of a curve."""


class Round(NamedTuple):
    """A round's rewards per action in windows, or its returns in episodes, and what it had spent at the end of each."""

    values: np.ndarray
    spent: Mapping[Cost, np.ndarray]
    diverged: bool


def rounds_of(result: Result, seconds_per_step: float) -> list[Round]:
    """Every round of a run.

    Its seconds are its steps times what a step costs, as runs beside other work do not tell how fast an arm is.
    """
    by_episode = result.configuration.training.episodes is not None
    table, column = (result.episodes, "return") if by_episode else (result.curves, "reward")
    rows, windows = _by_round(table), _by_round(result.curves)
    lost = dict(result.rounds.select("round", pl.col("diverged_at").is_not_null()).iter_rows())
    found = []
    for number in sorted(lost):
        if number not in rows:
            found.append(Round(np.empty(0), dict.fromkeys(COSTS, np.empty(0)), lost[number]))
            continue
        steps = rows[number]["step"].to_numpy()
        ends, queries = (windows[number][name].to_numpy() for name in ("step", "queries"))
        spent: dict[Cost, np.ndarray] = {
            "steps": steps.astype(float),
            "queries": np.interp(steps, np.append(0, ends), np.append(0, queries)),
            "seconds": steps * seconds_per_step,
        }
        found.append(Round(rows[number][column].to_numpy(), spent, lost[number]))
    return found


def _by_round(table: pl.DataFrame) -> dict[int, pl.DataFrame]:
    return {int(part["round"][0]): part for part in table.sort("round", "step").partition_by("round")}


def total_cost(rounds: list[Round], cost: Cost) -> float:
    """What a round spends until its end, on average over those that finished; NaN if none did."""
    ends = [each.spent[cost][-1] for each in rounds if not each.diverged and len(each.values)]
    return float(np.mean(ends)) if ends else float("nan")


def scores_after(rounds: list[Round], cost: Cost, spent: float, floor: float) -> np.ndarray:
    """Each round's mean over the last fifth of what it was allowed to spend (NaN: anything); a round that ends before
    has its own last fifth, and one that diverged, whenever it did, the floor.
    """
    return np.array([floor if each.diverged else _score_after(each, cost, spent) for each in rounds])


def _score_after(each: Round, cost: Cost, spent: float) -> float:
    at = each.spent[cost]
    most = at[-1] if math.isnan(spent) else min(spent, at[-1])
    inside = (at > (1 - LAST_SHARE) * most) & (at <= most)
    if not inside.any():  # a window or an episode takes longer: the last one that is over by then, or else the first
        inside = np.arange(len(at)) == max(0, int((at <= most).sum()) - 1)
    return float(each.values[inside].mean())


def cost_rows(
    runs: Mapping[str, Result], seconds_per_step: Mapping[str, float], ours: str, floor: float
) -> list[dict[str, str]]:
    """A row per arm: what it asks for per batch, what a step costs, what it scores after as many steps, gradient
    queries and seconds as one of them spends in a whole round, and how many of its rounds diverged, which score the
    floor.
    """
    rounds = {name: rounds_of(run, seconds_per_step[name]) for name, run in runs.items()}
    spent = {cost: total_cost(rounds[ours], cost) for cost in COSTS}
    return [
        {
            "algorithm": name,
            "queries per batch": f"{queries_per_iteration(runs[name].configuration):,}",
            "µs per step": f"{1e6 * seconds_per_step[name]:.2f}",
        }
        | {f"score at equal {cost}": f"{scores_after(mine, cost, spent[cost], floor).mean():.3f}" for cost in COSTS}
        | {"diverged": share_text(sum(each.diverged for each in mine), len(mine))}
        for name, mine in rounds.items()
    ]


COSTS_NOTE = (
    "The mean over the last fifth of what SRG-DQN spends in a whole round, on average over its rounds that finished "
    "(none did: of the other's own); an algorithm that spends less in all has its own last fifth. Seconds: steps times "
    "what a step costs, measured for all in turn on one core. Diverged: rounds, and the share's 95 % interval."
)


def curve_rows(rounds: list[Round]) -> list[dict[str, float | None]]:
    """A learning curve of few points with 95 % intervals: a row per twentieth of a whole round's windows or episodes.

    A point is the mean over the rounds that have got so far; their number is beside it.
    """
    longest = max((len(each.values) for each in rounds), default=0)
    if longest == 0:
        return []
    edges = np.unique(np.linspace(0, longest, POINTS + 1).astype(int))
    points = len(edges) - 1
    values = np.full((len(rounds), points), np.nan)
    spent = {cost: np.full((len(rounds), points), np.nan) for cost in COSTS}
    for row, each in enumerate(rounds):
        for point, (first, end) in enumerate(itertools.pairwise(edges)):
            if end <= len(each.values):
                values[row, point] = each.values[first:end].mean()
                for cost in COSTS:
                    spent[cost][row, point] = each.spent[cost][end - 1]
    curve = Curve(np.arange(points), values)
    low, high = curve.interval_band()
    means = {cost: Curve(curve.x, spent[cost]).mean() for cost in COSTS}
    columns: dict[str, np.ndarray] = {cost: means[cost] for cost in COSTS}
    columns |= {"mean": curve.mean(), "low": low, "high": high, "rounds": curve.counts.astype(float)}
    return [{name: _rounded(column[point]) for name, column in columns.items()} for point in range(points)]


def _rounded(value: float) -> float | None:
    return float(f"{value:.4g}") if math.isfinite(value) else None
