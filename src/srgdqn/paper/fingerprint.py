"""The fingerprint: which readings could have printed Table 2, whose forty numbers are all that the paper measured.

Four features of log S, both algorithms together, say how high the standard deviations are, how far they fall over
training, how low the first is, and how much they scatter. A reading is accepted if each of the paper's features lies
in the central 98.75 % of its own, over resamples of 50 rounds (four features: 5 % together). Who is lower, SRG-DQN or
SVR-DQN, and all rewards are held out: they are looked at among accepted readings alone.

Rounds are resampled with replacement, for both algorithms the same. Without it, a reading of which just 50 rounds
finished would have a single resample and could accept nothing but that; and of 100 rounds the resamples would spread
half as much (in variance) as tables of 50 fresh rounds do. In a trial with twelve readings (seed 10,777), 100 rounds
accepted tables of 50 fresh ones in 67 to 71 % (across rounds) and 83 to 86 % (windows) of cases with replacement, and
in 50 to 55 % without: less often than the 95 % of the rule either way. The calibration, which judges with 50 rounds,
came to 34 to 39 % and 60 to 66 % over all readings. So a reading that printed the table may be missed.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from srgdqn.paper.cells import MeasurementCell
from srgdqn.paper.experiment import LAST_SHARE, measured_arm
from srgdqn.paper.factorial.design import ALL_READINGS, options_of
from srgdqn.paper.measurements import gradient_spread
from srgdqn.paper.scale import CONFIRMATION, Scale
from srgdqn.paper.studies.table_2 import ALGORITHMS, PRINTED, Spreads, cell_name, steps
from srgdqn.results.statistics import Interval, paired_bootstrap_difference
from srgdqn.runs.measurement import Measured
from srgdqn.session.prepare import with_kernel

FINGERPRINT = dataclasses.replace(CONFIRMATION, name="fingerprint", seed=44_001, spread_rounds=100)
RESAMPLES, DRAWN = 1_000, 50
LEVEL = 0.9875
FEATURES = ("late", "fall", "start", "scatter")
Definition = tuple[str, str]
"""How a standard deviation is taken (`table_2.DEFINITIONS`), and of which vector."""
DEFINITIONS: tuple[Definition, ...] = tuple(itertools.product(("across", "window"), gradient_spread.QUANTITIES))

Options = Mapping[str, Any]


def readings() -> Iterator[Options]:
    """Every reading of MountainCar in the factorial, as options."""
    return (options_of("MountainCar", reading) for reading in ALL_READINGS)


def cells(scale: Scale, among: Sequence[Options]) -> list[MeasurementCell]:
    """A cell per reading, with both algorithms."""
    rounds, budget = scale.spread_rounds, scale.spread_steps
    listed = []
    for index, options in enumerate(among):
        arms = {
            name: with_kernel(measured_arm(scale, name, "corrected", rounds=rounds, steps=budget, **options))
            for name in ALGORITHMS
        }
        plan = gradient_spread.RunsPlan(arms, steps(scale), rewards_after=int((1 - LAST_SHARE) * budget))
        listed.append(MeasurementCell(f"fingerprint-{index:03d}", gradient_spread.measure_runs, plan))
    return listed


def features(logs: np.ndarray) -> np.ndarray:
    """Late, fall, start and scatter (the last axis) of log S, whose last axes are algorithms and Table 2's 20 steps.

    Late is the mean of the last ten steps, fall that of steps 2,000 to 10,000 minus late, start the first step minus
    that mean, and scatter the residual standard deviation about the mean of each half of each algorithm, without the
    first step.
    """
    first, early, last = logs[..., 0], logs[..., 1:10], logs[..., 10:]
    before, late = (half.mean((-2, -1)) for half in (early, last))
    squares = sum(((half - half.mean(-1, keepdims=True)) ** 2).sum((-2, -1)) for half in (early, last))
    means = 2 * logs.shape[-2]
    numbers = logs.shape[-2] * (logs.shape[-1] - 1)
    return np.stack([late, before - late, first.mean(-1) - before, np.sqrt(squares / (numbers - means))], -1)


PAPER = features(np.log([np.concatenate(PRINTED[name]) for name in ALGORITHMS]))
"""The paper's own features."""


class Range(NamedTuple):
    """The central 98.75 % of each feature; NaN where there is none, and then it accepts nothing."""

    low: np.ndarray
    high: np.ndarray

    def accepts(self, table: np.ndarray) -> np.ndarray:
        """Whether each feature (the last axis of both) lies in its range; the ends do."""
        return (self.low <= table) & (table <= self.high)


NOTHING = Range(np.full(len(FEATURES), np.nan), np.full(len(FEATURES), np.nan))


def range_of(resampled: np.ndarray) -> Range:
    """The range of features (resamples, features); of one that is not finite in some resample there is none."""
    outside = (1 - LEVEL) / 2
    with np.errstate(invalid="ignore"):
        low, high = np.quantile(resampled, (outside, 1 - outside), axis=0)
    known = np.isfinite(resampled).all(0)
    return Range(np.where(known, low, np.nan), np.where(known, high, np.nan))


