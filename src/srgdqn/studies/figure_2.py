"""Figure 2: learning curves of the paper's algorithms (and of the controls) on its three tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from srgdqn.algorithms import ALGORITHMS, PAPER
from srgdqn.configure import configure
from srgdqn.figures import curve_panel
from srgdqn.presets import FIGURE_2_ROUNDS
from srgdqn.result import Result
from srgdqn.statistics import Interval, log_sd_ratio_interval, paired_bootstrap_difference
from srgdqn.studies.cells import Cell
from srgdqn.studies.scores import final_scores

CONTROLS = tuple(name for name in ALGORITHMS if name not in PAPER)
CHAMPION = "srg-dqn"


class Contrast(NamedTuple):
    """SRG-DQN against another algorithm on one task, over the same rounds."""

    task: str
    readings: str
    against: str
    score: float  # of SRG-DQN
    other_score: float
    difference: Interval  # of the scores, above 0 where SRG-DQN is ahead
    log_sd_ratio: Interval  # of the scores' spread over rounds, below 0 where SRG-DQN's is smaller
    diverged: int  # rounds of the other algorithm
    champion_diverged: int


def cells(readings: str, algorithms: Sequence[str] = PAPER, *, seed: int = 0) -> list[Cell]:
    """A cell per task and algorithm at the paper's own scale, and one per task for the random policy."""
    listed = []
    for task, rounds in FIGURE_2_ROUNDS.items():
        for algorithm in algorithms:
            configuration = configure(task, algorithm, readings=readings, rounds=rounds, seed=seed)
            listed.append(Cell(_name(task, readings, algorithm), configuration))
        # A policy that always explores, and never learns: the same program as DQN with SGD.
        idle = configure(
            task, "dqn-sgd", readings=readings, epsilon_start=1.0, epsilon_end=1.0, eta=0.0, rounds=rounds, seed=seed
        )
        listed.append(Cell(_name(task, readings, "random"), idle))
    return listed


def draw(results: Mapping[str, Result], readings: str, algorithms: Sequence[str] = PAPER) -> Figure:
    """The three panels: mean over rounds and one standard deviation, DQN with SGD without its band."""
    figure = Figure(figsize=(13.5, 4.2), layout="constrained")
    panels = figure.subplots(1, len(FIGURE_2_ROUNDS))
    for axes, task in zip(panels, FIGURE_2_ROUNDS, strict=True):
        shown = [results[_name(task, readings, algorithm)] for algorithm in algorithms]
        curve_panel(axes, shown, band="sd", without_band=("dqn-sgd",), labels=algorithms)
    return figure


def contrasts(results: Mapping[str, Result], readings: str, algorithms: Sequence[str] = PAPER) -> list[Contrast]:
    """SRG-DQN against every other algorithm, paired by round, with 95 % bootstrap intervals."""
    found = []
    for task in FIGURE_2_ROUNDS:
        chance = float(np.nanmean(final_scores(results[_name(task, readings, "random")], np.nan)))
        champion = results[_name(task, readings, CHAMPION)]
        scores = final_scores(champion, chance)
        for algorithm in algorithms:
            if algorithm == CHAMPION:
                continue
            other = results[_name(task, readings, algorithm)]
            theirs = final_scores(other, chance)
            found.append(
                Contrast(
                    task,
                    readings,
                    algorithm,
                    float(scores.mean()),
                    float(theirs.mean()),
                    paired_bootstrap_difference(scores, theirs),
                    log_sd_ratio_interval(scores, theirs),
                    _diverged(other),
                    _diverged(champion),
                )
            )
    return found


COLUMNS = (
    "algorithm",
    "SRG-DQN's score",
    "its score",
    "difference [95 %]",
    "log sd ratio [95 %]",
    "diverged (SRG-DQN, it)",
)


def texts(contrast: Contrast) -> tuple[str, ...]:
    """A contrast as a reader wants it: task, readings, then the values of `COLUMNS`."""
    return (
        contrast.task,
        contrast.readings,
        contrast.against,
        f"{contrast.score:.3f}",
        f"{contrast.other_score:.3f}",
        interval_text(contrast.difference),
        interval_text(contrast.log_sd_ratio),
        f"{contrast.champion_diverged}, {contrast.diverged}",
    )


def as_markdown(contrasts: Sequence[Contrast]) -> str:
    """The contrasts as a Markdown table."""
    heads = ("task", "readings", *COLUMNS)
    rows = [heads, ("---",) * len(heads), *map(texts, contrasts)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def as_table(contrasts: Sequence[Contrast]) -> pl.DataFrame:
    """The contrasts as a data frame, one column per number."""
    rows = []
    for contrast in contrasts:
        row = contrast._asdict()
        for name in ("difference", "log_sd_ratio"):
            row |= {f"{name}_{part}": value for part, value in row.pop(name)._asdict().items()}
        rows.append(row)
    return pl.DataFrame(rows)


def diverged_rounds(results: Mapping[str, Result]) -> pl.DataFrame:
    """Every round that went non-finite, and the environment step at which it did."""
    frames = [
        result.rounds.filter(pl.col("diverged_at").is_not_null()).select(
            pl.lit(name).alias("cell"), "round", pl.col("diverged_at").alias("step")
        )
        for name, result in results.items()
    ]
    return pl.concat(frames)


def interval_text(interval: Interval) -> str:
    """An interval as a reader wants it."""
    if not np.isfinite(interval.estimate):
        return "–"  # no spread at all in one of the two, as where every round diverged
    return f"{interval.estimate:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]"


def _diverged(result: Result) -> int:
    return int(result.rounds["diverged_at"].is_not_null().sum())


def _name(task: str, readings: str, algorithm: str) -> str:
    return f"{task}-{algorithm}-{readings}"
