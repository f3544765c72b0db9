"""The long commands: the paper's own scale, the verdicts on fresh seeds, tuned settings, and every reading."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from srgdqn.paper import readings_study, tuning
from srgdqn.paper.answer import answer_from
from srgdqn.paper.cells import MeasurementCell, StudyCell, compute
from srgdqn.paper.claims import CLAIMS, Judgement, judge
from srgdqn.paper.claims.evidence import Evidence, evidence_of
from srgdqn.paper.experiment import diverged_rounds, seconds_of
from srgdqn.paper.pilot import pilot_of, read_pilot
from srgdqn.paper.report.contents import Table
from srgdqn.paper.scale import CONFIRMATORY, CONFIRMATORY_PRINTED, Scale
from srgdqn.paper.studies import EXPERIMENTS
from srgdqn.paper.studies.controls import contrast_table, interaction_table
from srgdqn.paper.studies.figure_2 import TASKS
from srgdqn.runs.checkpoint_manager import USUAL, Pace
from srgdqn.runs.provenance import LOCAL

CONFIRMATORY_SCALES: Mapping[str, Scale] = {"corrected": CONFIRMATORY, "printed": CONFIRMATORY_PRINTED}
BOTH = tuple(CONFIRMATORY_SCALES)
# Claims that Figure 2 and Figure 3, left, decide.
COMPARISONS = ("C2", "C3", "C4", "C5a", "C6")


@dataclass(frozen=True)
class Console:
    """Where a command reports what it does."""

    begin: Callable[[str, Sequence[str]], None]
    """Called with the title of a stage of work and the names of its cells."""
    hear: Callable[[str, float], None]
    """Called with a cell's name and the share of it that is done."""
    say: Callable[[str], None]
    pace: Pace = USUAL
    """How often unfinished runs are checkpointed."""
    engine: str = LOCAL
    """Where cells are computed; it is ready."""


def run_cells(title: str, cells: Sequence[StudyCell], folder: Path, console: Console) -> dict[str, Any]:
    """The outcomes of cells, which may be listed several times."""
    unique = {cell.name: cell for cell in cells}
    # Long ones first, so that no core is left with one at the end.
    ordered = sorted(unique.values(), key=lambda cell: not isinstance(cell, MeasurementCell))
    console.begin(title, [cell.name for cell in ordered])
    place, hear, say = folder / "cells", console.hear, console.say
    return compute(ordered, place, listener=hear, say=say, pace=console.pace, engine=console.engine)


def readings_of(scale: Scale, experiment: str) -> tuple[str, ...]:
    """The sets of readings that an experiment is shown with: Figure 2 with both, the others with the primary one."""
    return BOTH if scale.name == "paper" and experiment == "figure-2" else BOTH[:1]


def run_experiments(names: Sequence[str], scale: Scale, folder: Path, console: Console) -> dict[str, Any]:
    """The outcomes of the cells of some experiments."""
    cells = [
        cell for name in names for each in readings_of(scale, name) for cell in EXPERIMENTS[name].cells(scale, each)
    ]
    return run_cells("experiments", cells, folder / scale.name, console)


def confirm(folder: Path, console: Console, scales: Mapping[str, Scale] = CONFIRMATORY_SCALES) -> Evidence:
    """Every claim judged on seeds that no pilot has seen, for both sets of readings."""
    cells = [
        cell
        for each, scale in scales.items()
        for experiment in EXPERIMENTS.values()
        for cell in experiment.cells(scale, each)
    ]
    outcomes = run_cells("confirmatory run", cells, folder / "confirmatory", console)
    pilot = read_pilot()
    console.begin("verdicts", tuple(scales))
    judgements = {
        each: judge(outcomes, each, pilot, report=lambda share, name=each: console.hear(name, share))  # type: ignore[misc]
        for each in scales
    }
    compared = ("svr-dqn", "dqn-sgd", "srg-dqn-no-adam", "sgd-inner", "sgd-inner-adam")
    tables = [
        Table(f"confirmatory-{name}", f"{table.title} On the confirmatory seeds", table.frame, table.note)
        for name, table in (
            ("contrasts", contrast_table(outcomes, tuple(scales), compared)),
            ("interaction", interaction_table(outcomes, tuple(scales))),
        )
    ]
    rounds = "; ".join(f"{each}: {_rounds_text(scale)}" for each, scale in scales.items())
    evidence = evidence_of(
        "confirmatory",
        judgements,
        tables,
        seed=CONFIRMATORY.seed,
        rounds=rounds,
        seconds=seconds_of(outcomes, outcomes),
    )
    answer = answer_from(outcomes, BOTH[0])
    return Evidence(evidence.kind, evidence.judgements, evidence.tables, {**evidence.about, "answer": answer})


def _rounds_text(scale: Scale) -> str:
    by_task = ", ".join(f"{count} on {task}" for task, count in scale.rounds.items())
    others = {
        "for C1": scale.exact_rounds,
        "for C6 and the lengths of C5a": scale.episode_rounds,
        "for C7 and C11": scale.anchor_rounds,
        "for the gradients of C8": scale.spread_rounds,
        "for C12": scale.dose_rounds,
    }
    return ", ".join([by_task, *(f"{count} {what}" for what, count in others.items())])


