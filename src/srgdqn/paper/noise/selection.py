"""Which candidates of an arm run next, and which is chosen: screening, pilots, and a grid of α that is widened."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from srgdqn.paper.noise.arms import Arm, Candidate
from srgdqn.paper.noise.rules import FINALISTS, OUTCOMES, REGIMES, Outcome

Trials = Mapping[Candidate, float]
"""What candidates came to in a stage."""


class Wanted(NamedTuple):
    """Candidates that have to run in a stage before anything can be said."""

    stage: str
    candidates: tuple[Candidate, ...]


class Choice(NamedTuple):
    """The chosen candidate, and the sides of the grid of α at which it lies though no widening is left."""

    candidate: Candidate
    edges: tuple[str, ...]
    widenings: int


def next_step(grid: Sequence[Candidate], screening: Trials, pilots: Trials, most_widenings: int) -> Wanted | Choice:
    """What has to run next, given what has run; the choice once nothing has to.

    All of the grid is screened. While the best lies at an edge of α, and the grid was not widened `most_widenings`
    times, there is one more α beyond it. The best two run as pilots, which decide. It starts over from the first grid
    each time, and so does not depend on how often it was interrupted.
    """
    grid = list(grid)
    for widenings in itertools.count():
        if missing := [each for each in grid if each not in screening]:
            return Wanted("screening", tuple(missing))
        order = ranked({each: screening[each] for each in grid})
        sides = edges(grid, order[0])
        if not sides or widenings >= most_widenings:
            break
        grid += [candidate for side in sides for candidate in _beyond(grid, side)]
    finalists = order[:FINALISTS]
    if missing := [each for each in finalists if each not in pilots]:
        return Wanted("pilots", tuple(missing))
    best = ranked({each: pilots[each] for each in finalists})[0]
    return Choice(best, edges(grid, best), widenings)


def ranked(trials: Trials) -> list[Candidate]:
    """From best to worst; of equals the one nearest to the centre of the grid first."""
    return sorted(trials, key=lambda each: (-trials[each], abs(each.alpha_step), each))


def edges(grid: Sequence[Candidate], candidate: Candidate) -> tuple[str, ...]:
    """The sides of the grid of α at which a candidate lies; a grid with a single α has none."""
    steps = [each.alpha_step for each in grid]
    if min(steps) == max(steps):
        return ()
    sides = {"low": min(steps), "high": max(steps)}
    return tuple(side for side, step in sides.items() if candidate.alpha_step == step)


def _beyond(grid: Sequence[Candidate], side: str) -> list[Candidate]:
    """One more α of every variant."""
    steps = [each.alpha_step for each in grid]
    step = min(steps) - 1 if side == "low" else max(steps) + 1
    return [Candidate(variant, step) for variant in sorted({each.variant for each in grid})]


# What rounds score


def scored(rounds: pl.DataFrame) -> pl.DataFrame:
    """The rounds, of which those that diverged score the lowest return that an episode of their task can have: what one
    scores depends on no other, nor on what has run so far.
    """
    lowest = pl.col("task").replace_strict({task: float(regime.lowest) for task, regime in REGIMES.items()})
    return rounds.with_columns(
        pl.when(pl.col("diverged")).then(lowest).otherwise(pl.col(name)).alias(name) for name in OUTCOMES
    )


def stage_rows(rounds: pl.DataFrame, stage: str) -> pl.DataFrame:
    """The scored rounds of a stage."""
    return scored(rounds.filter(pl.col("stage") == stage))


def trials_of(rounds: pl.DataFrame, arm: Arm, outcomes: Sequence[Outcome] = OUTCOMES) -> dict[Candidate, float]:
    """What an arm's candidates came to in a stage whose rounds are scored: the mean of both outcomes, which are both
    returns, or of those given.
    """
    mine = of_arm(rounds, arm).with_columns(pl.mean_horizontal(outcomes).alias("score"))
    means = mine.group_by("variant", "alpha_step").agg(pl.col("score").mean()).sort("variant", "alpha_step")
    return {Candidate(int(variant), int(step)): float(score) for variant, step, score in means.iter_rows()}


def of_arm(rounds: pl.DataFrame, arm: Arm) -> pl.DataFrame:
    """The rows of an arm."""
    return rounds.filter(
        pl.col("task") == arm.task,
        pl.col("part") == arm.part,
        pl.col("arm") == arm.name,
        pl.col("batch") == arm.batch,
    )


def values_of(rounds: pl.DataFrame, arm: Arm, outcome: str) -> np.ndarray:
    """One value per round of an arm that has a single candidate in these rows, in the order of seeds and rounds."""
    return of_arm(rounds, arm).sort("seed", "round")[outcome].to_numpy()
