"""What an experiment is, and what experiments share: configurations, texts, seconds, diverged rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from srgdqn.config import Configuration
from srgdqn.config.configure import configure
from srgdqn.figures.charts import Series, Style
from srgdqn.paper.cells import StudyCell
from srgdqn.paper.report.contents import Section
from srgdqn.paper.scale import Scale
from srgdqn.results.result import Result
from srgdqn.results.statistics import Interval, bootstrap_interval

Outcomes = Mapping[str, Any]
"""Outcomes of cells by name: a `Result`, or the `Measured` of a measurement."""


@dataclass(frozen=True)
class Experiment:
    """A figure or table of the paper, or what a claim of it needs."""

    name: str
    """That of its file, with hyphens."""
    place: int
    """Where it stands in the report: experiments are in the order of these."""
    title: str
    paper_says: str
    cells: Callable[[Scale, str], Sequence[StudyCell]]
    """The cells for a scale and a set of readings."""
    show: Callable[[Scale, Sequence[str], Outcomes], Section]
    """The section of the report for a scale and the sets of readings that were run."""
    budget_seconds: float
    """Single-core seconds that its own cells may take at the paper's scale, compiling included."""
    in_all_readings: bool = False
    """Whether it is shown with every set of readings at the paper's scale, and not with the primary one alone."""

    def section(self, **content: Any) -> Section:
        """A section of the report under the experiment's own title."""
        about = {name: getattr(self, name) for name in ("name", "title", "paper_says", "budget_seconds")}
        return Section(**about, **content)


RANDOM, UNTRAINED = "random", "untrained"
"""Arms without learning, in the program of DQN with SGD: a policy that always explores, and the initial network under
the exploration of the other arms.
"""
YARDSTICKS = (RANDOM, UNTRAINED)


def configured(scale: Scale, task: str, arm: str, readings: str, **options: Any) -> Configuration:
    """The configuration of one arm (an algorithm, or one without learning) at a scale."""
    common: dict[str, Any] = {"readings": readings, "seed": scale.seed, **options}
    if arm == RANDOM:
        common |= dict(epsilon_start=1.0, epsilon_end=1.0, eta=0.0)
    if arm == UNTRAINED:
        common |= dict(eta=0.0, alpha=0.0)
    if scale.lanes is not None:
        common.setdefault("lanes", scale.lanes)
    return configure(task, "dqn-sgd" if arm in YARDSTICKS else arm, **common)


def measured_arm(scale: Scale, arm: str, readings: str, rounds: int, steps: int, **options: Any) -> Configuration:
    """The configuration of a run on MountainCar that is measured, and so not evaluated."""
    budget = {"rounds": rounds, "steps": steps, "evaluation_interval": None}
    return configured(scale, "MountainCar", arm, readings, **budget, **options)


LAST_SHARE = 0.2  # of a step budget
LAST_EPISODES = 100  # of an episode budget


def diverged_rounds(result: Result) -> int:
    """How many rounds went non-finite."""
    return int(result.rounds["diverged_at"].is_not_null().sum())


def interval_text(interval: Interval, digits: str = "+.3f") -> str:
    """An estimate and its bounds; words where there is no spread at all, as where every round diverged."""
    if not np.isfinite(interval.estimate):
        return "cannot be computed"
    return f"{interval.estimate:{digits}} [{interval.low:{digits}}, {interval.high:{digits}}]"


def diverged_text(result: Result) -> str:
    """How many rounds diverged, of how many."""
    return f"{diverged_rounds(result)} of {result.rounds.height}"


def mean_text(values: np.ndarray, digits: str = "+.3f") -> str:
    """The mean of one value per round with its interval; words where there are no rounds."""
    return interval_text(bootstrap_interval(values), digits) if len(values) else "no round left"


def mean_line(
    label: str, style: Style, rows: pl.DataFrame, x: str, y: pl.Expr, axis: str | None = None, **looks: Any
) -> Series:
    """A line through the means of an expression over all rows with the same x; its axis is called as x unless told."""
    means = rows.group_by(x).agg(y.mean().alias("mean")).sort(x)
    return Series(label, style, {axis or x: means[x].to_numpy()}, means["mean"].to_numpy(), **looks)


def seconds_of(outcomes: Outcomes, names: Iterable[str]) -> float:
    """Seconds on one core, compiling included, added up over cells."""
    total = 0.0
    for name in dict.fromkeys(names):
        outcome = outcomes[name]
        total += float(outcome.timings["seconds"].sum()) if isinstance(outcome, Result) else outcome.about["seconds"]
    return total


def rounds_used(outcomes: Outcomes, cells: Sequence[str], used: int) -> str:
    """How many of a measurement's rounds a mean is over, as text."""
    return f"{used} of {_rounds(outcomes, cells)}"


def diverged_note(outcomes: Outcomes, readings: Sequence[str], cells: Mapping[str, Sequence[str]]) -> str:
    """How many rounds of measured runs diverged, and so are left out; `cells` by set of readings."""
    sentences = []
    for each in readings:
        lost = {cell: int(outcomes[cell].tables["rounds"]["diverged"].sum()) for cell in cells[each]}
        rounds = _rounds(outcomes, cells[each])
        listed = ", ".join(f"{count} of {rounds} in {cell}" for cell, count in lost.items() if count)
        sentences.append(f"{each}: {listed}" if listed else f"{each}: none of {rounds}")
    return f"Rounds that diverged, and are left out ({'; '.join(sentences)})."


def _rounds(outcomes: Outcomes, cells: Sequence[str]) -> int:
    return max(int(outcomes[cell].tables["rounds"]["rounds"][0]) for cell in cells)
