"""Tuned settings: every arm with the η and α that `paper.tuning_search` chose for it, on fresh seeds.

Whether SRG-DQN's final score is what C2 to C5 say is judged by the rules of `claims.verdicts`, for each set of readings
apart. Beside every tuned arm runs the same arm with the paper's own settings: a tuned arm below these at 99 % is a
defect of the tuning, and is shown as one.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from srgdqn.config.algorithms import PAPER
from srgdqn.paper.arm_columns import NOTE, ONLY_AT_THE_END, arm_columns
from srgdqn.paper.cells import Console, MeasurementCell, RunCell, run_cells
from srgdqn.paper.claims.evidence import Evidence, evidence_of
from srgdqn.paper.claims.verdicts import (
    MARGINS,
    RESAMPLES,
    REWARDS,
    Case,
    Contrast,
    Judgement,
    arms_above,
    higher,
    judge,
    measure,
    not_worse,
    seed_of,
)
from srgdqn.paper.claims.wording import p_text
from srgdqn.paper.equal_cost import COSTS_NOTE, cost_rows
from srgdqn.paper.experiment import RANDOM, UNTRAINED, YARDSTICKS, Outcomes, configured, interval_text, seconds_of
from srgdqn.paper.halving import PAPERS_OWN, Choice, Grid
from srgdqn.paper.measurements import step_times
from srgdqn.paper.report.contents import Section, Table
from srgdqn.paper.scale import PAPER_SCALE, SETS
from srgdqn.paper.scores import REFERENCE, Scores, floor_of, scored, values_of
from srgdqn.paper.studies.figure_2 import TASKS
from srgdqn.paper.tuning_search import PROCEDURE, Arm, Procedure, step_sizes, tune
from srgdqn.results.result import Result
from srgdqn.results.statistics import Interval, paired_bootstrap_difference
from srgdqn.runs.measurement import Measured
from srgdqn.session.prepare import with_kernel

ARMS = (*PAPER, "sgd-inner", "sgd-inner-adam", "dqn-adam", "dqn-adam-repeated")
SEED = 41_001
ROUNDS: Mapping[str, int] = {"MountainCar": 1_000, "Pendulum": 400, "CartPole": 600}

_OURS = "srg-dqn"
_OTHERS = ("svr-dqn", "dqn-sgd", "srg-dqn-no-adam")
_PARTS = ("srg-dqn-no-adam", "sgd-inner-adam")
_BESIDE = ("dqn-adam", "dqn-adam-repeated")
_DEFECT_LEVEL = 0.99
_TURNS = 6  # of the measurement of seconds per step


def run(
    folder: Path,
    console: Console,
    procedure: Procedure = PROCEDURE,
    rounds: Mapping[str, int] = ROUNDS,
    seed: int = SEED,
    resamples: int = RESAMPLES,
) -> Evidence:
    """Every arm's step sizes tuned on pilot seeds, and what comes of them on fresh ones."""
    place = folder / "tuned"
    arms = [Arm(*each) for each in itertools.product(TASKS, ARMS, SETS)]
    tuned = tune(arms, place, console, procedure)
    groups, costs = {}, list[dict[str, str]]()
    for task, readings in itertools.product(TASKS, SETS):  # one after the other, as their runs are large
        mine = {arm: each for arm, each in tuned.choices.items() if (arm.task, arm.readings) == (task, readings)}
        cells = fresh_cells(mine, procedure, rounds[task], seed)
        outcomes = run_cells(f"tuned arms, {task}, {readings}", cells, place, console)
        groups[task, readings] = group_of(outcomes, mine)
        times = times_cell(task, readings, ARMS, procedure)
        measured = run_cells(f"seconds per step, {task}, {readings}", [times], place, console)[times.name]
        costs += costs_of(outcomes, mine, groups[task, readings].floor, seconds_per_step(measured))
    judgements = {each: judged({task: groups[task, each].tuned for task in TASKS}, each, resamples) for each in SETS}
    checks = {
        arm: below_own(groups[arm.task, arm.readings], arm.algorithm)
        for arm, choice in tuned.choices.items()
        if choice.candidate != PAPERS_OWN
    }
    tables = [
        scores_table(tuned.choices, groups, checks, procedure),
        search_table(tuned.choices, procedure),
        verdicts_table(judgements),
        beside_table(groups),
        Table("tuned-costs", "At equal steps, gradient queries and seconds", pl.DataFrame(costs), COSTS_NOTE),
    ]
    evidence = evidence_of(
        "tuned",
        {},
        tables,
        seed=seed,
        rounds=", ".join(f"{count} on {task}" for task, count in rounds.items()),
        seconds=tuned.seconds + sum(group.seconds for group in groups.values()),
    )
    found = [
        verdicts_sentence(judgements),
        beside_sentence(groups),
        *still_sentences({arm: choice.candidate.eta for arm, choice in tuned.choices.items()}, procedure),
        defects_sentence(checks),
        marks_sentence(tuned.choices),
    ]
    return dataclasses.replace(evidence, about={**evidence.about, "found": found})


