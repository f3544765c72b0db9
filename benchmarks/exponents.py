"""With which power something grows: the slope of a line through logarithms, over the upper half of the range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Exponent(NamedTuple):
    """The exponent, its standard error (None for two points), and the smallest x that it was fitted to."""

    exponent: float
    standard_error: float | None
    fitted_from: float


def fit_exponent(points: Sequence[tuple[float, float]]) -> Exponent | None:
    """The exponent of y in x by least squares over the points (x, y) above the middle of the range of log x.

    Below, what does not grow at all has a larger share. None where fewer than two points are left.

    >>> fit_exponent([(x, 3 * x**2) for x in (1, 2, 4, 8, 16)])
    Exponent(exponent=2.0, standard_error=0.0, fitted_from=4)
    """
    upper = upper_half(points)
    if len(upper) < 2:
        return None
    # Only now: a process that is started by one with much in memory counts that as its own peak.
    from scipy.stats import linregress

    line = linregress(*np.log(upper).T)
    return Exponent(float(line.slope), float(line.stderr) if len(upper) > 2 else None, upper[0][0])


def upper_half(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points with x at least √(smallest x · largest x), in order; both, where there are but two.

    >>> upper_half([(1, 0.0), (4, 0.0), (16, 0.0), (64, 0.0)])
    [(16, 0.0), (64, 0.0)]
    """
    ordered = sorted(points)
    if len(ordered) <= 2:
        return ordered
    middle = ordered[0][0] * ordered[-1][0]
    return [point for point in ordered if point[0] ** 2 >= middle]
