"""Every reading: the paper's comparisons over combinations of what the paper leaves open.

Eleven readings with two options each, in the twelve runs of Plackett and Burman (1946): every option stands beside
every other equally often, so that each reading's main effect can be separated from the others', though not from
interactions of two. The first run is the set `corrected`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from srgdqn.config.algorithms import PAPER
from srgdqn.config.presets import PRESETS
from srgdqn.paper.cells import Console, RunCell, run_cells
from srgdqn.paper.claims import CLAIMS, Judgement, judge
from srgdqn.paper.claims.evidence import Evidence, evidence_of
from srgdqn.paper.experiment import RANDOM, configured, diverged_rounds, seconds_of
from srgdqn.paper.pilot import pilot_of
from srgdqn.paper.report.contents import Section, Table
from srgdqn.paper.scale import CONFIRMATORY, Scale
from srgdqn.paper.studies.figure_2 import TASKS, cell_name
from srgdqn.paper.studies.figure_3_left import ALGORITHMS as EPISODE_ALGORITHMS
from srgdqn.paper.studies.figure_3_left import cell_name as episodes_name

SEED_OFFSET = 2  # from the confirmatory seed
ROUNDS = {"MountainCar": 25, "Pendulum": 25, "CartPole": 25}
EPISODE_ROUNDS = 25
# Claims that Figure 2 and Figure 3, left, decide.
COMPARISONS = ("C2", "C3", "C4", "C5a", "C6")


@dataclass(frozen=True)
class Reading:
    """What the paper leaves open, and the option that is not the default."""

    row: str
    """Its row in the table of readings."""
    what: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """The other option, for every task and algorithm."""
    by_task: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    by_algorithm: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


READINGS: tuple[Reading, ...] = (
    Reading("2", "y frozen for the outer iteration", {"target": "outer"}),
    Reading("3", "terminal states never masked", {"mask_terminal": False}),
    Reading("4", "D is the N newest transitions", {"sampling": "newest"}),
    Reading("6", "Adam receives g_M", {"adam_input": "gradient"}),
    Reading("7", "Adam steps from θ_M", {"adam_from": "previous"}),
    Reading("8", "Adam divides by a norm", {"adam_denominator": "norm"}),
    Reading("15", "two hidden layers", by_task={task: {"hidden": PRESETS[task]["hidden"] * 2} for task in TASKS}),
    Reading("16", "normal(0, 0.3) initialisation", {"initialisation": "normal"}),
    Reading(
        "17, 18, 21",
        "the other reward",
        by_task={
            "MountainCar": {"reward": "distance"},
            "Pendulum": {"reward_scale": 0.1},
            "CartPole": {"reward": "upright-cosine"},
        },
    ),
    Reading("26", "SVR-DQN makes M steps from θ_0", by_algorithm={"svr-dqn": {"anchor_step": False}}),
    Reading("27", "SVR-DQN without the Adam process", by_algorithm={"svr-dqn": {"adam_process": False}}),
)

# The generator of the design with twelve runs (Plackett and Burman, Biometrika 33, 1946).
_GENERATOR = (1, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0)


def design() -> np.ndarray:
    """(runs, readings): whether a run has a reading's other option. The first run has none."""
    rows = [np.roll(_GENERATOR, shift) for shift in range(len(_GENERATOR))]
    return np.array([np.zeros(len(_GENERATOR), int), *rows]).astype(bool)


def label(run: int) -> str:
    """The name of a run's set of readings."""
    return f"run-{run:02d}"


def cells(scale: Scale, run: int) -> list[RunCell]:
    """Figure 2 and Figure 3, left, with the readings of a run."""
    chosen = _others(run)
    listed = []
    for task in TASKS:
        for algorithm in (*PAPER, RANDOM, *(("sgd-inner-adam",) if task == "MountainCar" else ())):
            budget = scale.shorter.get(task, {})
            rounds = ROUNDS[task] if scale.lanes is None else scale.lanes
            configuration = _configured(scale, chosen, task, algorithm, rounds=rounds, **budget)
            listed.append(RunCell(cell_name(task, label(run), algorithm), configuration))
    for algorithm in (*EPISODE_ALGORITHMS, RANDOM):
        rounds = EPISODE_ROUNDS if scale.lanes is None else scale.lanes
        configuration = _configured(scale, chosen, "MountainCar", algorithm, rounds=rounds, episodes=scale.episodes)
        listed.append(RunCell(episodes_name(label(run), algorithm), configuration))
    return listed


def effects(values: np.ndarray) -> np.ndarray:
    """Each reading's main effect on one value per run: the mean with its other option minus the mean without.

    NaN where no run with one of the two has a value.
    """
    there, found = np.isfinite(values), []
    for other in design().T:
        sides = values[there & other], values[there & ~other]
        found.append(sides[0].mean() - sides[1].mean() if all(map(len, sides)) else np.nan)
    return np.array(found)


def _others(run: int) -> list[Reading]:
    """The readings of which a run has the other option."""
    return [reading for reading, other in zip(READINGS, design()[run], strict=True) if other]


def _configured(scale: Scale, chosen: Sequence[Reading], task: str, algorithm: str, **options: Any) -> Any:
    merged: dict[str, Any] = {}
    for reading in chosen:
        merged |= {**reading.options, **reading.by_task.get(task, {}), **reading.by_algorithm.get(algorithm, {})}
    seed = scale.seed + SEED_OFFSET
    return configured(
        scale, task, algorithm, "corrected", **{**merged, **options, "seed": seed, "evaluation_interval": None}
    )


def read_every_way(folder: Path, console: Console, scale: Scale = CONFIRMATORY) -> Evidence:
    """The paper's comparisons over combinations of readings: where each claim holds, and which reading decides it."""
    by_run = [cells(scale, run) for run in range(len(design()))]
    outcomes = run_cells("every reading", list(itertools.chain(*by_run)), folder / "readings", console)
    judgements, diverged = {}, []
    for run, own in enumerate(by_run):
        results = [outcomes[cell.name] for cell in own]
        diverged.append((sum(map(diverged_rounds, results)), sum(result.rounds.height for result in results)))
        # A margin in the run's own units: another reward has another scale.
        margins = pilot_of(outcomes, scale.seed, label(run))
        judgements[label(run)] = judge(outcomes, label(run), margins, only=COMPARISONS)
    rounds = ", ".join(f"{ROUNDS[task]} on {task}" for task in TASKS)
    return evidence_of(
        "readings",
        judgements,
        [shares_table(judgements), runs_table(judgements, diverged)],
        seed=scale.seed + SEED_OFFSET,
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
        found = effects(weakest)
        order = np.argsort(-np.abs(np.nan_to_num(found)))
        first, second = (READINGS[int(index)] for index in order[:2])
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
        others = [reading.row for reading in _others(run)]
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


def readings_section(evidence: Evidence) -> Section:
    """In how many combinations of readings claims hold."""
    count = len(evidence.judgements)
    held = sum(judgement.verdict == "holds" for judgements in evidence.judgements.values() for judgement in judgements)
    asked = sum(len(judgements) for judgements in evidence.judgements.values())
    return Section(
        name="readings",
        title="Every reading",
        paper_says="Nothing: where the paper is silent or contradicts itself, there are readings.",
        found=(
            f"Eleven readings in the {count} runs of Plackett and Burman's design. Of {asked} verdicts (five claims in "
            f"every run, intervals corrected for these alone) {held} are 'holds'." + evidence.made()
        ),
        tables=tuple(evidence.tables),
    )
