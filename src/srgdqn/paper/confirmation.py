"""The third confirmatory run: what is run for every set of readings, and what of it the claims are judged by.

Its seeds begin at 40,001, and none of them was run before the rules (`claims.verdicts`, `claims.cases`, `scores`) were
fixed. Thresholds of training time come from pilot seeds, 10,000 on.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from srgdqn.config.algorithms import PAPER
from srgdqn.paper.cells import Console, MeasurementCell, RunCell, StudyCell, run_cells
from srgdqn.paper.claim_arms import anchor_rows, arm_rows, measurement_rows, steadiness_rows, survivor_rows
from srgdqn.paper.claims.cases import (
    OURS,
    SGD,
    SVR,
    Distances,
    Exact,
    Gathered,
    Spreads,
    Theorem,
    judged,
)
from srgdqn.paper.claims.evidence import Evidence, evidence_of
from srgdqn.paper.claims.verdicts import RESAMPLES, Judgement
from srgdqn.paper.experiment import RANDOM, UNTRAINED, YARDSTICKS, Outcomes, configured, seconds_of
from srgdqn.paper.findings import TABLES, contrast_rows, interaction_rows, score_rows, tables_of
from srgdqn.paper.measurements import exact_anchors
from srgdqn.paper.scale import CONFIRMATION, CONTROLS, Scale
from srgdqn.paper.scores import REFERENCE, scored, values_of
from srgdqn.paper.studies import anatomy, figure_1, figure_2, figure_3_left, figure_3_right, table_2, theorem_1
from srgdqn.paper.studies.dose_response import dose_cells, doses_of
from srgdqn.paper.studies.figure_2 import TASKS
from srgdqn.paper.studies.training_time import reaching_of, read_thresholds, seconds_per_step, times_cells
from srgdqn.results.result import Result

PILOT_SEED = 10_000
ARMS = (*REFERENCE, *YARDSTICKS)
"""The paper's four algorithms, their controls without variance reduction, and the yardsticks."""
CONTROL_ARMS = tuple(name for name in CONTROLS if name not in ARMS)
_CONTROL_ROUNDS = 400
_TIMED = (OURS, SVR, SGD)

PILOT = dataclasses.replace(
    CONFIRMATION, name="pilot", seed=PILOT_SEED, rounds=dict.fromkeys(TASKS, 200), controls=dict.fromkeys(TASKS, ())
)


@dataclass(frozen=True)
class ReadingSet:
    """A set of readings that claims are judged for."""

    name: str
    readings: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """What differs from the named readings."""
    whole: bool = True
    """Whether all claims are judged, or C2 to C6 alone."""


SETS = (
    ReadingSet("corrected", "corrected"),
    ReadingSet("printed", "printed"),
    ReadingSet("mnih", "mnih"),
    ReadingSet("mnih-20", "mnih", {"target_period": 20}, whole=False),
)
"""The three sets, and the last with its target network's other period beside it."""


# What is run


def cells(scale: Scale, given: ReadingSet) -> list[StudyCell]:
    """Everything that the claims of a set are judged by."""
    listed: list[StudyCell] = [*task_cells(scale, given), *episode_cells(scale, given)]
    if given.whole:
        name = given.name
        listed += [
            exact_cell(scale, name),
            *theorem_1.cells(scale, name),  # with the anchors of both algorithms' runs
            *table_2.cells(scale, name),
            *times_cells(scale, name, _TIMED),
            *dose_cells(scale, name),
        ]
    return listed


def task_cells(scale: Scale, given: ReadingSet) -> list[RunCell]:
    """Every arm on every task; the yardsticks in as many rounds as the others."""
    listed = []
    for task in TASKS:
        options = {"rounds": scale.rounds[task], **scale.shorter.get(task, {}), **given.options}
        for arm in ARMS:
            configuration = configured(scale, task, arm, given.readings, **options)
            listed.append(RunCell(figure_2.cell_name(task, given.name, arm), configuration))
    return listed


def control_cells(scale: Scale, given: ReadingSet) -> list[RunCell]:
    """The other controls on every task, in fewer rounds: they are shown, and decide nothing."""
    if not given.whole:
        return []
    listed = []
    for task in TASKS:
        options = {"rounds": min(_CONTROL_ROUNDS, scale.rounds[task]), **scale.shorter.get(task, {})}
        for arm in CONTROL_ARMS:
            configuration = configured(scale, task, arm, given.readings, **options)
            listed.append(RunCell(figure_2.cell_name(task, given.name, arm), configuration))
    return listed


