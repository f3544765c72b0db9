"""What a cell came to. No score hides a round that diverged, and each counts them.

`greedy-return` is the mean over all rounds of the return in the last greedy evaluation, on the raw reward; a round that
diverged is judged by its last finite parameters. `final-reward` is the mean over all rounds of the reward per action in
the last fifth of the budget; a round that diverged scores as the random policy does, with the same options.
"""

from __future__ import annotations

from typing import Any

from srgdqn.config import Configuration
from srgdqn.errors import unknown
from srgdqn.runs.comparison import Spread, final_rewards, greedy_returns, spread_of
from srgdqn.runs.result import Result
from srgdqn.sweeps.scores import SCORES, Score

__all__ = ["check_score", "diverged_rounds", "needs_chance", "random_policy", "row_of", "score_of"]


def check_score(score: str) -> Score:
    """The score, if there is such a one."""
    for each in SCORES:
        if score == each:
            return each
    raise unknown("score", score, SCORES)


def diverged_rounds(result: Result) -> set[int]:
    """The rounds that went non-finite."""
    return {number for number, step in result.rounds.select("round", "diverged_at").iter_rows() if step is not None}


def needs_chance(result: Result, score: Score) -> bool:
    """Whether the cell's score depends on what the random policy scores."""
    return score == "final-reward" and bool(diverged_rounds(result))


def random_policy(configuration: Configuration) -> Configuration:
    """A policy that always explores and never learns, in the very program of the configuration."""
    return configuration.with_options({"epsilon_start": 1.0, "epsilon_end": 1.0, "eta": 0.0, "alpha": 0.0})


def score_of(result: Result, score: Score, chance: float | None) -> Spread:
    """The cell's score over its rounds; `chance` is the random policy's final reward, where that is needed."""
    if score == "greedy-return":
        return spread_of(greedy_returns(result).values())
    lost = diverged_rounds(result)
    reached = final_rewards(result)
    return spread_of(chance if number in lost else reached.get(number) for number in result.rounds["round"])


def row_of(result: Result, score: Score, chance: float | None) -> dict[str, Any]:
    """What stands beside the values of a cell in the table."""
    spreads = {
        "score": score_of(result, score, chance),
        "final_reward": spread_of(final_rewards(result).values()),
        "greedy_return": spread_of(greedy_returns(result).values()),
    }
    row: dict[str, Any] = {"rounds": result.rounds.height, "diverged": len(diverged_rounds(result))}
    for name, spread in spreads.items():
        row |= {name: spread.mean, f"{name}_low": spread.low, f"{name}_high": spread.high}
    return row | {"final_reward_rounds": spreads["final_reward"].rounds}
