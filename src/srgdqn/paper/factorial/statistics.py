"""Statistics over many readings: functions of one score for each reading, arm and round.

Rounds are resampled, and nothing else: a resample draws round numbers once, and takes the same ones in every reading,
arm and task. Readings are not a sample of anything, so that no interval is over them. `weights`, an array (resamples,
rounds), says how often each resample has drawn each round.

Means have percentile intervals. Shares of readings have such that are moved: whether an arm is the best, or passes a
test, is decided by noisy means, and in a resample by means with twice the noise. This moves shares (those of arms that
pass a test up, those of the best towards one in six) by more than they vary, as all readings are averaged. So the
resamples are moved by one amount, to have the estimate as their mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from srgdqn.paper.claims.verdicts import ERROR_RATE, draws
from srgdqn.paper.scores import floor_of

_TIE = 1e-9
"""The lead, as a share of the largest score, below which two means are the same but for rounding."""
_AT_ONCE = 48
"""Values whose resamples are in memory at the same time."""


class Scored(NamedTuple):
    """Scores and what diverged, both with axes of readings, arms and rounds."""

    values: np.ndarray
    diverged: np.ndarray


def scored(means: np.ndarray, arms: Sequence[str]) -> Scored:
    """The score of every round, from means with axes of readings, arms and rounds, NaN where a round diverged.

    In each reading a diverged round scores as the worst finished one of all arms. The yardsticks are among them: where
    every other round diverged, none of them may count as better than an agent that never learned.
    """
    diverged = np.isnan(means)
    floors = [floor_of(dict(zip(arms, reading, strict=True)), among=arms) for reading in means]
    return Scored(np.where(diverged, np.reshape(floors, (-1, 1, 1)), means), diverged)


def weights_of(rounds: int, resamples: int, seed: int) -> np.ndarray:
    """How often each resample has drawn each round."""
    return np.concatenate([weights for _, weights in draws(rounds, resamples, seed)])


def intervals(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(cases, 3): the mean over rounds of each case, from (cases, rounds), and the bounds of its interval at 95 %."""
    bounds = [np.quantile(_means(values[part], weights), (0.025, 0.975), axis=0).T for part in _parts(len(values))]
    return np.column_stack([values.mean(1), np.concatenate(bounds)])


def effects(values: np.ndarray, levels: np.ndarray, weights: np.ndarray) -> dict[int, np.ndarray]:
    """The main effect of each level of an option, with its interval: the mean over the readings with it, minus that
    over the readings with the first level. `values` are (readings, rounds); levels that no reading has are left out.
    """
    first = values[levels == 0].mean(0)
    return {
        int(level): intervals((values[levels == level].mean(0) - first)[None], weights)[0]
        for level in np.unique(levels)
        if level > 0
    }


def is_void(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Whether a contrast of means says nothing, by reading: more than half of each arm's rounds diverged."""
    return (ours.mean(1) > 0.5) & (theirs.mean(1) > 0.5)


def finished_means(values: np.ndarray, finished: np.ndarray) -> np.ndarray:
    """The mean over the rounds that finished, by reading; NaN where there is none."""
    counts = finished.sum(1)
    return np.where(counts > 0, np.where(finished, values, 0.0).sum(1) / np.maximum(counts, 1), np.nan)


class Above(NamedTuple):
    """Which arms are above a yardstick, and in what share of the readings."""

    flags: np.ndarray
    """(readings, arms): whether p⁺ of the arm minus the yardstick is at most 2.5 % divided by the number of arms."""
    shares: np.ndarray
    """(arms + 1, 3): the share of readings in which each arm is, then that in which some arm is, with intervals."""


def above(values: np.ndarray, yardstick: np.ndarray, weights: np.ndarray) -> Above:
    """Which arms, (readings, arms, rounds), are above a yardstick, (readings, rounds), beyond doubt.

    The estimates are shares of readings whose p⁺ is small enough, as `verdicts.arms_above` has it. For the intervals
    the test itself is made again in every resample. As a resample of resamples would take too long, it has the normal
    form there: the resample's mean is above 0 by z times its own standard error.
    """
    readings, arms, rounds = values.shape
    level = ERROR_RATE / arms
    z = NormalDist().inv_cdf(1 - level)
    flags, counts = np.empty((readings, arms), bool), np.zeros((len(weights), arms + 1))
    for part in _parts(readings, arms):
        ahead = (values[part] - yardstick[part][:, None]).reshape(-1, rounds)
        drawn, centre = _means(ahead, weights), ahead.mean(1)
        p_above = (1 + (drawn <= 0).sum(0)) / (len(weights) + 1)
        flags[part] = (p_above <= level).reshape(-1, arms)
        variance = _means((ahead - centre[:, None]) ** 2, weights) - (drawn - centre) ** 2
        is_above = drawn > z * np.sqrt(np.maximum(variance, 0.0) / rounds)
        by_arm = is_above.reshape(len(weights), -1, arms)
        counts += np.column_stack([by_arm.sum(1), by_arm.any(2).sum(1)])
    return Above(flags, _shares(np.append(flags.mean(0), flags.any(1).mean()), counts / readings))


def best(means: np.ndarray) -> np.ndarray:
    """Whether each arm, along the last axis, has the highest mean. A tie is nobody's."""
    highest = means.max(-1, keepdims=True)
    level = means >= highest - _TIE * np.abs(means).max(-1, keepdims=True)
    return np.asarray(level & (level.sum(-1, keepdims=True) == 1))


class Best(NamedTuple):
    """In what share of the readings each arm is best: (arms, 3), estimates and intervals."""

    by_task: dict[str, np.ndarray]
    everywhere: np.ndarray
    """On all tasks at once."""


def shares_best(tasks: Mapping[str, np.ndarray], weights: np.ndarray) -> Best:
    """In what share of the readings each arm has the highest mean, from (readings, arms, rounds) by task; a reading has
    the same place on every task. In a resample the means are those of the rounds that it has drawn.
    """
    readings, arms, rounds = next(iter(tasks.values())).shape
    kinds = (*tasks, "")
    counts = {kind: np.zeros((len(weights), arms)) for kind in kinds}
    for part in _parts(readings, arms):
        everywhere = np.ones((len(weights), len(range(*part.indices(readings))), arms), bool)
        for task, values in tasks.items():
            drawn = _means(values[part].reshape(-1, rounds), weights)
            is_best = best(drawn.reshape(len(weights), -1, arms))
            counts[task] += is_best.sum(1)
            everywhere &= is_best
        counts[""] += everywhere.sum(1)
    flags = {task: best(values.mean(2)) for task, values in tasks.items()}
    flags[""] = np.logical_and.reduce(list(flags.values()))
    found = {kind: _shares(flags[kind].mean(0), counts[kind] / readings) for kind in kinds}
    return Best({task: found[task] for task in tasks}, found[""])


def _shares(estimates: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """(arms, 3): shares, and the quantiles of their resamples, moved to have the estimates as their means."""
    bounds = np.quantile(drawn, (0.025, 0.975), axis=0) + (estimates - drawn.mean(0))
    return np.column_stack([estimates, np.clip(bounds, 0.0, 1.0).T])


def _means(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(resamples, cases): the means of (cases, rounds) in every resample."""
    return np.asarray(weights @ values.T / values.shape[1])


def _parts(count: int, width: int = 1) -> Iterator[slice]:
    """Slices of so many items, each of so many values, that fit into memory with their resamples."""
    size = max(1, _AT_ONCE // width)
    return (slice(start, min(start + size, count)) for start in range(0, count, size))
