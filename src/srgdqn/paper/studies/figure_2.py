"""Figure 2: learning curves of the paper's four algorithms on its three tasks, beside what does not learn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from srgdqn.config.algorithms import ALGORITHMS, PAPER
from srgdqn.config.presets import FIGURE_2_ROUNDS
from srgdqn.figures.charts import STYLES, Chart, Panel, Series, needs_log
from srgdqn.figures.learning_panels import Band, ScoredRounds, learning_panel, scored_series
from srgdqn.paper.arm_columns import ARM_NAMES, NOTE, WORST, arm_columns, of_finished, spread_text
from srgdqn.paper.cells import RunCell, StudyCell
from srgdqn.paper.claims.evidence import find_evidence
from srgdqn.paper.experiment import (
    RANDOM,
    UNTRAINED,
    YARDSTICKS,
    Experiment,
    Outcomes,
    configured,
    diverged_rounds,
    diverged_text,
)
from srgdqn.paper.report.contents import Section, Table
from srgdqn.paper.scale import Scale
from srgdqn.paper.scores import Scores, Values, diverged_mask, filled_windows, matrix_of, scored, values_of
from srgdqn.results.curves import SMOOTHING
from srgdqn.results.result import Result
from srgdqn.results.statistics import bootstrap_interval

TASKS = tuple(FIGURE_2_ROUNDS)


def cell_name(task: str, readings: str, algorithm: str) -> str:
    """The name of the cell of an algorithm on a task."""
    return f"{task}-{algorithm}-{readings}"


def cells(scale: Scale, readings: str) -> Sequence[StudyCell]:
    """A cell per task and algorithm, and per task and yardstick."""
    return [cell for task in TASKS for cell in task_cells(scale, readings, task, (*PAPER, *YARDSTICKS))]


def task_cells(scale: Scale, readings: str, task: str, algorithms: Iterable[str]) -> list[RunCell]:
    """A cell per algorithm on one task."""
    options: dict[str, Any] = {"rounds": scale.rounds[task], **scale.shorter.get(task, {})}
    return [
        RunCell(cell_name(task, readings, algorithm), configured(scale, task, algorithm, readings, **options))
        for algorithm in algorithms
    ]


# Scores


def task_runs(outcomes: Outcomes, task: str, readings: str) -> dict[str, Result]:
    """Every run on a task with a set of readings, by algorithm or yardstick."""
    names = {name: cell_name(task, readings, name) for name in (*ALGORITHMS, *YARDSTICKS)}
    return {name: outcomes[cell] for name, cell in names.items() if cell in outcomes}


def task_scores(outcomes: Outcomes, task: str, readings: str) -> dict[str, Scores]:
    """The final scores of every arm on a task with a set of readings: divergence is never a gain."""
    return scored({name: values_of(run, "final") for name, run in task_runs(outcomes, task, readings).items()})


# Panels


def panels(outcomes: Outcomes, readings: str, algorithms: Sequence[str], band: Band = "sd") -> list[Panel]:
    """A panel of learning curves per task, the yardsticks in grey."""
    made = []
    for task in TASKS:
        runs = task_runs(outcomes, task, readings)
        present = [name for name in (*algorithms, *YARDSTICKS) if name in runs]
        made.append(
            learning_panel(
                [runs[name] for name in present],
                band=band,
                labels=present,
                without_band=("dqn-sgd",),
                group=readings,
                fill=filled_windows,
            )
        )
    return made


def merged(several: Sequence[Sequence[Panel]]) -> tuple[Panel, ...]:
    """The same panels of several sets of readings as one: each set is a group to switch on and off, the first is on."""
    return tuple(
        replace(
            first,
            series=(*first.series, *(replace(series, shown=False) for panel in others for series in panel.series)),
        )
        for first, *others in zip(*several, strict=True)
    )


def left_text(outcomes: Outcomes, readings: str, algorithms: Sequence[str]) -> str:
    """How many rounds are left at the end of every curve that some are missing from."""
    listed = []
    for task in TASKS:
        runs = task_runs(outcomes, task, readings)
        for name in (name for name in algorithms if name in runs):
            total, lost = runs[name].rounds.height, diverged_rounds(runs[name])
            listed += [f"{name} on {task} {total - lost} of {total}"] if lost else []
    return f"Rounds left at the end: {', '.join(listed)}; all of the others." if listed else "No round diverged."


ALL_ROUNDS = (
    "Means are over all rounds: one that has diverged counts, in every window or episode from then on, with the worst "
    "there of any round that finished, or the random policy's mean where that is worse. A line is dashed, and has no "
    "band, from where fewer than four fifths of the rounds are left."
)
"""What the curves of diverged rounds stand for."""


# Tables


def score_table(outcomes: Outcomes, readings: Sequence[str], algorithms: Sequence[str], name: str) -> Table:
    """What every algorithm came to: its score, divergence, and greedy episodes on the raw task."""
    rows = []
    for task in TASKS:
        for each in readings:
            runs, found = task_runs(outcomes, task, each), task_scores(outcomes, task, each)
            rows += [
                {
                    "task": task,
                    "readings": each,
                    "algorithm": arm,
                    **arm_columns(found[arm], runs[arm]),
                    "sd of finished rounds": spread_text(found[arm]),
                }
                for arm in (*algorithms, *YARDSTICKS)
                if arm in runs
            ]
    note = (
        f"{NOTE} {WORST} MountainCar succeeds by reaching the goal within 200 steps, CartPole by lasting 500. random "
        "explores always; untrained acts by its initial network, explores as the algorithms do, and never learns."
    )
    return Table(name, "Final scores", of_finished(pl.DataFrame(rows)), note)


def show(scale: Scale, readings: Sequence[str], outcomes: Outcomes) -> Section:
    """The three panels as in the paper, with every set of readings; success, episode length and greedy episodes."""
    rewards = [panels(outcomes, each, PAPER) for each in readings]
    counted = {task: outcomes[cell_name(task, readings[0], "srg-dqn")].rounds.height for task in TASKS}
    rounds = ", ".join(f"{count} on {task}" for task, count in counted.items())
    charts = (
        Chart(
            "figure-2",
            "Average reward of four algorithms on three tasks",
            f"Readings {readings[0]}. Mean over rounds ({rounds}) and one standard deviation to either side; none for "
            f"DQN with SGD, as in the paper. {ALL_ROUNDS} Grey: the random policy, and the untrained agent. "
            f"{left_text(outcomes, readings[0], PAPER)}",
            merged(rewards),
        ),
        *(
            Chart(
                f"figure-2-{each}",
                f"The same with the readings {each}",
                f"As above, with another set of readings. {left_text(outcomes, each, PAPER)}",
                tuple(other),
            )
            for each, other in zip(readings[1:], rewards[1:], strict=True)
        ),
        Chart(
            "figure-2-success-and-length",
            "Success and episode length beside reward",
            "Success: share of greedy evaluation episodes on Gymnasium's own reward; the random policy plays none. "
            "CartPole is evaluated at the end only. Length: of training episodes, of which short ones are good on "
            "MountainCar and long ones on CartPole. Means over all rounds: one that has diverged counts with the worst "
            "there, as in the figure above. MountainCar is trained without a time limit; a curve ends where fewer than "
            "half of the rounds have had so many episodes, and there is none where fewer than half have had one.",
            tuple(
                panel
                for task, column in (("MountainCar", "success"), ("MountainCar", "length"), ("CartPole", "length"))
                for panel in [merged_panel(outcomes, task, readings, column)]
                if panel.series
            ),
        ),
        _greedy_chart(outcomes, readings),
    )
    return EXPERIMENT.section(
        found=_found(outcomes, readings[0]),
        charts=charts,
        tables=(score_table(outcomes, readings, PAPER, "figure-2-scores"),),
    )


_DIGITS = {"MountainCar": 3, "Pendulum": 2, "CartPole": 1}


def _found(outcomes: Outcomes, readings: str) -> str:
    sentences = []
    for task in TASKS:
        found = task_scores(outcomes, task, readings)
        means = {name: float(found[name].values.mean()) for name in PAPER}
        ranked = sorted(means, key=lambda name: -means[name])
        digits = _DIGITS[task]
        listed = ", ".join(f"{ARM_NAMES[name]} {means[name]:.{digits}f}" for name in ranked)
        beside = ", ".join(
            f"{ARM_NAMES[name]} {found[name].values.mean():.{digits}f}" for name in YARDSTICKS if name in found
        )
        lost = diverged_text(outcomes[cell_name(task, readings, "srg-dqn")])
        sentences.append(
            f"{task}: {listed}; {beside}. {lost} rounds of SRG-DQN diverged.{_flattered(found, task, readings)}"
        )
    return "\n\n".join([f"Final scores with the readings {readings}, the best first.", *sentences])


def _flattered(found: Mapping[str, Scores], task: str, readings: str) -> str:
    """Where rounds that finished say the opposite of all rounds about the paper's comparison: a sentence about it."""
    ours, other = found["srg-dqn"], found["svr-dqn"]
    if ours.diverged.all() or other.diverged.all():
        return ""
    alone = [each.values[~each.diverged] for each in (ours, other)]
    if not (alone[0].mean() > alone[1].mean() and ours.values.mean() < other.values.mean()):
        return ""
    means = " and ".join(
        f"{name} {values.mean():.2f} ({len(values)} rounds)"
        for name, values in zip(("SRG-DQN", "SVR-DQN"), alone, strict=True)
    )
    return f" Over the rounds that finished, the order is the other: {means}.{_confirmed_survivors(task, readings)}"


