"""The kinds of contrast that claims are made of: paired by round, bootstrapped over rounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from srgdqn.paper.claims.rules import LOG_MARGIN, RESAMPLES, Contrast
from srgdqn.results.statistics import (
    Interval,
    bootstrap_interval,
    log_sd_ratio_interval,
    paired_bootstrap_difference,
    resampled_interval,
)


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
    """The mean of one value per round is above 0. Where there are none, nothing can be told."""

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