def episode_cells(scale: Scale, given: ReadingSet) -> list[RunCell]:
    """Every arm on MountainCar under a budget of episodes."""
    budget = {"rounds": scale.episode_rounds, "episodes": scale.episodes, "evaluation_interval": None}
    return [
        RunCell(
            figure_3_left.cell_name(given.name, arm),
            configured(scale, figure_3_left.TASK, arm, given.readings, **budget, **given.options),
        )
        for arm in ARMS
    ]


def exact_cell(scale: Scale, readings: str) -> MeasurementCell:
    """Figure 1's first two arms over a long run."""
    plan = exact_anchors.SampledPlan(figure_1.configuration_of(scale, readings))
    return MeasurementCell(figure_1.cell_name(readings), exact_anchors.measure, plan)


# What of it the claims are judged by


def gather(outcomes: Outcomes, given: ReadingSet, thresholds: Mapping[str, float]) -> Gathered:
    """What was measured for a set of readings; `thresholds` of training time by task."""
    name = given.name
    runs = {task: {arm: outcomes[figure_2.cell_name(task, name, arm)] for arm in ARMS} for task in TASKS}
    lengths = {arm: outcomes[figure_3_left.cell_name(name, arm)] for arm in ARMS}
    final = {task: {arm: values_of(run, "final") for arm, run in arms.items()} for task, arms in runs.items()}
    found = Gathered(
        final=final,
        first_half={"Pendulum": {arm: values_of(run, "first half") for arm, run in runs["Pendulum"].items()}},
        lengths={arm: values_of(run, "length") for arm, run in lengths.items()},
        cut={arm: cut_share(run) for arm, run in lengths.items()},
    )
    if not given.whole:
        return found
    return dataclasses.replace(
        found,
        exact=exact_of(outcomes[figure_1.cell_name(name)].tables),
        distances=distances_of(outcomes, name),
        spreads=spreads_of(outcomes, name),
        theorem=theorem_of(outcomes),
        reaching={
            task: reaching_of(
                {arm: runs[task][arm] for arm in _TIMED},
                {arm: seconds_per_step(outcomes, name, task, arm) for arm in _TIMED},
                thresholds[task],
            )
            for task in TASKS
        },
        shares={part: anatomy.shares(outcomes, name, part) for part in ("unseen", "drift")},
        doses=doses_of(outcomes, name),
    )


def cut_share(run: Result) -> float:
    """The share of a run's episodes that were cut at the cap."""
    return float(np.mean(run.episodes["ending"].to_numpy() == "censored"))


def exact_of(tables: Mapping[str, pl.DataFrame]) -> Exact:
    """Figure 1's rewards by evaluation, without what was evaluated since a round diverged."""
    diverged = {(arm, number): step for arm, number, step in tables["diverged"].iter_rows()}
    lost = set(tables["rounds"].filter("diverged").select("arm", "round").rows())
    whole = tables["rounds"].filter(~pl.col("diverged")).select("arm", "round")
    steps = np.sort(tables["evaluations"].join(whole, on=["arm", "round"], how="semi")["step"].unique().to_numpy())
    if not len(steps):
        steps = np.sort(tables["evaluations"]["step"].unique().to_numpy())
    rounds = tables["rounds"]["round"].n_unique()
    values = {arm: np.full((rounds, len(steps)), np.nan) for arm in ("exact", "ordinary")}
    place = {int(step): column for column, step in enumerate(steps)}
    for arm, number, step, reward in tables["evaluations"].select("arm", "round", "step", "reward").iter_rows():
        # A round of which there is no whole recording cannot be replayed.
        ends = [diverged[key] for key in ((arm, number), ("ordinary", number)) if key in diverged]
        if step in place and not ((arm, number) in lost and step >= min(ends, default=0)):
            values[arm][number, place[step]] = reward
    rewards = {
        arm: tables["yardsticks"].filter(pl.col("arm") == arm).sort("round")["reward"].to_numpy() for arm in YARDSTICKS
    }
    return Exact(values, rewards[RANDOM], rewards[UNTRAINED])


def distances_of(outcomes: Outcomes, readings: str) -> Distances:
    """How much closer SRG's anchors are, from the second inner iteration on: at the first they coincide."""
    ratios = {
        definition: figure_3_right.log_ratios(outcomes, readings, definition, first=2)
        for definition in figure_3_right.DEFINITIONS
    }
    runs = {name: outcomes[figure_3_right.cell_name(readings, name)] for name in figure_3_right.TRAJECTORIES}
    return Distances(ratios, {name: _diverged_share(run.tables["rounds"]) for name, run in runs.items()})