def _confirmed_survivors(task: str, readings: str) -> str:
    """How rounds that finished in both SRG-DQN and SVR-DQN differ in the released confirmatory run, as a sentence that
    follows another; nothing where it does not say. It has far more rounds than the paper's scale.
    """
    evidence = find_evidence("confirmation")
    tables = {} if evidence is None else {table.name: table.frame for table in evidence.tables}
    if "confirmation-contrasts" not in tables:
        return ""
    rows = tables["confirmation-contrasts"].filter(task=task, readings=readings, against="svr-dqn").to_dicts()
    known = [row for row in rows if None not in (row["survivors low"], row["survivors high"])]
    if not known:
        return ""
    apart, low, high = (known[0][name] for name in ("of survivors", "survivors low", "survivors high"))
    words = "do not differ clearly" if low <= 0 <= high else "differ, too" if low > 0 else "differ the other way"
    text = f"{apart:+.2f} [{low:+.2f}, {high:+.2f}]".replace("-", "−")
    return f" In the released confirmatory run the {known[0]['in both']} rounds that finished in both {words}: {text}."


# Success, length and greedy episodes


def merged_panel(outcomes: Outcomes, task: str, readings: Sequence[str], column: str) -> Panel:
    """Success of greedy episodes by step, or length of training episodes by their number, with all sets of readings."""
    made = _success_series if column == "success" else _length_series
    series = [
        replace(each, shown=each.shown and place == 0)
        for place, name in enumerate(readings)
        for each in made(task_runs(outcomes, task, name), name)
    ]
    if column == "success":
        label, axes = "share of greedy episodes\nthat succeed", {"steps": "environment steps"}
    else:
        smooth = f"\n(mean of the last {SMOOTHING})" if task == "CartPole" else ""
        label, axes = f"steps per episode{smooth}", {"episodes": "episodes"}
    log = column == "length" and needs_log(series)  # lengths that fall tenfold do so within the first few episodes
    return Panel(task, label, axes, tuple(series), log_x=log, log_y=log)


