"""The rules common to all claims, fixed before any confirmatory run.

A claim is a list of contrasts, each a quantity that the claim says is above 0. It *holds* if every contrast's lower
bound is above 0. Otherwise it *fails* if some contrast's upper bound is below its margin: δ, so that the effect is
smaller than what would matter, or 0 where δ is part of the quantity already. Otherwise it is *undecided*. Bounds are
those of bootstrap intervals over rounds, corrected for the number of all contrasts of all claims (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from srgdqn.results.statistics import Interval

Verdict = Literal["holds", "fails", "undecided"]

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


def level_for(contrasts: int) -> float:
    """The level of each interval, so that all together err with a probability of at most 5 %."""
    return 1 - ERROR_RATE / contrasts


def verdict_on(measured: Sequence[MeasuredContrast]) -> Verdict:
    """The verdict on a claim. An interval that cannot be told (NaN) neither holds nor fails."""
    if all(contrast.holds for contrast in measured):
        return "holds"
    return "fails" if any(contrast.fails for contrast in measured) else "undecided"


def deciding(measured: Sequence[MeasuredContrast]) -> MeasuredContrast:
    """The contrast that a reader should see first: the one that is furthest from holding."""

    def key(contrast: MeasuredContrast) -> tuple[bool, bool, float]:
        high = contrast.interval.high / (contrast.unit or 1.0)
        return (contrast.holds, not contrast.fails, math.inf if math.isnan(high) else high)

    return min(measured, key=key)
