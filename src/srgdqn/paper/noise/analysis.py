"""The statistics of the noise map, as functions of rounds: where noise limits, equivalent batch sizes, and contrasts.

Rounds are resampled, the same for all arms of a task: they share seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
import scipy.optimize

from srgdqn.paper.claims.verdicts import Case, Judgement, Unit, arms_above, draws, higher, judge, measure, seed_of
from srgdqn.paper.noise.rules import AGAINST, MARGIN, RESAMPLES
from srgdqn.paper.scores import Scores
from srgdqn.results.statistics import Interval

RETURNS = Unit("return per episode")

Limit = str
"""`limits`, `does not`, `unclear`, or `nothing learned`; empty from `AGAINST` on, where no larger batch is compared."""


def resampled_means(values: np.ndarray, seed: int, resamples: int = RESAMPLES) -> np.ndarray:
    """(resamples, arms) from (rounds, arms): the means of the same rounds of all arms."""
    rounds = len(values)
    parts = [weights @ values / rounds for _, weights in draws(rounds, resamples, seed)]
    return np.concatenate(parts)


def interval_of(estimate: float, drawn: np.ndarray) -> Interval:
    """The estimate with the percentile interval at 95 %. Bounds are order statistics, as they may be infinite."""
    if not len(drawn) or np.isnan(drawn).any():
        return Interval(estimate, math.nan, math.nan)
    low, high = np.quantile(drawn, 0.025, method="lower"), np.quantile(drawn, 0.975, method="higher")
    return Interval(estimate, float(low), float(high))


# 1. The ceiling


class Ceiling(NamedTuple):
    """Plain Adam with one batch size, beside the one with `AGAINST`."""

    batch: int
    mean: Interval
    loss: Interval
    """(best of B = 512) − (best of B), as a share of (best − random)."""
    verdict: Limit


def ceiling(
    batches: Sequence[int], values: np.ndarray, chance: np.ndarray, seed: int, resamples: int = RESAMPLES
) -> list[Ceiling]:
    """Where noise limits, from one value per round of every batch size, (rounds, batches), and of the random policy.

    It limits at B < AGAINST if (B = 512) − (B) exceeds MARGIN · (best − random): if the interval of what it exceeds
    that by is above 0. *Best* is the batch size with the highest mean, chosen anew in every resample.
    """
    together = np.column_stack([values, chance])
    drawn = np.concatenate([together.mean(0)[None], resampled_means(together, seed, resamples)])
    arms, random = drawn[:, :-1], drawn[:, -1]
    gap = arms.max(1) - random
    learned = interval_of(gap[0], gap[1:]).low > 0
    reference = arms[:, batches.index(AGAINST)]
    found = []
    for place, batch in enumerate(batches):
        lost = reference - arms[:, place]
        beyond = lost - MARGIN * gap
        exceeds = interval_of(beyond[0], beyond[1:])
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(gap > 0, lost / gap, np.nan)
        shown = interval_of(share[0], share[1:][np.isfinite(share[1:])])
        verdict = "nothing learned"
        if learned and batch >= AGAINST:
            verdict = ""
        elif learned:
            verdict = "limits" if exceeds.low > 0 else "does not" if exceeds.high < 0 else "unclear"
        found.append(Ceiling(batch, interval_of(arms[0, place], arms[1:, place]), shown, verdict))
    return found


# 2. Errors of directions


def error_ratios(errors: pl.DataFrame) -> pl.DataFrame:
    """Of each arm, axis, variant and value: the squared error of its directions divided by that of the plain gradient
    on as many transitions as a batch of its queries (`ratio`), and the batch size of the plain gradient with an equal
    error (`equivalent`).

    Steps within a batch share its queries, and most of their error, which is that of the batch.

    A measurement's errors are summed over rounds; over training the geometric mean counts, as errors change in size.
    Moments at which a sum is not above 0 are left out; where none is left there is no row.
    """
    return (
        error_ratios_over_training(errors)
        .group_by("arm", "axis", "variant", "value", "rows", "queries", maintain_order=True)
        .agg(pl.col("relative").log().mean().exp(), pl.len().alias("moments"))
        .with_columns(
            (pl.col("relative") * pl.col("queries") / pl.col("rows")).alias("ratio"),
            (pl.col("rows") / pl.col("relative")).alias("equivalent"),
        )
    )


def error_ratios_over_training(errors: pl.DataFrame) -> pl.DataFrame:
    """The same at each measurement: `relative` is to the plain gradient on the batch itself."""
    keys = ["arm", "axis", "variant", "value", "rows", "queries", "step"]
    known = errors.filter(pl.col("squared_error").is_finite(), pl.col("plain_squared_error").is_finite())
    sums = known.group_by(keys).agg(pl.col("squared_error", "plain_squared_error").sum()).sort(keys)
    above = sums.filter(pl.col("squared_error") > 0, pl.col("plain_squared_error") > 0)
    return above.with_columns((pl.col("squared_error") / pl.col("plain_squared_error")).alias("relative")).with_columns(
        (pl.col("relative") * pl.col("queries") / pl.col("rows")).alias("ratio")
    )


# 3. Equivalent batch sizes and contrasts


def equivalent_batch(batches: Sequence[int], returns: np.ndarray, value: float) -> float:
    """The batch size at which plain Adam's curve reaches a value: −∞ below the grid, ∞ above it.

    The curve is made monotone (isotonic regression) and is interpolated along log B; where it is flat, the smallest B
    counts.

    >>> round(equivalent_batch((8, 32, 128), np.array([0.0, 1.0, 2.0]), 0.5))
    16
    >>> equivalent_batch((8, 32, 128), np.array([0.0, 1.0, 2.0]), 2.5)
    inf
    """
    curve = np.asarray(scipy.optimize.isotonic_regression(returns).x)
    tiny = 1e-9 * max(1.0, float(np.ptp(curve)))  # rounding in the regression
    if value < curve[0] - tiny:
        return -math.inf
    place = int(np.argmax(curve >= value - tiny))
    if curve[place] < value - tiny:
        return math.inf
    if place == 0:
        return float(batches[0])
    below, above = curve[place - 1], curve[place]
    share = min(1.0, (value - below) / (above - below))
    logs = np.log2([batches[place - 1], batches[place]])
    return float(2 ** (logs[0] + share * (logs[1] - logs[0])))


def equivalent_interval(
    batches: Sequence[int], values: np.ndarray, arm: np.ndarray, seed: int, resamples: int = RESAMPLES
) -> Interval:
    """The equivalent batch size of an arm with its interval: rounds of the arm and of plain Adam, (rounds, batches),
    are resampled together.
    """
    together = np.column_stack([values, arm])
    drawn = np.concatenate([together.mean(0)[None], resampled_means(together, seed, resamples)])
    found = np.array([equivalent_batch(batches, row[:-1], row[-1]) for row in drawn])
    return interval_of(float(found[0]), found[1:])


def batch_text(batch: float, batches: Sequence[int]) -> str:
    """An equivalent batch size in words.

    >>> batch_text(37.4, (8, 32)), batch_text(math.inf, (8, 2048)), batch_text(-math.inf, (8, 2048))
    ('37', 'above 2,048', 'below 8')
    """
    if math.isnan(batch):
        return "–"
    if math.isinf(batch):
        return f"above {max(batches):,}" if batch > 0 else f"below {min(batches):,}"
    return f"{batch:,.0f}"


class Learner(NamedTuple):
    """A contender's or control's rounds on a task, beside those of the best tuned Adam at as many queries per step."""

    task: str
    name: str
    outcome: str
    scores: Scores
    adam: Scores
    chance: np.ndarray


def contrasts(learners: Sequence[Learner], resamples: int = RESAMPLES) -> list[Judgement]:
    """Whether each learner is above the best tuned Adam: Holm's procedure over tasks, learners and outcomes.

    It *holds* if the difference is above 0, *fails* if it is below MARGIN · (best − random), where the best is the
    better of the two; it is *moot* if neither is above the random policy, or if both mostly diverged.
    """
    cases = []
    for each in learners:
        seed = seed_of("noise", each.task, each.outcome)
        gap = max(each.scores.values.mean(), each.adam.values.mean()) - each.chance.mean()
        margin = max(0.0, MARGIN * float(gap))
        label = f"{each.name} − Adam"
        measured = measure([higher(label, each.scores, each.adam, margin, RETURNS)], seed, resamples)
        learned = arms_above({each.name: each.scores, "adam": each.adam}, each.chance, seed, resamples)
        cases.append(Case(name_of(each), tuple(measured), learned=learned, beats_random=learned))
    return judge(cases) if cases else []


def name_of(learner: Learner) -> str:
    """What a contrast is called."""
    return f"{learner.task}: {learner.name}, {learner.outcome}"


def best_of(pilots: Mapping[int, float]) -> int:
    """The batch size of the best tuned Adam, by pilots; of equals the smallest."""
    return min(pilots, key=lambda batch: (-pilots[batch], batch))
