"""Figure 3, left: how long MountainCar's episodes are, over 150 episodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from srgdqn.config.algorithms import PAPER
from srgdqn.figures.charts import STYLES, Chart, Panel, Series
from srgdqn.figures.learning_panels import Band, ScoredRounds, scored_series
from srgdqn.paper.arm_columns import ARM_NAMES, WORST, share_text, spread_text
from srgdqn.paper.cells import RunCell, StudyCell
from srgdqn.paper.experiment import (
    YARDSTICKS,
    Experiment,
    Outcomes,
    configured,
    diverged_rounds,
    diverged_text,
    mean_text,
)
from srgdqn.paper.report.contents import Section, Table
from srgdqn.paper.scale import Scale
from srgdqn.paper.scores import Scores, diverged_mask, filled_windows, matrix_of, scored, values_of
from srgdqn.results.result import Result

TASK = "MountainCar"


def cell_name(readings: str, algorithm: str) -> str:
    """The name of the cell of an algorithm."""
    return f"episodes-{algorithm}-{readings}"


def cells(scale: Scale, readings: str) -> Sequence[StudyCell]:
    """A cell per algorithm and per yardstick."""
    budget = {"rounds": scale.episode_rounds, "episodes": scale.episodes, "evaluation_interval": None}
    return [
        RunCell(cell_name(readings, arm), configured(scale, TASK, arm, readings, **budget))
        for arm in (*PAPER, *YARDSTICKS)
    ]


def runs_of(outcomes: Outcomes, readings: str) -> dict[str, Result]:
    """Every run with a set of readings, by algorithm or yardstick."""
    names = {name: cell_name(readings, name) for name in (*PAPER, *YARDSTICKS)}
    return {name: outcomes[cell] for name, cell in names.items() if cell in outcomes}


def length_scores(runs: dict[str, Result]) -> dict[str, Scores]:
    """Each round's mean capped length; a diverged one has the longest."""
    return scored({name: values_of(run, "length") for name, run in runs.items()}, max)


def _series(runs: dict[str, Result], readings: str) -> list[Series]:
    episodes = np.arange(max(int(run.configuration.training.episodes or 0) for run in runs.values()))
    values = {
        name: matrix_of(run.episodes, "episode", "length", run.rounds["round"], episodes) for name, run in runs.items()
    }
    diverged = {name: diverged_mask(run) for name, run in runs.items()}
    filled = filled_windows(values, diverged, max)
    series = []
    for name in runs:
        rounds = ScoredRounds(values[name], diverged[name], filled[name])
        band: Band = "none" if name in YARDSTICKS else "sd"
        series += scored_series(
            name, STYLES[name], {"episodes": episodes + 1}, rounds, band=band, group=readings, clipped=True
        )
    return series


def _left_text(runs: dict[str, Result]) -> str:
    lost = [f"{name} {diverged_text(run)}" for name, run in runs.items() if diverged_rounds(run)]
    return f"Rounds that diverged: {', '.join(lost)}; none of the others." if lost else "No round diverged."


def show(scale: Scale, readings: Sequence[str], outcomes: Outcomes) -> Section:
    """Length by episode, and how many episodes were cut."""
    series, rows = [], []
    for each in readings:
        runs = runs_of(outcomes, each)
        series += _series(runs, each)
        for name, scores in length_scores(runs).items():
            counts = runs[name].rounds
            cut = counts["censored"].to_numpy().sum() / max(1, counts["episodes"].to_numpy().sum())
            rows.append(
                {
                    "readings": each,
                    "algorithm": name,
                    "mean length [95 %]": mean_text(scores.values, ".0f"),
                    "sd of finished rounds": spread_text(scores, ".0f"),
                    "cut at 2,000": f"{100 * cut:.0f} %",
                    "diverged": share_text(int(scores.diverged.sum()), len(scores.diverged)),
                }
            )
    panel = Panel(
        TASK,
        "steps per episode (cut at 2,000)",
        {"episodes": "episodes"},
        tuple(series),
        log_y=True,
    )
    own = [row for row in rows if row["readings"] == readings[0]]
    return EXPERIMENT.section(
        found=f"Mean length of {scale.episodes} episodes, cut at 2,000 steps (readings {readings[0]}): "
        + "; ".join(
            f"{ARM_NAMES.get(name, name)} {row['mean length [95 %]']}, {row['cut at 2,000']} cut"
            for row in own
            for name in [row["algorithm"]]
        )
        + ".",
        charts=(
            Chart(
                "figure-3-left",
                "Episode length over episodes",
                f"Mean over all {scale.episode_rounds} rounds and one standard deviation, but no further than the "
                "shortest and the longest episode. There is no time limit, but an episode is cut at 2,000 steps and "
                "counted as censored. A round that has diverged counts, in every episode from then on, with the "
                "longest there of any round that finished, or the random policy's mean where that is longer; a line is "
                "dashed, and has no band, from where fewer than four fifths are left. Grey: the random policy, "
                f"and the untrained agent. {_left_text(runs_of(outcomes, readings[0]))}",
                (panel,),
                columns=1,
            ),
        ),
        tables=(
            Table(
                "figure-3-left-lengths",
                "Episode length, capped",
                pl.DataFrame(rows),
                f"Mean length of a round's episodes. {WORST} Worst is longest. Diverged: rounds, and the share's 95 % "
                "interval.",
            ),
        ),
    )


EXPERIMENT = Experiment(
    name="figure-3-left",
    place=40,
    title="Figure 3, left: episode length",
    paper_says=(
        "SRG-DQN significantly improves the convergence rate and the stability over DQN with SGD, and further shortens "
        "the average episode and its standard deviation compared with SVR-DQN; the Adam process and variance reduction "
        "complement each other. 150 episodes, 100 rounds."
    ),
    cells=cells,
    show=show,
    budget_seconds=40,
)
