"""What rounds score, and what a round scores that diverged.

Divergence is never a gain: a round that diverged before a score's last step gets the worst score of any round that
finished, among the arms that define it, or the random policy's mean where that is worse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from srgdqn.config.algorithms import PAPER
from srgdqn.paper.experiment import LAST_EPISODES, LAST_SHARE, RANDOM
from srgdqn.results.result import Result

REFERENCE = (*PAPER, "sgd-inner", "sgd-inner-adam")
"""The arms whose worst finished round is what a diverged one scores."""

Score = Literal["final", "first half", "length"]
"""Mean reward per action of the last fifth of the steps (under an episode budget, mean return of the last hundred
episodes), the same of the first half of the steps, and mean length of episodes.
"""


class Scores(NamedTuple):
    """One score per round of an arm; diverged rounds have the score that the rules give them."""

    values: np.ndarray
    diverged: np.ndarray

    @property
    def share(self) -> float:
        """The share of rounds that diverged."""
        return float(self.diverged.mean())


class Values(NamedTuple):
    """The values behind a score: of each window or episode, NaN in rounds that diverged before the last of them."""

    windows: np.ndarray
    """(rounds, windows)."""
    diverged: np.ndarray

    @property
    def means(self) -> np.ndarray:
        """One value per round."""
        return np.where(self.diverged, np.nan, self.windows.mean(1)) if self.windows.size else self.diverged * np.nan


def values_of(result: Result, score: Score) -> Values:
    """The values of a run's rounds behind a score."""
    training = result.configuration.training
    rounds = result.rounds.sort("round")
    diverged_at = rounds["diverged_at"]
    if score == "length":
        return _values(result.episodes, "episode", "length", rounds, diverged_at.is_not_null())
    if training.episodes is not None:
        last = result.episodes.filter(pl.col("episode") >= training.episodes - LAST_EPISODES)
        return _values(last, "episode", "return", rounds, diverged_at.is_not_null())
    # The budget, as of an arm of which every round diverged none got so far.
    steps = int(rounds["steps"].max()) if training.steps is None else training.steps  # type: ignore[arg-type]
    if score == "final":
        rows = result.curves.filter(pl.col("step") > (1 - LAST_SHARE) * steps)
        return _values(rows, "step", "reward", rounds, diverged_at.is_not_null())
    rows = result.curves.filter(pl.col("step") <= steps / 2)
    return _values(rows, "step", "reward", rounds, (diverged_at <= steps / 2).fill_null(value=False))


def _values(rows: pl.DataFrame, by: str, column: str, rounds: pl.DataFrame, diverged: pl.Series) -> Values:
    lost = diverged.to_numpy()
    finished = rounds.filter(~diverged)["round"]
    kept = rows.filter(pl.col("round").is_in(finished.to_list())).sort("round", by)
    width = kept.height // max(len(finished), 1)
    windows = np.full((rounds.height, width), np.nan)
    windows[~lost] = kept[column].to_numpy().reshape(len(finished), width)
    return Values(windows, lost)


def scored(
    arms: Mapping[str, Values], worst: Callable[..., float] = min, among: Sequence[str] = REFERENCE
) -> dict[str, Scores]:
    """The score of every round of all arms; `worst` is `max` where less is better.

    What a diverged round scores is computed here once, from the arms of `among` that there are and the random
    policy. The yardsticks do not learn, and so do not diverge.
    """
    means = {name: arm.means for name, arm in arms.items()}
    floor = floor_of(means, worst, among)
    return {name: Scores(np.where(arm.diverged, floor, means[name]), arm.diverged) for name, arm in arms.items()}


def floor_of(
    means: Mapping[str, np.ndarray], worst: Callable[..., float] = min, among: Sequence[str] = REFERENCE
) -> float:
    """What a diverged round scores, given one value per round of each arm, NaN where it diverged.

    `among` are the arms whose worst finished round it is.
    """
    chance = float(np.mean(means[RANDOM]))
    finished = [float(worst(mine)) for name in among if name in means for mine in [_known(means[name])] if len(mine)]
    return float(worst([*finished, chance]))


def filled_windows(
    windows: Mapping[str, np.ndarray],
    diverged: Mapping[str, np.ndarray],
    worst: Callable[..., float] = min,
    among: Sequence[str] = REFERENCE,
) -> dict[str, np.ndarray]:
    """What every round of all arms has in each window, for figures: a round that has diverged by then has the worst
    value there of any round that finished, among the arms of `among` that there are, or the random policy's mean there
    where that is worse.

    It is the counterpart of `floor_of` in every single window, so that a curve lies at or below what the table scores:
    the worst in each window need not be one and the same round.

    Args:
      windows: by arm, (rounds, windows); NaN where a round has no such window. The windows are the same of all arms.
      diverged: by arm, which rounds ever diverged.
      worst: `max` where less is better.
      among: the arms whose rounds count.

    """
    edge = {min: np.fmin, max: np.fmax}[worst]  # type: ignore[index]
    rows = [windows[name][~diverged[name]] for name in among if name in windows]
    floor = edge.reduce(np.concatenate([*rows, _means(windows[RANDOM])[None]]), axis=0)
    return {name: np.where(diverged[name][:, None] & np.isnan(mine), floor, mine) for name, mine in windows.items()}


def _means(windows: np.ndarray) -> np.ndarray:
    """The mean of each window over the rounds that have it; NaN where none has."""
    present = np.isfinite(windows)
    return np.asarray(np.where(present, windows, 0.0).sum(0) / np.where(present.any(0), present.sum(0), np.nan))


def diverged_mask(result: Result) -> np.ndarray:
    """Which rounds of a run diverged."""
    return result.rounds.sort("round")["diverged_at"].is_not_null().to_numpy()


def matrix_of(rows: pl.DataFrame, at: str, column: str, rounds: pl.Series, grid: np.ndarray) -> np.ndarray:
    """(rounds, grid): the mean of a column over the rows of each round at each point of a grid; NaN where there is
    none.
    """
    numbers = np.sort(rounds.to_numpy())
    means = (
        rows.with_columns(pl.col(column).cast(pl.Float64))
        .filter(pl.col(at).is_in(grid.tolist()))
        .group_by("round", at)
        .agg(pl.col(column).mean())
    )
    found = np.full((len(numbers), len(grid)), np.nan)
    places = np.searchsorted(numbers, means["round"].to_numpy()), np.searchsorted(grid, means[at].to_numpy())
    found[places] = means[column].to_numpy()
    return found


def _known(values: np.ndarray) -> np.ndarray:
    return values[~np.isnan(values)]