def spreads_of(outcomes: Outcomes, readings: str) -> Spreads:
    """Table 2's spreads of the rounds that finished in both runs."""
    found = table_2.Spreads(outcomes, readings)
    runs = {name: outcomes[table_2.cell_name(readings, name)] for name in table_2.ALGORITHMS}
    diverged = {name: _diverged_share(run.tables["rounds"]) for name, run in runs.items()}
    return Spreads(found.vectors, found.windows, found.frozen, diverged)


def _diverged_share(rounds: pl.DataFrame) -> float:
    return float(rounds["diverged"][0] / rounds["rounds"][0])


def theorem_of(outcomes: Outcomes) -> Theorem:
    """Theorem 1's inequality where it speaks, and the counts of queries."""
    rows = outcomes[theorem_1.CELL].tables["inequality"].filter((pl.col("multiple") == 1.0) & pl.col("in_region"))
    ratios = {
        (problem, step): theorem_1.log_query_ratios(outcomes, problem, step)
        for problem in theorem_1.PROBLEMS
        for step in ("theory", "tuned")
    }
    return Theorem(int(rows["violated"].sum()), rows.height, ratios)


# Thresholds of training time, from pilot seeds


def pilot_thresholds(folder: Path, console: Console, scale: Scale = PILOT) -> dict[str, dict[str, float]]:
    """By set and task: halfway from the untrained agent to the best of the paper's four."""
    found = {}
    for given in (each for each in SETS if each.whole):
        outcomes = run_cells(f"pilot, {given.name}", task_cells(scale, given), folder / "pilot" / given.name, console)
        found[given.name] = {task: threshold_of(outcomes, task, given.name) for task in TASKS}
    return found


def threshold_of(outcomes: Outcomes, task: str, readings: str) -> float:
    """Halfway from the untrained agent to the best of the paper's four."""
    arms = {arm: values_of(outcomes[figure_2.cell_name(task, readings, arm)], "final") for arm in ARMS}
    means = {arm: float(scores.values.mean()) for arm, scores in scored(arms).items()}
    return (means[UNTRAINED] + max(means[arm] for arm in PAPER)) / 2


def thresholds_json(thresholds: Mapping[str, Mapping[str, float]], scale: Scale = PILOT) -> str:
    """The text that `read_thresholds` reads."""
    content = {"seed": scale.seed, "rounds": dict(scale.rounds), "thresholds": thresholds}
    return json.dumps(content, indent=2) + "\n"


# The command


def confirm(
    folder: Path,
    console: Console,
    scale: Scale = CONFIRMATION,
    sets: Sequence[ReadingSet] = SETS,
    resamples: int = RESAMPLES,
) -> Evidence:
    """Every claim judged for every set of readings, one set after the other, so that only one is in memory."""
    thresholds = read_thresholds()
    judgements, seconds = dict[str, Sequence[Judgement]](), 0.0
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    for given in sets:
        listed = [*cells(scale, given), *control_cells(scale, given)]
        below = folder / "confirmation" / given.name
        outcomes = run_cells(f"confirmation, {given.name}", listed, below, console)
        found = gather(outcomes, given, thresholds.get(given.name, {}))
        console.begin(f"verdicts, {given.name}", [given.name])
        judgements[given.name] = judged(found, given.name, resamples)
        console.progress(given.name, 1.0)
        rows["scores"] += score_rows(outcomes, given.name, (*ARMS, *(CONTROL_ARMS if given.whole else ())))
        rows["contrasts"] += contrast_rows(found, given.name)
        rows["interaction"] += interaction_rows(found, given.name)
        rows["arms"] += arm_rows(found, judgements[given.name], given.name)
        rows["steadiness"] += steadiness_rows(found, given.name)
        rows["survivors"] += survivor_rows(found, given.name)
        rows["measured"] += measurement_rows(found, given.name, scale)
        if given.whole:
            rows["anchors"] += anchor_rows(outcomes[figure_1.cell_name(given.name)].tables, given.name)
        seconds += seconds_of(outcomes, outcomes)
    rounds = ", ".join(f"{count:,} on {task}" for task, count in scale.rounds.items())
    return evidence_of(
        "confirmation", judgements, tables_of(rows), seed=scale.seed, rounds=f"{rounds} in each set", seconds=seconds
    )