def _success_series(runs: Mapping[str, Result], readings: str) -> list[Series]:
    # Rounds that end early have evaluations at steps of their own.
    grid = np.unique(np.concatenate([_evaluation_steps(run) for run in runs.values()]))
    tables = {name: run.evaluations for name, run in runs.items()}
    found = _scored_rounds(runs, tables, "step", "success", grid, min)
    found.pop(RANDOM)  # which plays no greedy episodes
    return _drawn(found, "steps", grid, readings)


def _length_series(runs: Mapping[str, Result], readings: str) -> list[Series]:
    tables, worst = {name: run.episodes for name, run in runs.items()}, max
    if all(run.configuration.training.episodes is not None for run in runs.values()):  # CartPole: as its returns
        worst = min
        smooth = pl.col("length").rolling_mean(SMOOTHING, min_samples=1).over("round")
        tables = {name: rows.sort("round", "episode").with_columns(smooth) for name, rows in tables.items()}
    grid = np.arange(max(int(run.rounds["episodes"].to_numpy().max()) for run in runs.values()))
    return _drawn(_scored_rounds(runs, tables, "episode", "length", grid, worst), "episodes", grid + 1, readings)


def _scored_rounds(
    runs: Mapping[str, Result],
    tables: Mapping[str, pl.DataFrame],
    at: str,
    column: str,
    grid: np.ndarray,
    worst: Callable[..., float],
) -> dict[str, ScoredRounds]:
    values = {name: matrix_of(tables[name], at, column, run.rounds["round"], grid) for name, run in runs.items()}
    diverged = {name: diverged_mask(run) for name, run in runs.items()}
    filled = filled_windows(values, diverged, worst)
    return {name: ScoredRounds(values[name], diverged[name], filled[name]) for name in runs}