def fresh_cells(choices: Mapping[Arm, Choice], procedure: Procedure, rounds: int, seed: int) -> list[RunCell]:
    """Every arm with the paper's own settings and, where others were chosen, with these; and both yardsticks."""
    cells = {}
    for arm, choice in choices.items():
        common = {"rounds": rounds, "seed": seed, "evaluation_interval": ONLY_AT_THE_END}
        options = common | dict(procedure.shorter.get(arm.task, {}))
        yardsticks = ((arm._replace(algorithm=name), PAPERS_OWN) for name in YARDSTICKS)
        for each, candidate in ((arm, PAPERS_OWN), (arm, choice.candidate), *yardsticks):
            tuned = candidate != PAPERS_OWN
            settings = procedure.settings(each, candidate) if tuned else {}
            configuration = configured(PAPER_SCALE, each.task, each.algorithm, each.readings, **options, **settings)
            cells[cell_name(each, tuned=tuned)] = configuration
    return list(itertools.starmap(RunCell, cells.items()))


def cell_name(arm: Arm, *, tuned: bool) -> str:
    """The name of an arm's cell on fresh seeds."""
    return f"{arm.task}-{arm.algorithm}-{arm.readings}-{'tuned' if tuned else 'own'}"


class Group(NamedTuple):
    """All arms of a task and set of readings, by algorithm, the yardsticks among them."""

    tuned: Mapping[str, Scores]
    own: Mapping[str, Scores]
    """With the paper's own settings."""
    columns: Mapping[str, Mapping[str, str]]
    """What the table says of each tuned arm."""
    floor: float
    """What a diverged round scores."""
    seconds: float


def group_of(outcomes: Outcomes, choices: Mapping[Arm, Choice], reference: Sequence[str] = REFERENCE) -> Group:
    """The arms' scores; a diverged round scores the same with both settings: the worst of either's finished rounds.

    `reference` are the algorithms among whose rounds the worst one is taken.
    """
    first = next(iter(choices))
    names = (*(arm.algorithm for arm in choices), *YARDSTICKS)
    own = {name: outcomes[cell_name(first._replace(algorithm=name), tuned=False)] for name in names}
    tuned = tuned_runs(outcomes, choices)
    changed = {arm.algorithm for arm, choice in choices.items() if choice.candidate != PAPERS_OWN}
    runs = own | {f"{name} tuned": tuned[name] for name in changed}
    worst = [*reference, *(f"{name} tuned" for name in reference)]
    values = {name: values_of(run, "final") for name, run in runs.items()}
    scores = scored(values, among=worst)
    floor = floor_of({name: each.means for name, each in values.items()}, among=worst)
    best = {name: scores[f"{name} tuned" if name in changed else name] for name in names}
    columns = {name: arm_columns(best[name], tuned.get(name, own[name])) for name in names}
    return Group(best, {name: scores[name] for name in names}, columns, floor, seconds_of(outcomes, outcomes))


def tuned_runs(outcomes: Outcomes, choices: Mapping[Arm, Choice]) -> dict[str, Result]:
    """Each algorithm's run with its chosen settings."""
    return {
        arm.algorithm: outcomes[cell_name(arm, tuned=choice.candidate != PAPERS_OWN)] for arm, choice in choices.items()
    }


