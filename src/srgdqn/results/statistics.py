"""Means, spreads and their bootstrap intervals over rounds. Rounds are the unit: a resample takes whole rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.stats

from srgdqn.errors import InputError

Statistic = Callable[..., Any]
"""A function of values and `axis`, such as `numpy.mean` or `iqm`, that reduces that axis."""

# Resamples held at once, so that memory stays small for many rounds.
_BATCH = 1_000


class Interval(NamedTuple):
    """An estimate and the bounds of its interval; the bounds are NaN where there is no interval."""

    estimate: float
    low: float
    high: float


def iqm(values: Any, axis: int = -1) -> Any:
    """Interquartile mean: the mean of what is left without the ⌊n/4⌋ smallest and the ⌊n/4⌋ largest values.

    >>> float(iqm([0.0, 1.0, 3.0, 100.0]))
    2.0
    """
    return scipy.stats.trim_mean(np.asarray(values, dtype=float), 0.25, axis=axis)


def bootstrap_interval(
    values: Any,
    statistic: Statistic = np.mean,
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """The statistic of one value per round, with its percentile bootstrap interval.

    A constant sample has an interval of no length; a single value has no spread, and its bounds are NaN.
    """
    return _percentile((_rounds("values", values),), statistic, level, resamples, seed)


def paired_bootstrap_difference(
    a: Any,
    b: Any,
    statistic: Statistic = np.mean,
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """statistic(a) - statistic(b) of the same rounds under a and under b, which are resampled together.

    Constant differences and single rounds are treated as by `bootstrap_interval`.
    """

    def difference(x: Any, y: Any, axis: int) -> Any:
        return statistic(x, axis=axis) - statistic(y, axis=axis)

    return _percentile(_pair(a, b), difference, level, resamples, seed)


def log_sd_ratio_interval(a: Any, b: Any, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0) -> Interval:
    """log(sd(a) / sd(b)) over rounds, of the same rounds under a and under b, which are resampled together.

    A resample in which both are constant is left out; one in which only a (b) is constant counts as
    minus (plus) infinity. Where a sample itself is constant the bounds are NaN and the estimate is infinite, or NaN if
    both are constant. A single round has no spread: all is NaN.
    """
    _check(level, resamples)
    pair = _pair(a, b)
    if pair[0].size == 1:
        return Interval(np.nan, np.nan, np.nan)
    estimate = float(_log_ratio(*_deviations(*pair)))
    if any(np.ptp(sample) == 0 for sample in pair):
        return Interval(estimate, np.nan, np.nan)
    drawn = _log_ratio(*_resampled(pair, _deviations, resamples, seed))
    return _interval(estimate, drawn[~np.isnan(drawn)], level)


def resampled_interval(
    rounds: int,
    statistic: Callable[[np.ndarray | None], float],
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """A statistic of rounds, given by their positions (None: all of them, once), with its percentile interval.

    Resamples in which the statistic is not finite are left out. No rounds give NaN; one round has no bounds.
    """
    _check(level, resamples)
    if rounds < 2:
        return Interval(statistic(None) if rounds else np.nan, np.nan, np.nan)
    rng = np.random.default_rng(seed)
    drawn = np.array([statistic(rng.integers(0, rounds, rounds)) for _ in range(resamples)])
    return _interval(statistic(None), drawn[np.isfinite(drawn)], level)


def _deviations(*samples: np.ndarray, axis: int = -1) -> np.ndarray:
    """The standard deviation of each sample; of equal values it is 0, where rounding would leave a tiny spread."""
    return np.stack([np.where(np.ptp(s, axis=axis) == 0, 0.0, np.std(s, axis=axis, ddof=1)) for s in samples])


def _log_ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(numerator) - np.log(denominator)


def _resampled(samples: tuple[np.ndarray, ...], statistic: Statistic, resamples: int, seed: int) -> np.ndarray:
    """The statistic of each resample of whole rounds, on the last axis."""
    result = scipy.stats.bootstrap(
        samples,
        statistic,
        n_resamples=resamples,
        batch=_BATCH,
        vectorized=True,
        paired=True,
        axis=-1,
        method="percentile",
        random_state=np.random.default_rng(seed),
    )
    return np.asarray(result.bootstrap_distribution)


def _interval(estimate: float, drawn: np.ndarray, level: float) -> Interval:
    """Percentile bounds, at the next order statistics outwards: infinite values would not survive interpolation."""
    if drawn.size == 0:
        return Interval(estimate, np.nan, np.nan)
    tail = (1 - level) / 2
    low, high = np.quantile(drawn, tail, method="lower"), np.quantile(drawn, 1 - tail, method="higher")
    return Interval(estimate, float(low), float(high))


def _percentile(
    samples: tuple[np.ndarray, ...], statistic: Statistic, level: float, resamples: int, seed: int
) -> Interval:
    _check(level, resamples)
    estimate = float(statistic(*samples, axis=-1))
    if samples[0].size == 1:
        return Interval(estimate, np.nan, np.nan)
    return _interval(estimate, _resampled(samples, statistic, resamples, seed), level)


def _check(level: float, resamples: int) -> None:
    if not 0 < level < 1:
        raise InputError(f"level is {level}, but must be between 0 and 1. Give 0.95 for a 95 % interval.")
    if resamples < 1:
        raise InputError(f"resamples is {resamples}, but must be 1 or more. Give 10000 for a steady interval.")


def _pair(a: Any, b: Any) -> tuple[np.ndarray, np.ndarray]:
    first, second = _rounds("a", a), _rounds("b", b)
    if first.size != second.size:
        raise InputError(
            f"a has {first.size} rounds and b has {second.size}, but pairs need the same rounds. "
            "Give one value per round in both, in the same order."
        )
    return first, second


def _rounds(name: str, values: Any) -> np.ndarray:
    rounds = np.asarray(values, dtype=float)
    if rounds.ndim != 1 or rounds.size == 0:
        raise InputError(
            f"{name} has shape {rounds.shape}, but one value per round is expected. Give a list of numbers."
        )
    if not np.isfinite(rounds).all():
        bad = np.flatnonzero(~np.isfinite(rounds))
        raise InputError(
            f"{name} has {bad.size} values that are not finite, the first of round {bad[0]}. "
            "Give the round a score, such as the random policy's, before it enters a statistic."
        )
    return rounds
