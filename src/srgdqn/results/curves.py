"""Learning curves: one value per round and point, their mean over rounds and its band, against steps or costs.

Runs with a budget in steps or outer iterations have a point per window (the mean reward per action); runs with a
budget in episodes may have one per episode instead (the return, averaged with those of the episodes before it). Runs in
Gymnasium's environments, of which many reward every action alike, have that return at the end of every window. What
a round lacks, because it diverged or was interrupted, is missing: a point is the mean over the rounds that have it.

The seconds of a round are its share of the wall clock: the seconds that its chunk had trained for, divided by the
rounds that ran side by side in it. Between two reports of a chunk they are interpolated. Compiling and evaluating do
not count, nor do chunks that ran at the same time on other cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from srgdqn.results.result import Result
from srgdqn.runs.untrusted import check_room

Points = Literal["windows", "episodes", "returns"]
Axis = Literal["episodes", "steps", "queries", "seconds"]
AXES: tuple[Axis, ...] = ("episodes", "steps", "queries", "seconds")

SMOOTHING = 10
"""Episodes averaged into one point of a curve of returns: each with those before it."""

_RESAMPLES = 10_000
# Points resampled at once, so that memory stays small for long curves.
_POINTS_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class Curve:
    """A run's learning curve."""

    x: np.ndarray
    """Where the points are: the mean over the rounds that have each."""
    values: np.ndarray
    """(rounds, points); NaN where a round has no such point."""

    @property
    def counts(self) -> np.ndarray:
        """How many rounds have each point."""
        return np.isfinite(self.values).sum(0)

    def mean(self) -> np.ndarray:
        """The mean over the rounds that have each point."""
        return _mean_of_present(self.values)

    def sd_band(self) -> tuple[np.ndarray, np.ndarray]:
        """One standard deviation over rounds below and above the mean; NaN where fewer than two rounds are left."""
        deviations = np.where(np.isfinite(self.values), self.values - self.mean(), 0.0)
        variance = (deviations**2).sum(0) / np.where(self.counts > 1, self.counts - 1, np.nan)
        return self.mean() - np.sqrt(variance), self.mean() + np.sqrt(variance)

    def interval_band(self, *, level: float = 0.95, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """The mean's percentile bootstrap interval at each point. A resample takes whole rounds, the same everywhere.

        NaN where fewer than two rounds are left.
        """
        rounds = len(self.values)
        low, high = np.full((2, self.values.shape[1]), np.nan)
        if not rounds:
            return low, high
        picks = np.random.default_rng(seed).multinomial(rounds, np.full(rounds, 1 / rounds), size=_RESAMPLES)
        enough = np.flatnonzero(self.counts > 1)
        # Points that the same rounds have are resampled together: one product of matrices instead of one per point.
        masks, kinds = np.unique(np.isfinite(self.values[:, enough]), axis=1, return_inverse=True)
        for kind, present in enumerate(masks.T):
            drawn = picks[:, present].astype(float)
            drawn = drawn[drawn.any(1)]  # a resample may have none of the rounds that are left
            weights = drawn / drawn.sum(1, keepdims=True)
            points = enough[kinds.reshape(-1) == kind]
            for first in range(0, len(points), _POINTS_AT_ONCE):
                some = points[first : first + _POINTS_AT_ONCE]
                means = self.values[np.ix_(present, some)].T @ weights.T
                low[some], high[some] = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=1)
        return low, high


def points_of(results: Sequence[Result]) -> Points:
    """The kind of points of a common figure: episodes if every run's budget is in episodes, returns at the ends of
    windows if all are of Gymnasium's environments, windows otherwise.
    """
    if all(result.configuration.training.episodes is not None for result in results):
        return "episodes"
    return "returns" if all(result.on_host for result in results) else "windows"


def curve(result: Result, *, points: Points = "windows", x: Axis = "steps") -> Curve:
    """The learning curve of a run. There are `episodes` on the x axis only where the points are episodes."""
    return curves_along(result, (x,), points=points)[x]


