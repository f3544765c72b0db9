"""Figure 3, left: how long MountainCar's episodes are, over 150 episodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from srgdqn.config.algorithms import PAPER
from srgdqn.figures.charts import STYLES, Chart, Panel, Series
from srgdqn.paper.cells import RunCell, StudyCell
from srgdqn.paper.experiment import (
    RANDOM,
    Experiment,
    Outcomes,
    configured,
    diverged_text,
    mean_lengths,
    mean_text,
)
from srgdqn.paper.report.contents import Section, Table
from srgdqn.paper.scale import Scale
from srgdqn.results.result import Result

# Claim C5 needs the control without variance reduction as well; the paper's figure does not have it.
TASK = "MountainCar"
ALGORITHMS = (*PAPER, "sgd-inner-adam")
_RANDOM_ROUNDS = 25  # of which only a mean is needed


def cell_name(readings: str, algorithm: str) -> str:
    """The name of the cell of an algorithm."""
    return f"episodes-{algorithm}-{readings}"


def cells(scale: Scale, readings: str) -> Sequence[StudyCell]:
    """A cell per algorithm, and one for the random policy."""
    listed = []
    for algorithm in (*(PAPER if scale.name in ("paper", "quick") else ALGORITHMS), RANDOM):
        configuration = configured(
            scale,
            TASK,
            algorithm,
            readings,
            rounds=min(scale.episode_rounds, _RANDOM_ROUNDS) if algorithm == RANDOM else scale.episode_rounds,
            episodes=scale.episodes,
            evaluation_interval=None,
        )
        listed.append(RunCell(cell_name(readings, algorithm), configuration))
    return listed


def lengths(outcomes: Outcomes, readings: str, algorithm: str) -> np.ndarray:
    """Each round's mean capped length; a round that diverged has the random policy's."""
    chance = float(np.nanmean(mean_lengths(outcomes[cell_name(readings, RANDOM)], np.nan)))
    return mean_lengths(outcomes[cell_name(readings, algorithm)], chance)


def show(scale: Scale, readings: Sequence[str], outcomes: Outcomes) -> Section:
    """Length by episode, and how many episodes were cut."""
    series, rows = [], []
    for each in readings:
        for algorithm in (name for name in (*ALGORITHMS, RANDOM) if cell_name(each, name) in outcomes):
            result: Result = outcomes[cell_name(each, algorithm)]
            by_episode = (
                result.episodes.group_by("episode")
                .agg(mean=pl.col("length").mean(), sd=pl.col("length").std())
                .sort("episode")
            )
            mean, sd = by_episode["mean"].to_numpy(), by_episode["sd"].fill_null(0.0).to_numpy()
            series.append(
                Series(
                    algorithm,
                    STYLES[algorithm],
                    {"episodes": by_episode["episode"].to_numpy() + 1},
                    mean,
                    mean - sd,
                    mean + sd,
                    group=each,
                    shown=algorithm != RANDOM,
                )
            )
            values = lengths(outcomes, each, algorithm)
            cut = result.rounds["censored"].to_numpy().sum() / result.rounds["episodes"].to_numpy().sum()
            rows.append(
                {
                    "readings": each,
                    "algorithm": algorithm,
                    "mean length [95 %]": mean_text(values, ".0f"),
                    "sd over rounds": f"{values.std(ddof=1):.0f}",
                    "cut at 2,000": f"{cut:.1%}",
                    "diverged": diverged_text(result),
                }
            )
    panel = Panel(TASK, "steps per episode (cut at 2,000)", {"episodes": "episodes"}, tuple(series))
    own = [row for row in rows if row["readings"] == readings[0]]
    diverged = ", ".join(f"{row['diverged']} rounds of {row['algorithm']}" for row in own)
    return EXPERIMENT.section(
        found=f"Mean capped length over {scale.episodes} episodes, readings {readings[0]}: "
        + "; ".join(f"{row['algorithm']} {row['mean length [95 %]']} ({row['cut at 2,000']} cut)" for row in own)
        + ".",
        charts=(
            Chart(
                "figure-3-left",
                "Episode length over episodes",
                f"Mean over {scale.episode_rounds} rounds and one standard deviation. There is no time limit, but an "
                f"episode is cut at 2,000 steps and counted as censored. Diverged: {diverged}.",
                (panel,),
                columns=1,
            ),
        ),
        tables=(Table("figure-3-left-lengths", "Episode length, capped", pl.DataFrame(rows)),),
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
    budget_seconds=330,
)