def times_cell(task: str, readings: str, algorithms: Sequence[str], procedure: Procedure) -> MeasurementCell:
    """What a step of each algorithm costs: measured in turn, and alone on this machine."""
    options = procedure.shorter.get(task, {})
    configurations = {
        name: with_kernel(configured(PAPER_SCALE, task, name, readings, **options)) for name in algorithms
    }
    plan = step_times.Plan(configurations, _TURNS)
    return MeasurementCell(f"{task}-{readings}-step-times", step_times.measure, plan, alone=True)


def seconds_per_step(measured: Measured) -> dict[str, float]:
    """The median over turns, by algorithm."""
    medians = measured.tables["times"].group_by("name").agg(pl.col("seconds_per_step").median())
    return {str(name): float(seconds) for name, seconds in medians.iter_rows()}


def costs_of(
    outcomes: Outcomes, choices: Mapping[Arm, Choice], floor: float, seconds: Mapping[str, float]
) -> list[dict[str, str]]:
    """What the arms of a task and set of readings score at equal cost, with the paper's own step sizes and tuned."""
    first = next(iter(choices))
    own = {arm.algorithm: outcomes[cell_name(arm, tuned=False)] for arm in choices}
    return [
        {"task": first.task, "readings": first.readings, "step sizes": sizes, **row}
        for sizes, runs in (("the paper's", own), ("tuned", tuned_runs(outcomes, choices)))
        for row in cost_rows(runs, seconds, _OURS, floor)
    ]


# Judging


def judged(scores: Mapping[str, Mapping[str, Scores]], readings: str, resamples: int = RESAMPLES) -> list[Judgement]:
    """The verdicts on what C2 to C5 say of final scores, given all arms' scores by task."""
    cases = []
    for (task, mine), name in zip(scores.items(), ("C2", "C3", "C4"), strict=True):
        kind = not_worse if task == "CartPole" else higher
        cases.append(_case(f"{name} (reward)", task, mine, _OTHERS, kind, readings, resamples))
    for task, mine in scores.items():
        cases.append(_case(f"C5 ({task})", task, mine, _PARTS, higher, readings, resamples))
    return judge(cases)


def _case(
    name: str,
    task: str,
    scores: Mapping[str, Scores],
    others: Sequence[str],
    kind: Any,
    readings: str,
    resamples: int,
) -> Case:
    contrasts: list[Contrast] = [
        kind(f"SRG-DQN against {other}", scores[_OURS], scores[other], MARGINS[task], REWARDS[task]) for other in others
    ]
    seed = seed_of("tuned", readings, name)
    arms = {each: scores[each] for each in (_OURS, *others)}
    learned, beats = (arms_above(arms, scores[each].values, seed, resamples) for each in (UNTRAINED, RANDOM))
    return Case(name, tuple(measure(contrasts, seed, resamples)), learned=learned, beats_random=beats)


def below_own(group: Group, algorithm: str) -> Interval:
    """The difference of an arm's tuned score from that with the paper's own settings, at 99 %."""
    tuned, own = group.tuned[algorithm], group.own[algorithm]
    return paired_bootstrap_difference(tuned.values, own.values, level=_DEFECT_LEVEL)


def is_defect(difference: Interval) -> bool:
    """Whether tuning has made an arm worse beyond doubt."""
    return difference.high < 0


# Showing


def scores_table(
    choices: Mapping[Arm, Choice],
    groups: Mapping[tuple[str, str], Group],
    checks: Mapping[Arm, Interval],
    procedure: Procedure = PROCEDURE,
) -> Table:
    """What every arm came to with its tuned settings, and beside it with the paper's own."""
    rows = []
    for (task, readings), group in groups.items():
        for name in (*ARMS, *YARDSTICKS):
            arm = Arm(task, name, readings)
            shown_sizes = {"η": "–", "α": "–"}
            if arm in choices:
                shown_sizes = {
                    "η": step_size_text(procedure, arm, choices[arm], "eta"),
                    "α": step_size_text(procedure, arm, choices[arm], "alpha"),
                }
            difference = checks.get(arm)
            rows.append(
                {"task": task, "readings": readings, "algorithm": name, **shown_sizes, **group.columns[name]}
                | {
                    "paper's η and α": f"{group.own[name].values.mean():.3f}",
                    "tuned − paper's [99 %]": "–" if difference is None else interval_text(difference),
                    "defect": "–" if difference is None else "yes" if is_defect(difference) else "no",
                }
            )
    note = (
        f"{NOTE} A diverged round scores the worst round that finished, or the random policy's mean where that is "
        "worse. A step size at an edge of its grid is marked *; a dash stands for one that is not used. Where the "
        "paper's own settings were chosen there is nothing to compare. Defect: worse than these at 99 %."
    )
    return Table("tuned-scores", "Scores with tuned step sizes", pl.DataFrame(rows), note)


