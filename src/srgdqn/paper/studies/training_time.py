"""Training time: single-core seconds until a round reaches a threshold that pilot seeds have set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from srgdqn.config.algorithms import PAPER
from srgdqn.figures.charts import STYLES, Chart, Panel, Series
from srgdqn.paper.arm_columns import share_text
from srgdqn.paper.cells import MeasurementCell, StudyCell
from srgdqn.paper.experiment import Experiment, Outcomes, configured, diverged_rounds
from srgdqn.paper.measurements import step_times
from srgdqn.paper.pilot import Pilot, read_pilot
from srgdqn.paper.report.contents import Section, Table
from srgdqn.paper.scale import Scale
from srgdqn.paper.studies import figure_2
from srgdqn.paper.studies.figure_2 import TASKS, cell_name
from srgdqn.results.curves import SMOOTHING
from srgdqn.results.result import Result
from srgdqn.session.prepare import with_kernel

_WINDOWS = 5  # of 1,000 steps, over which a curve is smoothed


def times_cell(readings: str) -> str:
    """The name of the cell that measures the cost per step."""
    return f"step-times-{readings}"


def cells(scale: Scale, readings: str) -> Sequence[StudyCell]:
    """Figure 2's own cells, and one that times every algorithm."""
    return [*figure_2.cells(scale, readings), *times_cells(scale, readings, PAPER)]


def times_cells(scale: Scale, readings: str, algorithms: Sequence[str]) -> list[MeasurementCell]:
    """The cell that times algorithms in turn with nothing beside it."""
    configurations = {
        f"{task}-{algorithm}": with_kernel(configured(scale, task, algorithm, readings))
        for task in TASKS
        for algorithm in algorithms
    }
    plan = step_times.Plan(configurations, scale.timing_turns)
    return [MeasurementCell(times_cell(readings), step_times.measure, plan, alone=True)]


def seconds_to_threshold(
    outcomes: Outcomes, readings: str, task: str, algorithm: str, threshold: float
) -> tuple[np.ndarray, np.ndarray]:
    """Each round's single-core seconds until its smoothed curve reaches the threshold, and whether it ever does.

    A round that does not, or that diverges sooner or later, counts with the steps of the longest round of the paper's
    algorithms on that task at the dearest one's cost: neither diverging early nor being cheap is being fast. A second
    is a step's share of one core's time, measured in turn with the other algorithms', times the steps that were needed.
    """
    result: Result = outcomes[cell_name(task, readings, algorithm)]
    longest = max(outcomes[cell_name(task, readings, name)].rounds["steps"].to_numpy().max() for name in PAPER)
    never = longest * max(seconds_per_step(outcomes, readings, task, name) for name in PAPER)
    numbers = result.rounds.sort("round")["round"].to_list()
    if result.configuration.training.episodes is None:
        smooth = pl.col("reward").rolling_mean(_WINDOWS, min_samples=_WINDOWS).over("round")
        rows = result.curves.sort("round", "step").with_columns(smooth.alias("value"))
    else:
        smooth = pl.col("return").rolling_mean(SMOOTHING, min_samples=SMOOTHING).over("round")
        rows = result.episodes.sort("round", "episode").with_columns(smooth.alias("value"))
    survivors = result.rounds.filter(pl.col("diverged_at").is_null())["round"].to_list()
    there = rows.filter((pl.col("value") >= threshold) & pl.col("round").is_in(survivors))
    reached = dict(there.group_by("round").agg(pl.col("step").min()).iter_rows())
    cost = seconds_per_step(outcomes, readings, task, algorithm)
    spent = [reached[number] * cost if number in reached else never for number in numbers]
    return np.array(spent), np.array([number in reached for number in numbers])


def seconds_per_step(outcomes: Outcomes, readings: str, task: str, algorithm: str) -> float:
    """What an environment step of a round costs on one core: the median over turns, taken as exact."""
    times = outcomes[times_cell(readings)].tables["times"].filter(pl.col("name") == f"{task}-{algorithm}")
    return float(np.median(times["seconds_per_step"].to_numpy()))


def show(scale: Scale, readings: Sequence[str], outcomes: Outcomes) -> Section:
    """Seconds to the threshold, and what a step costs."""
    pilot = read_pilot()
    rows = []
    panels = []
    for task in TASKS:
        series = []
        for each in readings:
            for algorithm in PAPER:
                spent, reached = seconds_to_threshold(outcomes, each, task, algorithm, pilot.thresholds[task])
                series.append(_survival(spent, reached, algorithm, each))
                rows.append(_row(outcomes, each, task, algorithm, spent, reached, pilot))
        panels.append(
            Panel(
                task,
                "share of rounds there",
                {"seconds": "single-core seconds per round"},
                tuple(series),
            )
        )
    note = (
        "A round that does not reach the threshold, or that diverges sooner or later, counts with the longest round's "
        "steps at the dearest algorithm's cost. Diverged: rounds, and the share's 95 % interval."
    )
    return EXPERIMENT.section(
        found=_found(rows, readings[0]),
        charts=(
            Chart(
                "training-time",
                "Single-core seconds until a threshold",
                "Share of rounds whose smoothed curve has reached the threshold (halfway from the random policy to the "
                "best algorithm of the pilot); one that diverges never has. Compiling is excluded; all run in the "
                "same number of lanes.",
                tuple(panels),
            ),
        ),
        tables=(Table("training-time-seconds", "Seconds until the threshold", pl.DataFrame(rows), note),),
    )


def _row(
    outcomes: Outcomes, readings: str, task: str, algorithm: str, spent: np.ndarray, reached: np.ndarray, pilot: Pilot
) -> Mapping[str, str]:
    return {
        "task": task,
        "readings": readings,
        "algorithm": algorithm,
        "threshold": f"{pilot.thresholds[task]:.3f}",
        "µs per step": f"{1e6 * seconds_per_step(outcomes, readings, task, algorithm):.2f}",
        "reached": f"{int(reached.sum())} of {len(reached)}",
        "diverged": share_text(diverged_rounds(outcomes[cell_name(task, readings, algorithm)]), len(reached)),
        "geometric mean of seconds": f"{np.exp(np.log(spent).mean()):.3f}",
    }


def _survival(spent: np.ndarray, reached: np.ndarray, algorithm: str, readings: str) -> Series:
    order = np.sort(spent[reached])
    x = np.concatenate([[0.0], order, [spent.max()]])
    y = np.concatenate([[0.0], np.arange(1, len(order) + 1), [len(order)]]) / len(spent)
    return Series(algorithm, STYLES[algorithm], {"seconds": x}, y, group=readings)


def _found(rows: Sequence[Mapping[str, str]], readings: str) -> str:
    sentences = []
    for task in TASKS:
        mine = [row for row in rows if row["task"] == task and row["readings"] == readings]
        listed = ", ".join(f"{row['algorithm']} {row['reached']}" for row in mine)
        sentences.append(f"{task}: rounds that reach {mine[0]['threshold']}: {listed}.")
    return " ".join(sentences)


EXPERIMENT = Experiment(
    name="training-time",
    place=80,
    title="Training time",
    paper_says="SRG-DQN outperforms the baselines in terms of training time (introduction; no figure shows it).",
    cells=cells,
    show=show,
    budget_seconds=60,
)