class Verdict(NamedTuple):
    """Why a table is not accepted, and the features that are the reason; empty if it is accepted."""

    reason: str
    features: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        """Whether there is no reason against it."""
        return not self.reason


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """What a reading came to by one definition."""

    finished: int
    """Rounds that finished in both algorithms."""
    middle: np.ndarray
    """The median of each feature over resamples."""
    range: Range
    table: np.ndarray
    """The features of a simulated table: of 50 of its rounds, each taken once."""
    left: Range
    """The range over resamples of the rounds that the simulated table does not have; NaN if they are fewer than 50."""

    def verdict(self, table: np.ndarray = PAPER) -> Verdict:
        """Whether a table's features are accepted, and why not."""
        if self.finished < DRAWN:
            return Verdict(f"fewer than {DRAWN} rounds finished")
        missing = [name for name, low in zip(FEATURES, self.range.low, strict=True) if np.isnan(low)]
        if missing:
            return Verdict("cannot be computed", tuple(missing))
        inside = self.range.accepts(table)
        outside = tuple(name for name, there in zip(FEATURES, inside, strict=True) if not there)
        return Verdict("outside" if outside else "", outside)


def fingerprints(measured: Measured, seed: tuple[int, ...]) -> dict[Definition, Fingerprint]:
    """A reading's fingerprint by every definition, all from the same resamples."""
    return {(how, quantity): _fingerprint(spreads_of(measured, quantity), how, seed) for how, quantity in DEFINITIONS}


def spreads_of(measured: Measured, quantity: str) -> Spreads:
    """The spreads of a reading's cell, as Table 2 defines them."""
    by_algorithm = {
        cell_name("fingerprint", name): Measured(
            {table: frame.filter(algorithm=name).drop("algorithm") for table, frame in measured.tables.items()}, {}
        )
        for name in ALGORITHMS
    }
    return Spreads(by_algorithm, "fingerprint", quantity)


def _fingerprint(spreads: Spreads, how: str, seed: tuple[int, ...]) -> Fingerprint:
    finished = len(spreads.rounds)
    if finished < DRAWN:
        return Fingerprint(finished, NOTHING.low, NOTHING, NOTHING.low, NOTHING)
    rng = np.random.default_rng(seed)
    resampled = _features(spreads, how, rng.integers(0, finished, (RESAMPLES, DRAWN)))
    order = rng.permutation(finished)
    drawn, left = order[:DRAWN], order[DRAWN:]
    of_left = NOTHING
    if len(left) >= DRAWN:
        of_left = range_of(_features(spreads, how, rng.choice(left, (RESAMPLES, DRAWN))))
    table = _features(spreads, how, drawn[None])[0]
    return Fingerprint(finished, np.median(resampled, 0), range_of(resampled), table, of_left)


def _features(spreads: Spreads, how: str, picks: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return features(np.log(spreads.resampled(how, picks)))


class Calibration(NamedTuple):
    """How readings judge simulated tables, each reading's own in the paper's place."""

    by_itself: np.ndarray
    """For each reading with a table and rounds enough left: whether these accept it."""
    by_others: np.ndarray
    """For each reading with a table, all of whose features can be computed: how many of the others accept it."""


def calibrate(found: Sequence[Fingerprint]) -> Calibration:
    """The calibration of all readings by one definition.

    A simulated table has 50 rounds of its reading, and is judged by itself with the rounds that are left: that takes
    100 that finished. These are half of what the paper's table is judged with, so that a reading accepts its own table
    less often than it would the paper's, had it printed that: in 34 to 66 % of cases, against 67 to 86 % in the trial
    above. Other readings judge it with all their rounds.
    """
    tables = np.array([each.table for each in found])
    low, high = (np.array([getattr(each.range, side) for each in found]) for side in Range._fields)
    accepted = Range(low, high).accepts(tables[:, None]).all(-1)  # (tables, readings)
    others = accepted.sum(1) - np.diag(accepted)
    own = np.array([each.left.accepts(each.table).all() for each in found], bool)
    has_table = np.isfinite(tables).all(1)
    has_left = np.array([np.isfinite(each.left.low).all() for each in found], bool)
    return Calibration(own[has_table & has_left], others[has_table])


@dataclass(frozen=True)
class HeldOut:
    """What is looked at of an accepted reading alone."""

    ratio: Interval
    """S_SRG / S_SVR, the geometric mean over the 20 steps; 95 % over resamples of 50 rounds."""
    rewards: Mapping[str, float]
    """Mean reward per action over the last fifth of the steps, of the rounds that finished in both."""
    difference: Interval
    """SRG-DQN's minus SVR-DQN's."""
    diverged: Mapping[str, int]


def hold_out(measured: Measured, definition: Definition, seed: tuple[int, ...]) -> HeldOut:
    """The ratio and the rewards of a reading, whose resamples are those of its fingerprint."""
    how, quantity = definition
    spreads = spreads_of(measured, quantity)
    picks = np.random.default_rng(seed).integers(0, len(spreads.rounds), (RESAMPLES, DRAWN))
    svr, srg = np.moveaxis(np.log(spreads.resampled(how, picks)), 1, 0)
    low, high = np.exp(np.quantile((srg - svr).mean(1), (0.025, 0.975)))
    rewards, rounds = measured.tables["rewards"], measured.tables["rounds"]
    mine = {
        name: rewards.filter(pl.col("algorithm") == name, pl.col("round").is_in(spreads.rounds))["reward"].to_numpy()
        for name in ALGORITHMS
    }
    return HeldOut(
        Interval(float(np.exp(spreads.log_ratio(how))), float(low), float(high)),
        {name: float(values.mean()) for name, values in mine.items()},
        paired_bootstrap_difference(mine["srg-dqn"], mine["svr-dqn"]),
        dict(zip(rounds["algorithm"], rounds["diverged"], strict=True)),
    )
