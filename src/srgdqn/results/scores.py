"""What rounds score, by the words of `--score`; divergence is an outcome, never a gain.

- `greedy-return`: the mean return of the last greedy evaluation, on the raw reward;
- `final-reward`: the mean reward per action in the last fifth of the budget;
- `area`: the area under the curve of greedy evaluations, divided by the steps it covers;
- `solved`: whether (1 or 0) the last greedy return reaches a threshold.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl

from srgdqn.results.comparison import areas, final_rewards, greedy_returns, solved
from srgdqn.results.result import Result

_MEASURES = {"greedy-return": greedy_returns, "final-reward": final_rewards, "area": areas}
SCORES = (*_MEASURES, "solved")


def diverged_rounds(result: Result) -> set[int]:
    """The rounds that went non-finite."""
    return set(result.rounds.filter(pl.col("diverged_at").is_not_null())["round"])


def measured(result: Result, score: str, threshold: float | None = None) -> dict[int, float]:
    """The score of every round that has one, by what it did, be it that it diverged. `threshold` is for `solved`."""
    found = solved(result, threshold) if score == "solved" else _MEASURES[score](result)
    return {number: value for number, value in found.items() if value is not None and np.isfinite(value)}


def finished(result: Result, score: str, threshold: float | None = None) -> dict[int, float]:
    """The score of every round that used its whole budget."""
    whole = set(result.rounds.filter(pl.col("completed"))["round"]) - diverged_rounds(result)
    return {number: value for number, value in measured(result, score, threshold).items() if number in whole}


def worst_finished(results: Iterable[Result], score: str) -> float | None:
    """What a diverged round scores beside the others of these runs: the lowest score of any round that finished, and 0
    where the score is `solved`; None if no round finished.
    """
    if score == "solved":
        return 0.0
    return min((value for result in results for value in finished(result, score).values()), default=None)


def with_diverged(result: Result, score: str, worst: float | None, threshold: float | None = None) -> dict[int, float]:
    """The score of every round that ended, of which those that diverged score the `worst`; none if that is None."""
    lost = {} if worst is None else dict.fromkeys(diverged_rounds(result), worst)
    return {**finished(result, score, threshold), **lost}
