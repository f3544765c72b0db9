"""Training time: single-core seconds until a round reaches a threshold that pilot seeds have set."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from importlib import resources

import numpy as np
import polars as pl

from srgdqn.config.algorithms import PAPER
from srgdqn.figures.charts import STYLES, Chart, Panel, Series
from srgdqn.paper.arm_columns import share_text
from srgdqn.paper.cells import MeasurementCell, StudyCell
from srgdqn.paper.claims.cases import Reaching
from srgdqn.paper.experiment import YARDSTICKS, Experiment, Outcomes, configured
from srgdqn.paper.measurements import step_times
from srgdqn.paper.report.contents import Section, Table
from srgdqn.paper.scale import Scale
from srgdqn.paper.studies import figure_2
from srgdqn.paper.studies.figure_2 import TASKS, cell_name
from srgdqn.results.result import Result
from srgdqn.session.prepare import with_kernel


def times_cell(readings: str) -> str:
    """The name of the cell that measures the cost per step."""
    return f"step-times-{readings}"


def cells(scale: Scale, readings: str) -> Sequence[StudyCell]:
    """Figure 2's own cells, and one that times every algorithm."""
    return [*figure_2.cells(scale, readings), *times_cells(scale, readings, timed(scale))]


def timed(scale: Scale) -> tuple[str, ...]:
    """The algorithms that are timed: the paper's and all controls."""
    return tuple(dict.fromkeys((*PAPER, *itertools.chain.from_iterable(scale.controls.values()))))


def times_cells(scale: Scale, readings: str, algorithms: Sequence[str]) -> list[MeasurementCell]:
    """The cell that times algorithms in turn with nothing beside it."""
    configurations = {
        f"{task}-{algorithm}": with_kernel(configured(scale, task, algorithm, readings))
        for task in TASKS
        for algorithm in algorithms
    }
    plan = step_times.Plan(configurations, scale.timing_turns)
    return [MeasurementCell(times_cell(readings), step_times.measure, plan, alone=True)]


def seconds_per_step(outcomes: Outcomes, readings: str, task: str, algorithm: str) -> float:
    """What an environment step of a round costs on one core: the median over turns, taken as exact."""
    times = outcomes[times_cell(readings)].tables["times"].filter(pl.col("name") == f"{task}-{algorithm}")
    return float(np.median(times["seconds_per_step"].to_numpy()))


def read_thresholds() -> dict[str, dict[str, float]]:
    """By set of readings and task: halfway from the untrained agent to the best of the paper's four on pilot seeds."""
    text = resources.files("srgdqn.paper.evidence").joinpath("thresholds.json").read_text(encoding="utf-8")
    thresholds: dict[str, dict[str, float]] = json.loads(text)["thresholds"]
    return thresholds


def reaching_of(runs: Mapping[str, Result], costs: Mapping[str, float], threshold: float) -> dict[str, Reaching]:
    """How long every arm took to a threshold; a round that is never there, or that diverged, counts with the longest
    round's steps at the dearest cost.
    """
    never = max(int(run.rounds["steps"].max()) for run in runs.values()) * max(costs.values())  # type: ignore[arg-type]
    return {arm: _reaching(run, costs[arm], threshold, never) for arm, run in runs.items()}


def _reaching(run: Result, cost: float, threshold: float, never: float) -> Reaching:
    rounds = run.rounds.sort("round")
    diverged = rounds["diverged_at"].is_not_null().to_numpy()
    by_episode = run.configuration.training.episodes is not None
    table, column, order = (run.episodes, "return", "episode") if by_episode else (run.curves, "reward", "step")
    numbers = rounds.filter(pl.col("diverged_at").is_null())["round"].to_list()
    rows = table.filter(pl.col("round").is_in(numbers)).sort("round", order)
    seconds, reached = np.full(len(diverged), never), np.zeros(len(diverged), bool)
    if numbers:
        values, ends = (rows[name].to_numpy().reshape(len(numbers), -1) for name in (column, "step"))
        steps = first_steps(values, ends, threshold)
        reached[~diverged] = np.isfinite(steps)
        seconds[~diverged] = np.where(np.isfinite(steps), steps * cost, never)
    return Reaching(seconds, reached, diverged)