def step_size_text(procedure: Procedure, arm: Arm, choice: Choice, axis: Any) -> str:
    """A chosen step size; one that is not used is a dash, one at an edge of its grid is marked."""
    used = dict(zip(("eta", "alpha"), step_sizes(arm.algorithm), strict=True))
    if not used[axis]:
        return "–"
    at_edge = any(side[0] == axis for side in choice.edges)
    return f"{procedure.settings(arm, choice.candidate)[axis]:.2g}{'*' if at_edge else ''}"


def search_table(choices: Mapping[Arm, Choice], procedure: Procedure = PROCEDURE) -> Table:
    """How every arm's step sizes were found."""
    rows = [
        {
            **arm._asdict(),
            "η": step_size_text(procedure, arm, choice, "eta"),
            "tried from, to": _range(procedure, arm, choice.grid, "eta"),
            "α": step_size_text(procedure, arm, choice, "alpha"),
            "tried from, to ": _range(procedure, arm, choice.grid, "alpha"),
            "widened": choice.widenings,
            "score on pilot seeds": f"{choice.trial.score:.3f}",
            "diverged": f"{choice.trial.diverged:.0%}",
            "marks": "; ".join(choice.marks),
        }
        for arm, choice in choices.items()
    ]
    factor = 10 ** (1 / procedure.values_per_decade)
    note = (
        f"Neighbours on a grid differ by a factor of {factor:.2f}. A grid whose best candidate lies at an edge is "
        "widened there, three times at most. A candidate with more than a twentieth of its rounds diverged is not "
        "chosen unless there is no other."
    )
    return Table("tuned-search", "How the step sizes were found", pl.DataFrame(rows), note)


def _range(procedure: Procedure, arm: Arm, grid: Grid, axis: str) -> str:
    bounds = getattr(grid, axis)
    if bounds == (0, 0):
        return "–"
    low, high = (procedure.settings(arm, PAPERS_OWN._replace(**{axis: each}))[axis] for each in bounds)
    return f"{low:.2g}, {high:.2g}"


def verdicts_table(judgements: Mapping[str, Sequence[Judgement]]) -> Table:
    """Every contrast and the verdicts."""
    rows = [
        {
            "claim": judgement.name,
            "readings": readings,
            "verdict": ", ".join((judgement.verdict, *judgement.marks)),
            "contrast": contrast.label,
            "difference [95 %]": contrast.void or contrast.unit.text(_without_margin(judgement, contrast.interval)),
            "p⁺": p_text(contrast.p_holds),
            "p⁻": p_text(contrast.p_fails),
        }
        for readings, mine in judgements.items()
        for judgement in mine
        for contrast in judgement.contrasts
    ]
    note = (
        "Final scores only; speed and steadiness are not judged here. p⁺ speaks for a difference above 0, p⁻ for one "
        "below what would matter; Holm's procedure at 2.5 % over the six verdicts of a set of readings, for each side "
        "apart. For C4 both are of the difference plus the margin: SRG-DQN must not be worse by it."
    )
    return Table("tuned-verdicts", "SRG-DQN against other arms, all tuned", pl.DataFrame(rows), note)


def _without_margin(judgement: Judgement, interval: Interval) -> Interval:
    """The difference itself, where a margin was added to it."""
    added = MARGINS["CartPole"] if judgement.name.startswith("C4") else 0.0
    return Interval(*(each - added for each in interval))