def curves_along(result: Result, axes: Sequence[Axis], *, points: Points = "windows") -> dict[Axis, Curve]:
    """The learning curve of a run against each of the axes; its values, which are the same along all, are shared."""
    rows = {"episodes": _episodes, "returns": _returns, "windows": _on_grid}[points](result)
    numbers = result.rounds["round"].sort().to_list()
    places = rows["place"].unique().sort().to_numpy()
    check_room(len(numbers) * len(places) * 8 * (1 + len(axes)), "the curves of these rounds")
    values = np.full((len(numbers), len(places)), np.nan)
    at = {axis: np.full_like(values, np.nan) for axis in axes}
    for index, number in enumerate(numbers):
        mine = rows.filter(pl.col("round") == number).sort("place")
        columns = np.searchsorted(places, mine["place"].to_numpy())
        values[index, columns] = mine["value"].to_numpy()
        for axis in axes:
            spent = mine["place"].to_numpy() if axis == "episodes" else _spent(result, number, mine["step"], axis)
            at[axis][index, columns] = spent
    return {axis: Curve(_mean_of_present(at[axis]), values) for axis in axes}


def windows_of(result: Result) -> pl.DataFrame:
    """The curves' rows whose reward is finite, each with the `length` of its window in steps."""
    rows = result.curves.sort("round", "step")
    before = pl.col("step").shift(1).over("round").fill_null(0)
    return rows.with_columns((pl.col("step") - before).alias("length")).filter(pl.col("reward").is_finite())


def training_seconds(result: Result) -> float:
    """The seconds spent in training, added up over chunks, be they on the same core or on several."""
    return float(result.timings.filter(pl.col("phase") == "train")["seconds"].sum())


def seconds_at(result: Result, number: int, steps: np.ndarray) -> np.ndarray:
    """A round's share of the wall clock after these numbers of steps."""
    beside = (pl.col("first_round") <= number) & (number < pl.col("first_round") + pl.col("rounds"))
    mine = result.timings.filter(beside & (pl.col("phase") == "train")).sort("step")
    spent = np.append(0.0, np.cumsum((mine["seconds"] / mine["rounds"]).to_numpy()))
    return np.interp(steps, np.append(0, mine["step"].to_numpy()), spent)


def _spent(result: Result, number: int, steps: pl.Series, x: Axis) -> np.ndarray:
    if x == "steps":
        return steps.to_numpy()
    if x == "seconds":
        return seconds_at(result, number, steps.to_numpy())
    mine = result.curves.filter(pl.col("round") == number).sort("step")
    return np.interp(steps.to_numpy(), np.append(0, mine["step"].to_numpy()), np.append(0, mine["queries"].to_numpy()))


def _on_grid(result: Result) -> pl.DataFrame:
    """The windows that every round has, or would have: a shorter one is among them only at the end of the budget."""
    window = result.configuration.training.window
    rounds = result.rounds
    ends = rounds.filter(pl.col("completed"))["steps"].unique()
    # Under a budget in episodes rounds end at steps of their own, and a shorter window is none that others have.
    common = ends.to_list() if len(ends) == 1 and result.configuration.training.episodes is None else []
    on_grid = (pl.col("step") % window == 0) | pl.col("step").is_in(common)
    return windows_of(result).filter(on_grid).select("round", "step", place="step", value="reward")


def _episodes(result: Result) -> pl.DataFrame:
    """Every episode, with its return averaged with those of the episodes before it."""
    trailing = pl.col("return").rolling_mean(SMOOTHING, min_samples=1).over("round")
    rows = result.episodes.sort("round", "episode").with_columns(trailing.alias("value"))
    return rows.select("round", "step", place=pl.col("episode") + 1, value="value")


def _returns(result: Result) -> pl.DataFrame:
    """Every window, with the return averaged over the episodes that had ended last."""
    windows, ended = _on_grid(result).drop("value").sort("step"), _episodes(result).drop("place").sort("step")
    return windows.join_asof(ended, on="step", by="round", check_sortedness=False).drop_nulls("value")


def _mean_of_present(values: np.ndarray) -> np.ndarray:
    present = np.isfinite(values)
    counts = present.sum(0)
    return np.where(present, values, 0.0).sum(0) / np.where(counts > 0, counts, np.nan)
