"""Figure 2: learning curves of the paper's four algorithms on its three tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from srgdqn.config.algorithms import PAPER
from srgdqn.config.presets import FIGURE_2_ROUNDS
from srgdqn.figures.charts import STYLES, Chart, Panel, Series
from srgdqn.figures.learning_panels import Band, learning_panel
from srgdqn.paper.cells import RunCell, StudyCell
from srgdqn.paper.experiment import (
    RANDOM,
    Experiment,
    Outcomes,
    configured,
    diverged_rounds,
    final_scores,
    score_columns,
)
from srgdqn.paper.report.contents import Section, Table
from srgdqn.paper.scale import Scale
from srgdqn.results.result import Result

TASKS = tuple(FIGURE_2_ROUNDS)
_LABELS = {"success": "share of greedy episodes that succeed", "length": "steps per episode"}
_RANDOM_ROUNDS = 100  # of which only a mean is needed


def cell_name(task: str, readings: str, algorithm: str) -> str:
    """The name of the cell of an algorithm on a task."""
    return f"{task}-{algorithm}-{readings}"


def cells(scale: Scale, readings: str) -> Sequence[StudyCell]:
    """A cell per task and algorithm, and one per task for the random policy."""
    return [cell for task in TASKS for cell in task_cells(scale, readings, task, (*PAPER, RANDOM))]


def task_cells(scale: Scale, readings: str, task: str, algorithms: Iterable[str]) -> list[RunCell]:
    """A cell per algorithm on one task."""
    budget: Mapping[str, int] = scale.shorter.get(task, {})
    listed = []
    for algorithm in algorithms:
        rounds = min(scale.rounds[task], _RANDOM_ROUNDS) if algorithm == RANDOM else scale.rounds[task]
        configuration = configured(scale, task, algorithm, readings, rounds=rounds, **budget)
        listed.append(RunCell(cell_name(task, readings, algorithm), configuration))
    return listed


def random_score(outcomes: Outcomes, task: str, readings: str) -> float:
    """What the random policy scores on a task."""
    return float(np.nanmean(final_scores(outcomes[cell_name(task, readings, RANDOM)], np.nan)))


def scores(outcomes: Outcomes, task: str, readings: str, algorithm: str) -> np.ndarray:
    """Each round's final score."""
    return final_scores(outcomes[cell_name(task, readings, algorithm)], random_score(outcomes, task, readings))


def panels(outcomes: Outcomes, readings: str, algorithms: Sequence[str], band: Band = "sd") -> list[Panel]:
    """A panel of learning curves per task."""
    made = []
    for task in TASKS:
        present = [name for name in algorithms if cell_name(task, readings, name) in outcomes]
        results = [outcomes[cell_name(task, readings, name)] for name in present]
        made.append(learning_panel(results, band=band, labels=present, without_band=("dqn-sgd",), group=readings))
    return made


def merged(several: Sequence[Sequence[Panel]]) -> tuple[Panel, ...]:
    """The same panels of several sets of readings as one: each set is a group to switch on and off, the first is on."""
    return tuple(
        Panel(
            first.title,
            first.y_label,
            first.x_labels,
            (*first.series, *(replace(series, shown=False) for panel in others for series in panel.series)),
        )
        for first, *others in zip(*several, strict=True)
    )


def score_table(outcomes: Outcomes, readings: Sequence[str], algorithms: Sequence[str], name: str) -> Table:
    """What every algorithm came to: score with its interval, spread over rounds, divergence, success and length."""
    rows = []
    for task in TASKS:
        for each in readings:
            for algorithm in (*algorithms, RANDOM):
                if cell_name(task, each, algorithm) not in outcomes:
                    continue
                result: Result = outcomes[cell_name(task, each, algorithm)]
                rows.append(
                    {
                        "task": task,
                        "readings": each,
                        "algorithm": algorithm,
                        **score_columns(scores(outcomes, task, each, algorithm), result),
                        **_endings(result),
                    }
                )
    note = (
        "Score: mean reward per action over the last 20 % of steps (MountainCar, Pendulum) or mean return over the "
        "last 100 episodes (CartPole); a round that diverged scores as the random policy. Success and length are "
        "those of greedy episodes on Gymnasium's own reward at the end of training (MountainCar succeeds by reaching "
        "the goal within 200 steps, CartPole by lasting 500; Pendulum has no such notion)."
    )
    return Table(name, "Final scores", pl.DataFrame(rows), note)