def _drawn(found: Mapping[str, ScoredRounds], axis: str, x: np.ndarray, readings: str) -> list[Series]:
    """The curves of the paper's four and the yardsticks, each as far as half of its rounds have values."""
    series = []
    for name in (name for name in (*PAPER, *YARDSTICKS) if name in found):
        values, diverged, filled = found[name]
        enough = 2 * np.isfinite(filled).sum(0) >= len(filled)
        rounds = ScoredRounds(values[:, enough], diverged, filled[:, enough])
        series += scored_series(name, STYLES[name], {axis: x[enough]}, rounds, band="none", group=readings)
    return series


def _evaluation_steps(run: Result) -> np.ndarray:
    """The steps at which rounds that finished were evaluated; of a run of which none did, those of the plan."""
    finished = run.rounds.filter(pl.col("diverged_at").is_null())["round"].to_list()
    rows = run.evaluations.filter(pl.col("round").is_in(finished))
    interval = run.configuration.training.evaluation_interval or 1
    rows = rows if rows.height else run.evaluations.filter(pl.col("step") % interval == 0)
    return rows["step"].unique().to_numpy()


def _greedy_chart(outcomes: Outcomes, readings: Sequence[str]) -> Chart:
    """What greedy episodes return on the raw task at the end of training, with every set of readings."""
    made = []
    for task in TASKS:
        found = [greedy_scores(task_runs(outcomes, task, each)) for each in readings]
        series = []
        for name in (name for name in (*PAPER, UNTRAINED) if all(name in each for each in found)):
            low, mean, high = np.array(
                [
                    (interval.low, interval.estimate, interval.high)
                    for each in found
                    for interval in [bootstrap_interval(each[name].values)]
                ]
            ).T
            x = {"readings": np.arange(len(readings))}
            series.append(Series(name, STYLES[name], x, mean, low, high, kind="points"))
        made.append(Panel(task, "greedy return", {"readings": "readings"}, tuple(series), categories=tuple(readings)))
    return Chart(
        "figure-2-greedy",
        "Greedy episodes on the raw task at the end of training",
        "Mean return over all rounds of greedy episodes on Gymnasium's own reward and with its time limit, and its "
        "95 % interval. A round that diverged counts with the worst round that finished, or the untrained agent's mean "
        "where that is worse.",
        tuple(made),
    )


def greedy_scores(runs: Mapping[str, Result]) -> dict[str, Scores]:
    """Each round's mean return of its last greedy evaluation; of runs that were never evaluated there is none.

    The random policy is not among them: its greedy episodes are those of an untrained network.
    """
    found = {}
    for name, run in runs.items():
        rounds = run.rounds.sort("round")
        last = run.evaluations.filter(pl.col("step") == pl.col("step").max().over("round"))
        means = matrix_of(last.with_columns(end=pl.lit(0)), "end", "return", rounds["round"], np.zeros(1, int))
        diverged = diverged_mask(run)
        if not np.isnan(means[~diverged]).any():
            found[name] = Values(np.where(diverged[:, None], np.nan, means), diverged)
    found_scores = scored(found) if RANDOM in found else {}
    return {name: each for name, each in found_scores.items() if name != RANDOM}


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
    budget_seconds=50,
    in_all_readings=True,
)
