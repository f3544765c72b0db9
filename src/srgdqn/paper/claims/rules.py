"""The rules common to all claims, fixed before any confirmatory run.

A claim is a list of contrasts, each a quantity that the claim says is above 0. It *holds* if every contrast's lower
bound is above 0. Otherwise it *fails* if some contrast's upper bound is below its margin: δ, so that the effect is
smaller than what would matter, or 0 where δ is part of the quantity already. Otherwise it is *undecided*. Bounds are
those of bootstrap intervals over rounds, corrected for the number of all contrasts of all claims (Bonferroni).

The kinds of contrast (`higher`, `steadier`, …) stand at the end; `claims.statements` says which each claim has.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from srgdqn.paper.report.contents import Verdict
from srgdqn.results.statistics import (
    Interval,
    bootstrap_interval,
    log_sd_ratio_interval,
    paired_bootstrap_difference,
    resampled_interval,
)

ERROR_RATE = 0.05
RESAMPLES = 10_000
LOG_MARGIN = math.log(1.05)
"""δ of contrasts that are logarithms of ratios."""


@dataclass(frozen=True)
class Contrast:
    """A quantity that a claim says is above 0."""

    label: str
    interval_at: Callable[[float], Interval]
    """Its interval at a level of confidence."""
    margin: float
    """What it must be below to fail."""
    unit: float
    """What would matter, δ: contrasts of different kinds are compared in its terms."""

    def measured(self, level: float) -> MeasuredContrast:
        """The contrast with its interval at a level of confidence."""
        return MeasuredContrast(self.label, self.interval_at(level), self.margin, self.unit)


@dataclass(frozen=True)
class MeasuredContrast:
    """A contrast with its interval."""

    label: str
    interval: Interval
    margin: float
    unit: float

    @property
    def holds(self) -> bool:
        """Whether it is above 0 beyond doubt."""
        return self.interval.low > 0

    @property
    def fails(self) -> bool:
        """Whether it is below what would matter beyond doubt."""
        return self.interval.high < self.margin

    def text(self) -> str:
        """The contrast with its interval and margin, in words."""
        interval = self.interval
        if not math.isfinite(interval.estimate):
            return f"{self.label}: cannot be told, as one side has no spread or nothing is left to compare"
        bounds = f"{interval.estimate:+.3g} [{interval.low:+.3g}, {interval.high:+.3g}]"
        return f"{self.label}: {bounds} (fails if its upper bound is below {self.margin:.2g})"


def level_for(contrasts: int) -> float:
    """The level of each interval, so that all together err with a probability of at most 5 %."""
    return 1 - ERROR_RATE / contrasts


def verdict_on(measured: Sequence[MeasuredContrast]) -> Verdict:
    """The verdict on a claim. An unknown interval (NaN) neither holds nor fails."""
    if all(contrast.holds for contrast in measured):
        return "holds"
    return "fails" if any(contrast.fails for contrast in measured) else "undecided"


@dataclass(frozen=True)
class Judgement:
    """The verdict on one claim."""

    name: str
    verdict: Verdict
    contrasts: tuple[MeasuredContrast, ...]

    @property
    def deciding(self) -> MeasuredContrast:
        """The contrast that a reader should see first: the one that is furthest from holding."""

        def key(contrast: MeasuredContrast) -> tuple[bool, bool, float]:
            high = contrast.interval.high / (contrast.unit or 1.0)
            return (contrast.holds, not contrast.fails, math.inf if math.isnan(high) else high)

        return min(self.contrasts, key=key)


# Kinds of contrast: paired by round, bootstrapped over rounds


def higher(label: str, ours: np.ndarray, theirs: np.ndarray, margin: float) -> Contrast:
    """Our mean is higher than theirs."""
    return Contrast(
        label, lambda level: paired_bootstrap_difference(ours, theirs, level=level, resamples=RESAMPLES), margin, margin
    )


def not_worse(label: str, ours: np.ndarray, theirs: np.ndarray, margin: float) -> Contrast:
    """Our mean is not lower than theirs by the margin, which is added: what is left fails only below 0."""

    def interval(level: float) -> Interval:
        found = paired_bootstrap_difference(ours, theirs, level=level, resamples=RESAMPLES)
        return Interval(*(value + margin for value in found))

    return Contrast(label, interval, 0.0, margin)


def steadier(label: str, ours: np.ndarray, theirs: np.ndarray) -> Contrast:
    """Our standard deviation over rounds is smaller than theirs: minus the log of their ratio."""

    def interval(level: float) -> Interval:
        found = log_sd_ratio_interval(ours, theirs, level=level, resamples=RESAMPLES)
        return Interval(-found.estimate, -found.high, -found.low)

    return Contrast(label, interval, LOG_MARGIN, LOG_MARGIN)


def shorter(label: str, ours: np.ndarray, theirs: np.ndarray) -> Contrast:
    """Our mean is smaller than theirs: minus the log of the ratio of means."""

    def log_mean(values: np.ndarray, axis: int) -> np.ndarray:
        return np.log(values.mean(axis=axis))

    def interval(level: float) -> Interval:
        return paired_bootstrap_difference(theirs, ours, log_mean, level=level, resamples=RESAMPLES)

    return Contrast(label, interval, LOG_MARGIN, LOG_MARGIN)


def positive(label: str, values: np.ndarray, margin: float = LOG_MARGIN) -> Contrast:
    """The mean of one value per round is above 0. Without values the interval is unknown."""

    def interval(level: float) -> Interval:
        if not len(values):
            return Interval(np.nan, np.nan, np.nan)
        return bootstrap_interval(values, level=level, resamples=RESAMPLES)

    return Contrast(label, interval, margin, margin)


def beyond(label: str, values: np.ndarray, bound: float, unit: float) -> Contrast:
    """The mean of one value per round is above a bound; it fails if it is below."""
    return dataclasses.replace(positive(label, values - bound), margin=0.0, unit=unit)


def known(label: str, interval: Interval) -> Contrast:
    """A relative quantity that comes with an interval of its own, corrected for what it was chosen from."""
    return Contrast(label, lambda level: interval, 0.0, LOG_MARGIN)


def resampled(
    label: str, rounds: int, statistic: Callable[[np.ndarray | None], float], margin: float = LOG_MARGIN
) -> Contrast:
    """A statistic of rounds, given by their positions (None: all of them, once), is above 0."""
    return Contrast(
        label, lambda level: resampled_interval(rounds, statistic, level=level, resamples=RESAMPLES), margin, margin
    )