def tune(folder: Path, console: Console, scale: Scale = CONFIRMATORY) -> Evidence:
    """Every arm with its own best step sizes, and what that does to the claims about Figure 2."""
    pilot = read_pilot()
    place = folder / "tuned"
    searched = run_cells("candidates", tuning.tuning_cells(scale), place, console)
    chosen = tuning.choose(searched, pilot.random)
    outcomes = run_cells("tuned arms", tuning.tuned_cells(scale, chosen), place, console)
    judgements = {tuning.LABEL: judge(outcomes, tuning.LABEL, pilot, only=("C2", "C3", "C4"))}
    tables = [tuning.tuned_table(outcomes), _tuned_contrasts(outcomes)]
    return evidence_of(
        "tuned",
        judgements,
        tables,
        seed=tuning.TUNED_SEED,
        rounds=tuning.rounds_text(),
        seconds=seconds_of(searched, searched) + seconds_of(outcomes, outcomes),
    )


def _tuned_contrasts(outcomes: Any) -> Table:
    table = contrast_table(outcomes, (tuning.LABEL,), tuning.ARMS)
    return Table("tuned-contrasts", "SRG-DQN against every other arm, all tuned", table.frame, table.note)


def read_every_way(folder: Path, console: Console, scale: Scale = CONFIRMATORY) -> Evidence:
    """The paper's comparisons over combinations of readings: where each claim holds, and which reading decides it."""
    runs = range(len(readings_study.design()))
    cells = list(itertools.chain.from_iterable(readings_study.cells(scale, run) for run in runs))
    outcomes = run_cells("every reading", cells, folder / "readings", console)
    judgements, diverged = {}, []
    for run in runs:
        label = readings_study.label(run)
        results = [outcomes[cell.name] for cell in readings_study.cells(scale, run)]
        diverged.append((sum(map(diverged_rounds, results)), sum(result.rounds.height for result in results)))
        # A margin in the run's own units: another reward has another scale.
        margins = pilot_of(outcomes, scale.seed, label)
        judgements[label] = judge(outcomes, label, margins, only=COMPARISONS)
    rounds = ", ".join(f"{readings_study.ROUNDS[task]} on {task}" for task in TASKS)
    return evidence_of(
        "readings",
        judgements,
        [shares_table(judgements), runs_table(judgements, diverged)],
        seed=scale.seed + readings_study.SEED_OFFSET,
        rounds=rounds,
        seconds=seconds_of(outcomes, outcomes),
    )


def shares_table(judgements: dict[str, list[Judgement]]) -> Table:
    """For each claim: in what share of the runs it holds, and the reading with the largest effect on it."""
    rows = []
    for claim in COMPARISONS:
        verdicts = [next(each for each in run if each.name == claim) for run in judgements.values()]
        # A claim is as strong as its weakest contrast, in units of the margin.
        weakest = np.array([_weakest(verdict) for verdict in verdicts])
        found = readings_study.effects(weakest)
        order = np.argsort(-np.abs(np.nan_to_num(found)))
        first, second = (readings_study.READINGS[int(index)] for index in order[:2])
        count = len(verdicts)
        rows.append(
            {
                "claim": claim,
                "statement": next(each.statement for each in CLAIMS if each.name == claim),
                **{
                    verdict: f"{sum(each.verdict == verdict for each in verdicts)} of {count}"
                    for verdict in ("holds", "fails", "undecided")
                },
                "decided most by": f"{first.what} (row {first.row}): {found[order[0]]:+.1f} δ",
                "then by": f"{second.what} (row {second.row}): {found[order[1]]:+.1f} δ",
            }
        )
    note = (
        "Main effects on the claim's weakest contrast, in units of its margin δ: the mean over the runs with that "
        "option minus the mean over those without. In a design of twelve runs each is mixed with interactions of two."
    )
    return Table("readings-shares", "In what share of the readings each claim holds", pl.DataFrame(rows), note)


def runs_table(judgements: dict[str, list[Judgement]], diverged: Sequence[tuple[int, int]]) -> Table:
    """Which options each run had, its verdicts, and how many of its rounds diverged, of how many."""
    rows = []
    for run, (verdicts, (lost, rounds)) in enumerate(zip(judgements.values(), diverged, strict=True)):
        others = [
            reading.row
            for reading, other in zip(readings_study.READINGS, readings_study.design()[run], strict=True)
            if other
        ]
        rows.append(
            {
                "run": run,
                "rows with the other option": ", ".join(others) or "none (corrected)",
                **{verdict.name: verdict.verdict for verdict in verdicts},
                "diverged": f"{lost} of {rounds}",
            }
        )
    return Table("readings-runs", "The twelve runs and their verdicts", pl.DataFrame(rows))


def _weakest(judgement: Judgement) -> float:
    # Where no algorithm is ahead of the random policy there is no δ to measure in.
    values = [each.interval.estimate / each.unit for each in judgement.contrasts if each.unit > 0]
    finite = [value for value in values if np.isfinite(value)]
    return min(finite) if finite else float("nan")
