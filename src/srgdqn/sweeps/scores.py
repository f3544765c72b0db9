"""Scores of cells. Every score counts the rounds that diverged: divergence is an outcome, never a gain.

`greedy-return` is the mean over all rounds of the return in the last greedy evaluation, on the raw reward; a round that
diverged is evaluated with its last finite parameters. `final-reward` is the mean over all rounds of the reward per
action in the last fifth of the budget; a round that diverged scores the worst that finished in any of the cells that
are compared. Where none finished, there is no such score.

By either score, a cell of which more than a twentieth of the rounds diverged is the best only if there is no other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from srgdqn.results.comparison import Spread, final_rewards, greedy_returns, spread_of
from srgdqn.results.result import Result
from srgdqn.sweeps.grid import Score

MOST_DIVERGED = 0.05
"""A cell of which a larger share of the rounds diverged is the best only if there is no other."""
OFTEN = "†"
"""The mark of such a cell."""


def diverged_rounds(result: Result) -> set[int]:
    """The rounds that went non-finite."""
    return {number for number, step in result.rounds.select("round", "diverged_at").iter_rows() if step is not None}


def worst_finished(results: Iterable[Result]) -> float | None:
    """The lowest final reward of all rounds that did not diverge, which diverged ones score; None if there is none."""
    return min(itertools.chain.from_iterable(map(_finished, results)), default=None)


def _finished(result: Result) -> list[float]:
    lost = diverged_rounds(result)
    return [reward for number, reward in final_rewards(result).items() if number not in lost]


def score_of(result: Result, score: Score, worst: float | None) -> Spread:
    """The cell's score over its rounds; `worst` is what a diverged one scores, where that is needed."""
    if score == "greedy-return":
        return spread_of(greedy_returns(result).values())
    lost = diverged_rounds(result)
    reached = final_rewards(result)
    return spread_of(worst if number in lost else reached.get(number) for number in result.rounds["round"])


def row_of(result: Result, score: Score, worst: float | None) -> dict[str, Any]:
    """The cell's columns in the table, beside its values."""
    greedy = score_of(result, "greedy-return", None)
    spreads = {
        "score": greedy if score == "greedy-return" else score_of(result, score, worst),
        "final_reward": spread_of(final_rewards(result).values()),
        "greedy_return": greedy,
    }
    rounds, diverged = result.rounds.height, len(diverged_rounds(result))
    often = diverged > MOST_DIVERGED * rounds
    row: dict[str, Any] = {"rounds": rounds, "diverged": diverged, "often_diverged": often}
    for name, spread in spreads.items():
        row |= {name: spread.mean, f"{name}_low": spread.low, f"{name}_high": spread.high}
    return row | {"final_reward_rounds": spreads["final_reward"].rounds}
