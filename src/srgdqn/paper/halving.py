"""Successive halving: which step sizes of an arm run next, and which are chosen, from what has run so far.

Candidates lie on a grid of η and α around the paper's own values, or on a line for an arm that uses only one of them.
All of them run few rounds; the best third run more, and the best third of those as many as decide. The paper's own
settings always enter the last stage. If the chosen candidate lies at an edge of the grid, the grid is widened on that
side and whatever is new runs, three times at most; an edge after that is marked. A candidate with more than a
twentieth of its rounds diverged is not chosen; if there is no other, the least diverged one is, and is marked.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

MOST_WIDENINGS = 3
MOST_DIVERGED = 1 / 20
"""The largest share of diverged rounds with which a candidate is chosen while there is another."""
FEWEST_KEPT = 3
"""Candidates that survive a stage at least."""

DIVERGED_MARK = "more than a twentieth of its rounds diverged"


class Candidate(NamedTuple):
    """Steps of the grid away from the paper's own η and α."""

    eta: int = 0
    alpha: int = 0


PAPERS_OWN = Candidate()

Axis = Literal["eta", "alpha"]
AXES: tuple[Axis, ...] = ("eta", "alpha")
Side = tuple[Axis, Literal["low", "high"]]


@dataclass(frozen=True)
class Grid:
    """The lowest and the highest step of each axis; (0, 0) for one that an arm does not use."""

    eta: tuple[int, int]
    alpha: tuple[int, int]

    def candidates(self) -> list[Candidate]:
        """All of them in the order by which ties are broken: those nearest to the paper's own settings first."""
        both = itertools.product(*(range(low, high + 1) for low, high in (self.eta, self.alpha)))
        return sorted(itertools.starmap(Candidate, both), key=_order)

    def edges(self, candidate: Candidate) -> list[Side]:
        """The sides of the grid on which the candidate lies; an axis with a single value has none."""
        sides: list[Side] = []
        for axis in AXES:
            low, high = getattr(self, axis)
            if low < high and getattr(candidate, axis) in (low, high):
                sides.append((axis, "low" if getattr(candidate, axis) == low else "high"))
        return sides

    def widened(self, sides: Sequence[Side], by: int = 1) -> Grid:
        """The grid with so many more values on each of the sides."""
        grid = self
        for axis, side in sides:
            low, high = getattr(grid, axis)
            grid = dataclasses.replace(grid, **{axis: (low - by, high) if side == "low" else (low, high + by)})
        return grid


def _order(candidate: Candidate) -> tuple[int, Candidate]:
    return abs(candidate.eta) + abs(candidate.alpha), candidate


class Trial(NamedTuple):
    """What a candidate came to in a stage: its mean score, and the share of its rounds that diverged."""

    score: float
    diverged: float

    @property
    def barred(self) -> bool:
        """Whether too many of its rounds diverged for it to be chosen."""
        return self.diverged > MOST_DIVERGED


Trials = Mapping[Candidate, Trial]


class Wanted(NamedTuple):
    """Candidates that have to run in a stage before anything can be said."""

    stage: int
    candidates: tuple[Candidate, ...]


class Choice(NamedTuple):
    """The chosen candidate, what it came to in the last stage, and how it was found."""

    candidate: Candidate
    trial: Trial
    grid: Grid
    widenings: int
    edges: tuple[Side, ...]
    """The sides of the grid on which it lies though the grid was widened as often as may be."""

    @property
    def marks(self) -> tuple[str, ...]:
        """What a reader must be warned of."""
        names = {"eta": "η", "alpha": "α"}
        at_edges = [f"{names[axis]} at the {side} edge of its grid" for axis, side in self.edges]
        return (*at_edges, *([DIVERGED_MARK] if self.trial.barred else []))


def ranked(trials: Trials) -> list[Candidate]:
    """Candidates from best to worst: by score, then those with too many diverged rounds, the least diverged first."""

    def place(candidate: Candidate) -> tuple[Any, ...]:
        trial = trials[candidate]
        return trial.barred, trial.diverged if trial.barred else 0.0, -trial.score, _order(candidate)

    return sorted(trials, key=place)


def kept(count: int) -> int:
    """How many of so many candidates survive a stage.

    >>> kept(25), kept(9), kept(5), kept(2)
    (9, 3, 3, 2)
    """
    return min(count, max(FEWEST_KEPT, -(-count // 3)))


def next_step(grid: Grid, stages: Sequence[Trials], by: int = 1) -> Wanted | Choice:
    """What has to run next, given what has run in each stage; the choice once nothing has to.

    A side of the grid is widened `by` so many values at a time. It starts over from the first grid each time, and so
    does not depend on how often it was interrupted.
    """
    for widenings in itertools.count():
        left = grid.candidates()
        for stage, trials in enumerate(stages):
            is_last = stage == len(stages) - 1
            entered = [*left, PAPERS_OWN] if is_last and PAPERS_OWN not in left else left
            if missing := [each for each in entered if each not in trials]:
                return Wanted(stage, tuple(missing))
            order = ranked({each: trials[each] for each in entered})
            left = order[: kept(len(order))]
        edges = grid.edges(order[0])
        if not edges or widenings == MOST_WIDENINGS:
            return Choice(order[0], stages[-1][order[0]], grid, widenings, tuple(edges))
        grid = grid.widened(edges, by)
    raise AssertionError
