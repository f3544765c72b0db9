"""Differences between runs in the same rounds, with bootstrap intervals.

Rounds of the same seed and number share whatever is random in them, the first network and the starts of episodes among
it, so that their differences vary less than the rounds themselves.

Divergence is never a gain: a round that diverged scores the worst round that finished in any of the runs compared, and
has not solved the task. Where more than half of the rounds of both runs diverged, there is no difference to speak of.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from srgdqn.adapters.registry import reward_threshold
from srgdqn.errors import InputError
from srgdqn.results.comparison import distinct_labels, require_one_task
from srgdqn.results.result import Result
from srgdqn.results.scores import SCORES, diverged_rounds, with_diverged, worst_finished

_COLUMNS = {
    "run": pl.String,
    "other": pl.String,
    "score": pl.String,
    "rounds": pl.Int64,
    "diverged": pl.Int64,
    "other_diverged": pl.Int64,
    "mean": pl.Float64,
    "other_mean": pl.Float64,
    "difference": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
}


def paired(
    results: Sequence[Result], labels: Sequence[str] | None = None, *, threshold: float | None = None
) -> pl.DataFrame:
    """The differences between every two runs in the rounds that ended in both: a row per pair and score.

    Args:
      results: runs of one task and one seed, such as `[srgdqn.load(path) for path in …]` or a sweep's `results`.
      labels: their names in the table; by default what differs between them.
      threshold: the greedy return from which on a round counts as solved, by default Gymnasium's for the task. Where
        there is none, no row says which rounds solved it.

    Returns:
      A table with the columns `run` and `other`, `score` (as `results.scores` has them),
      `rounds` (how many were paired), how many of these diverged in either, both means, `difference` (of `run` to
      `other`) and the bounds of its 95 % interval: rounds are resampled, the same in both runs. Intervals are not
      corrected for the number of pairs.

    """
    require_one_task(results)
    if len(results) == 1:
        raise InputError("there is one run, and a difference is between two. Give another one.")
    seeds = sorted({result.configuration.training.seed for result in results})
    if len(seeds) > 1:
        raise InputError(
            f"the runs have different seeds ({', '.join(map(str, seeds))}), so that they have no rounds in common. "
            "Give runs of one seed, or compare them without pairing their rounds."
        )
    named = distinct_labels(results) if labels is None else labels
    limit = reward_threshold(results[0].configuration.task.task, threshold)
    scores = [score for score in SCORES if score != "solved" or limit is not None]
    lost = [diverged_rounds(result) for result in results]
    rows = []
    values = {}
    for score in scores:
        worst = worst_finished(results, score)
        values[score] = [with_diverged(result, score, worst, limit) for result in results]
    for one, other in itertools.combinations(range(len(results)), 2):
        ended = [
            set(results[place].rounds.filter(pl.col("completed"))["round"]) | lost[place] for place in (one, other)
        ]
        if not set.intersection(*ended):
            raise InputError(
                f"{named[one]} and {named[other]} have no round in common that ended in both: they have "
                f"{results[one].rounds.height} and {results[other].rounds.height}. Resume one that was interrupted."
            )
        for score in scores:
            row = _difference(values[score][one], values[score][other], lost[one], lost[other])
            rows.append({"run": named[one], "other": named[other], "score": score, **row})
    return pl.DataFrame(rows, schema=_COLUMNS)


def _difference(one: dict[int, float], other: dict[int, float], lost: set[int], other_lost: set[int]) -> dict[str, Any]:
    """The columns of one pair and score."""
    # Imported only now: scipy.stats takes a second, and a run that cannot be paired is refused before.
    from srgdqn.results.statistics import paired_bootstrap_difference

    common = sorted(one.keys() & other.keys())
    counts = {
        "rounds": len(common),
        "diverged": len(lost.intersection(common)),
        "other_diverged": len(other_lost.intersection(common)),
    }
    if not common or 2 * min(counts["diverged"], counts["other_diverged"]) > len(common):
        return counts
    a, b = (np.array([values[number] for number in common]) for values in (one, other))
    interval = paired_bootstrap_difference(a, b)
    bounds = {name: value for name, value in interval._asdict().items() if np.isfinite(value)}
    means = {"mean": float(a.mean()), "other_mean": float(b.mean())}
    return {**counts, **means, "difference": bounds.pop("estimate"), **bounds}
