"""Scores of cells. Every score counts the rounds that diverged: divergence is an outcome, never a gain.

A score is the mean over rounds of what `results.scores` says that each scores. By `greedy-return` a round that diverged
is evaluated with its last finite parameters; by `final-reward` and `area` it scores the worst that finished in any of
the cells that are compared, and by `solved` it has not solved the task. Where none finished, there is no such score.

By any score, a cell of which more than a twentieth of the rounds diverged is the best only if there is no other.
"""

from __future__ import annotations

from typing import Any

from srgdqn.results.comparison import Spread, areas, final_rewards, spread_of
from srgdqn.results.result import Result
from srgdqn.results.scores import diverged_rounds, measured, with_diverged
from srgdqn.sweeps.grid import Score

MOST_DIVERGED = 0.05
"""A cell of which a larger share of the rounds diverged is the best only if there is no other."""
OFTEN = "†"
"""The mark of such a cell."""

NEED_WORST: tuple[Score, ...] = ("final-reward", "area")
"""The scores by which a diverged round scores the worst that finished."""


def score_of(result: Result, score: Score, worst: float | None, threshold: float | None = None) -> Spread:
    """The cell's score over its rounds; `worst` is what a diverged one scores, where that is needed."""
    if score in NEED_WORST:
        return spread_of(with_diverged(result, score, worst).values())
    return spread_of(measured(result, score, threshold).values())


def row_of(result: Result, score: Score, worst: float | None, threshold: float | None = None) -> dict[str, Any]:
    """The cell's columns in the table, beside its values."""
    lost = diverged_rounds(result)
    spreads = {
        "score": score_of(result, score, worst, threshold),
        "final_reward": spread_of(final_rewards(result).values()),
        "greedy_return": score_of(result, "greedy-return", None),
        "area": spread_of(area for number, area in areas(result).items() if number not in lost),
    }
    rounds, diverged = result.rounds.height, len(lost)
    often = diverged > MOST_DIVERGED * rounds
    row: dict[str, Any] = {"rounds": rounds, "diverged": diverged, "often_diverged": often}
    for name, spread in spreads.items():
        row |= {name: spread.mean, f"{name}_low": spread.low, f"{name}_high": spread.high}
    return row | {"final_reward_rounds": spreads["final_reward"].rounds}