def beside_table(groups: Mapping[tuple[str, str], Group]) -> Table:
    """SRG-DQN beside Adam's steps along whole batches' gradients, which decides nothing."""
    rows = [
        {"task": task, "readings": readings, "against": other, "difference [95 %]": interval_text(difference)}
        for (task, readings), group in groups.items()
        for other, difference in _beside(group).items()
    ]
    note = (
        "Differences of final scores, all tuned; no claim speaks of them. dqn-adam makes one Adam step per batch, and "
        "dqn-adam-repeated 17, at 64 (Pendulum 32) and 17 times as many gradient queries per batch; SRG-DQN asks for "
        "96 (64)."
    )
    return Table("tuned-beside", "SRG-DQN beside Adam along whole batches", pl.DataFrame(rows), note)


def _beside(group: Group) -> dict[str, Interval]:
    ours = group.tuned[_OURS].values
    return {other: paired_bootstrap_difference(ours, group.tuned[other].values) for other in _BESIDE}


def beside_sentence(groups: Mapping[tuple[str, str], Group]) -> str:
    """How often SRG-DQN is ahead of Adam's steps along whole batches."""
    ahead = dict.fromkeys(_BESIDE, 0)
    for group in groups.values():
        for other, difference in _beside(group).items():
            ahead[other] += difference.low > 0
    told = " and ".join(f"{other} in {count}" for other, count in ahead.items())
    return f"Of {len(groups)} pairs of task and readings SRG-DQN is ahead (95 %) of {told}."


def still_sentences(etas: Mapping[Arm, int], procedure: Procedure = PROCEDURE) -> list[str]:
    """Where tuned SRG-DQN's inner steps hardly move, though Δ_M enters Adam; `etas` are exponents on the grid."""
    still = {
        f"{arm.task} with {arm.readings}": 10 ** (-eta / procedure.values_per_decade)
        for arm, eta in etas.items()
        if arm.algorithm == _OURS and eta <= -procedure.values_per_decade and _delta_enters_adam(arm)
    }
    if not still:
        return []
    told = ", ".join(f"{factor:.0f} times smaller than the paper's on {where}" for where, factor in still.items())
    return [
        f"SRG-DQN's η came out {told}: there inner steps hardly move, Δ_M is nearly the batch's gradient, and what "
        "remains is close to dqn-adam. There a gain over sgd-inner-adam, whose Adam process takes the gradient of a "
        "single transition, is largely that of a batch over one transition."
    ]


def _delta_enters_adam(arm: Arm) -> bool:
    return configured(PAPER_SCALE, *arm).optimiser.adam_input == "delta"


def verdicts_sentence(judgements: Mapping[str, Sequence[Judgement]]) -> str:
    """The verdicts in words."""
    told = {each: ", ".join(f"{one.name} {one.verdict}" for one in mine) for each, mine in judgements.items()}
    sets = [f"{each}: {verdicts}" for each, verdicts in told.items()]
    return f"With every arm's step sizes tuned by the same procedure, {'; '.join(sets)}."


def defects_sentence(checks: Mapping[Arm, Interval]) -> str:
    """Which tuned arms are worse than with the paper's own settings."""
    worse = [arm for arm, difference in checks.items() if is_defect(difference)]
    if not worse:
        return f"None of {len(checks)} arms with other settings than the paper's is below its untuned self at 99 %."
    listed = "; ".join(f"{arm.algorithm} on {arm.task}, {arm.readings}" for arm in worse)
    return f"A defect of the tuning: {len(worse)} of {len(checks)} arms are below their untuned selves ({listed})."


def marks_sentence(choices: Mapping[Arm, Choice]) -> str:
    """How many choices are marked."""
    edges = sum(bool(choice.edges) for choice in choices.values())
    lost = sum(choice.trial.barred for choice in choices.values())
    own = sum(choice.candidate == PAPERS_OWN for choice in choices.values())
    return (
        f"Of {len(choices)} choices {own} are the paper's own settings and {edges} lie at an edge of their grid; for "
        f"{lost} no candidate was found of which at most a twentieth of the rounds diverged."
    )


def section(evidence: Evidence) -> Section:
    """What tuning was found to change."""
    return Section(
        name="tuned",
        title="Tuned settings",
        paper_says="Nothing: the paper gives one η and one α per task, and does not say how they were chosen.",
        found=" ".join(evidence.about.get("found", ())) + evidence.made(),
        tables=tuple(evidence.tables),
    )