def first_steps(values: np.ndarray, ends: np.ndarray, threshold: float) -> np.ndarray:
    """By round: the end of the first window from which on the mean of it and all later ones is at or above a threshold;
    infinite where there is none.

    >>> first_steps(np.array([[0.0, 4.0, 2.0], [9.0, 1.0, 1.0]]), np.array([[10, 20, 30]] * 2), 3.0)
    array([20., 10.])
    """
    counts = np.arange(values.shape[1], 0, -1)
    later = np.cumsum(values[:, ::-1], 1)[:, ::-1] / counts
    there = later >= threshold
    steps = ends[np.arange(len(ends)), there.argmax(1)].astype(float)
    return np.where(there.any(1), steps, np.inf)


def show(scale: Scale, readings: Sequence[str], outcomes: Outcomes) -> Section:
    """Seconds to the threshold, and what a step costs."""
    thresholds = read_thresholds()
    rows, panels = [], []
    for task in TASKS:
        series = []
        for each in readings:
            costs = {name: seconds_per_step(outcomes, each, task, name) for name in PAPER}
            runs = {name: outcomes[cell_name(task, each, name)] for name in PAPER}
            # What does not learn acts in the program of DQN with SGD.
            still = {name: outcomes[cell_name(task, each, name)] for name in YARDSTICKS}
            standing = reaching_of(still, dict.fromkeys(still, costs["dqn-sgd"]), thresholds[each][task])
            series += [_shares_there(found, name, each) for name, found in standing.items()]
            for name, found in reaching_of(runs, costs, thresholds[each][task]).items():
                series.append(_shares_there(found, name, each))
                rows.append(
                    {
                        "task": task,
                        "readings": each,
                        "algorithm": name,
                        "threshold": f"{thresholds[each][task]:.3f}",
                        "µs per step": f"{1e6 * costs[name]:.2f}",
                        "reached": f"{int(found.reached.sum())} of {len(found.reached)}",
                        "diverged": share_text(int(found.diverged.sum()), len(found.diverged)),
                        "mean milliseconds": f"{1e3 * found.seconds.mean():.2f}",
                    }
                )
        x = {"milliseconds": "single-core milliseconds per round"}
        panels.append(Panel(task, "share of rounds there", x, tuple(series)))
    note = (
        "Threshold: halfway from the untrained agent to the best of these algorithms on pilot seeds. A round is there "
        "at the end of the first window, or episode, from which on the mean of it and all later ones is at or above "
        "the threshold. One that never is, or that diverges, counts with the longest round's steps at the dearest "
        "algorithm's cost. Diverged: rounds, and the share's 95 % interval."
    )
    return EXPERIMENT.section(
        found=_found(rows, readings[0]),
        charts=(
            Chart(
                "training-time",
                "Single-core time until a threshold",
                "Share of rounds that are at the threshold for good; one that diverges never is. Compiling is "
                "excluded; all run in the same number of lanes. Grey: the random policy and the untrained agent, a "
                "step of which is taken to cost what one of DQN with SGD does.",
                tuple(panels),
            ),
        ),
        tables=(Table("training-time-seconds", "Time until the threshold", pl.DataFrame(rows), note),),
    )


def _shares_there(found: Reaching, algorithm: str, readings: str) -> Series:
    order = np.sort(found.seconds[found.reached])
    x = np.concatenate([[0.0], order, [found.seconds.max()]])
    y = np.concatenate([[0.0], np.arange(1, len(order) + 1), [len(order)]]) / len(found.seconds)
    return Series(algorithm, STYLES[algorithm], {"milliseconds": 1e3 * x}, y, group=readings)


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
    budget_seconds=20,
)