def _endings(result: Result) -> dict[str, str]:
    last = result.evaluations.filter(pl.col("step") == pl.col("step").max().over("round"))
    known = last["success"].drop_nulls().to_numpy()
    return {
        "success": f"{known.mean():.0%}" if len(known) else "–",
        "length": f"{last['length'].to_numpy().mean():.0f}",
    }


def show(scale: Scale, readings: Sequence[str], outcomes: Outcomes) -> Section:
    """The three panels as in the paper, success and episode length beside them."""
    rewards = [panels(outcomes, each, PAPER) for each in readings]
    endings = tuple(
        panel
        for task in ("MountainCar", "CartPole")
        for panel in (
            _means_panel(outcomes, task, readings, PAPER, "success", by="step"),
            _means_panel(outcomes, task, readings, PAPER, "length", by="episode"),
        )
    )
    counted = {task: outcomes[cell_name(task, readings[0], "srg-dqn")].rounds.height for task in TASKS}
    rounds = ", ".join(f"{count} on {task}" for task, count in counted.items())
    charts = (
        Chart(
            "figure-2",
            "Average reward of four algorithms on three tasks",
            f"Mean over rounds ({rounds}) and one standard deviation to either side; none for DQN with SGD, as in the "
            "paper. A round that diverged is missing from there on.",
            merged(rewards),
        ),
        *(
            Chart(
                f"figure-2-{each}",
                f"The same with the readings {each}",
                "As above, with another set of readings.",
                tuple(other),
            )
            for each, other in zip(readings[1:], rewards[1:], strict=True)
        ),
        Chart(
            "figure-2-success-and-length",
            "Success and episode length beside reward",
            "Success: share of greedy evaluation episodes on Gymnasium's own reward. Length: of training episodes. "
            "Means over rounds. MountainCar is trained without a time limit; a curve ends where fewer than half of the "
            "rounds have had so many episodes.",
            endings,
            columns=2,
        ),
    )
    return EXPERIMENT.section(
        found=_found(outcomes, readings[0]),
        charts=charts,
        tables=(score_table(outcomes, readings, PAPER, "figure-2-scores"),),
    )


def _found(outcomes: Outcomes, readings: str) -> str:
    sentences = []
    for task in TASKS:
        means = {name: float(scores(outcomes, task, readings, name).mean()) for name in PAPER}
        ranked = sorted(means, key=lambda name: -means[name])
        lost = diverged_rounds(outcomes[cell_name(task, readings, "srg-dqn")])
        total = outcomes[cell_name(task, readings, "srg-dqn")].rounds.height
        listed = ", ".join(f"{name} {means[name]:.3f}" for name in ranked)
        sentences.append(
            f"{task}: {listed}; the random policy {random_score(outcomes, task, readings):.3f}. "
            f"{lost} of SRG-DQN's {total} rounds diverged."
        )
    return f"Final scores with the readings {readings}. " + " ".join(sentences)


def _means_panel(
    outcomes: Outcomes, task: str, readings: Sequence[str], algorithms: Sequence[str], column: str, by: str
) -> Panel:
    """A column's mean over rounds: of the greedy evaluations by step, or of the training episodes by their number."""
    axis, label, first = ("steps", "environment steps", 0) if by == "step" else ("episodes", "episodes", 1)
    series = []
    for each in readings:
        for algorithm in algorithms:
            result: Result = outcomes[cell_name(task, each, algorithm)]
            means = (
                (result.evaluations if by == "step" else result.episodes)
                .with_columns(pl.col(column).cast(pl.Float64))
                .group_by(by)
                .agg(pl.col(column).mean(), pl.col("round").n_unique())
                # Rounds that end early have evaluations at steps of their own, and fewer episodes.
                .filter(pl.col("round") >= result.rounds.height / 2)
                .sort(by)
            )
            x = {axis: means[by].to_numpy() + first}
            shown = each == readings[0]
            series.append(Series(algorithm, STYLES[algorithm], x, means[column].to_numpy(), group=each, shown=shown))
    return Panel(task, _LABELS[column], {axis: label}, tuple(series))


EXPERIMENT = Experiment(
    name="figure-2",
    place=20,
    title="Figure 2: average reward on three tasks",
    paper_says=(
        "SRG-DQN maintains a higher average reward with better stability and lower variance on MountainCar, converges "
        "fast to the best average reward with reduced variance on Pendulum, and has an excellent average reward with "
        "significantly less variance on CartPole."
    ),
    cells=cells,
    show=show,
    budget_seconds=400,
    in_all_readings=True,
)
