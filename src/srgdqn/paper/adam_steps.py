"""Adam at every inner step: does variance reduction do what the paper promises, at equal queries?

The rule, written before any round of the seeds that it is for (43,001 on):

- *Arms*, with the readings `mnih`, on the three tasks at the paper's budgets: Adam at every inner step along SRG's
  direction, along SVRG's, along plain gradients with b = 1 and with b = 2, along full-batch gradients
  (`dqn-adam-repeated`), and once per batch (`dqn-adam`). All draw the same batches; those with equal b the same picks.
- Every arm's α is tuned by `paper.tuning_search` on pilot seeds, four values to a decade. A tuned arm below its
  untuned self at 99 % is a defect of the tuning, and is shown as one.
- *Score*: the final score. A diverged round scores the worst finished round among all arms of the study on the task,
  with either α, or the random policy's mean where that is worse.
- *The question* is asked at equal queries: SRG and SVRG each against plain gradients with b = 2, which ask for as many
  gradients per batch (N + 2M). Each of these six contrasts (three tasks × SRG, SVRG) has p⁺ and p⁻ as `claims.verdicts`
  has them, with its margins and 100,000 joint resamples of rounds; Holm's procedure at 2.5 % over the six P⁺ and, apart
  from it, over the six P⁻.
- On a task, "variance reduction does what the paper promises" is *moot* if none of SRG, SVRG and plain gradients with
  b = 2 has learned (p⁺ of arm − untrained agent at most 0.025 / 3), or if both contrasts are void; it *holds* if P⁺ of
  SRG or of SVRG is rejected; it *fails* if P⁻ of every contrast that is not void is rejected; it is *undecided*
  otherwise. The marks `small` and `below random` are those of all verdicts, the first only if each contrast that holds
  has it.
- SRG and SVRG against plain gradients with b = 1, against `dqn-adam` and against `dqn-adam-repeated`, which ask for
  other numbers of gradients, are shown. These 18 contrasts have a Holm correction of their own and decide nothing. So
  are all arms' scores after as many steps, queries and seconds as plain gradients with b = 2 spend.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from srgdqn.config.algorithms import ADAM_STEPS
from srgdqn.figures.charts import STYLES, Chart, Panel, Series
from srgdqn.paper.arm_columns import NOTE, of_finished
from srgdqn.paper.cells import Console, run_cells
from srgdqn.paper.claims.evidence import Evidence, evidence_of
from srgdqn.paper.claims.verdicts import (
    MARGINS,
    RESAMPLES,
    REWARDS,
    Case,
    Judgement,
    Verdict,
    arms_above,
    higher,
    judge,
    measure,
    seed_of,
)
from srgdqn.paper.claims.wording import differences
from srgdqn.paper.equal_cost import COSTS, Cost, Round, curve_rows, rounds_of, scores_after, total_cost
from srgdqn.paper.experiment import RANDOM, UNTRAINED, YARDSTICKS, Outcomes, interval_text
from srgdqn.paper.halving import PAPERS_OWN, Choice
from srgdqn.paper.report.contents import Aside, Section, Table
from srgdqn.paper.report.first_screen import percent
from srgdqn.paper.scores import Scores
from srgdqn.paper.studies.figure_2 import TASKS
from srgdqn.paper.tuned_settings import (
    Group,
    below_own,
    defects_sentence,
    fresh_cells,
    group_of,
    is_defect,
    seconds_per_step,
    step_size_text,
    times_cell,
    tuned_runs,
)
from srgdqn.paper.tuning_search import PROCEDURE, Arm, Procedure, tune
from srgdqn.results.result import Result
from srgdqn.results.statistics import Interval

READINGS = "mnih"
SEED = 43_001
ROUNDS: Mapping[str, int] = {"MountainCar": 1_000, "Pendulum": 400, "CartPole": 600}
KIND = "adam-steps"
FINE = dataclasses.replace(PROCEDURE, values_per_decade=4)
"""There is one step size to tune, and so room for a finer grid."""

SRG, SVRG, PLAIN, PLAIN_2 = ADAM_STEPS
FULL, ONCE = "dqn-adam-repeated", "dqn-adam"
ARMS = (SRG, SVRG, PLAIN_2, PLAIN, FULL, ONCE)
REDUCED = (SRG, SVRG)
_BESIDE = (PLAIN, ONCE, FULL)
_NAMES = {
    SRG: "SRG",
    SVRG: "SVRG",
    PLAIN: "plain gradients, b = 1",
    PLAIN_2: "plain gradients, b = 2",
    FULL: "full batch",
    ONCE: "one Adam step per batch",
}
_CURVES = "adam-steps-curves"
_X_LABELS = {"steps": "environment steps", "queries": "gradient queries", "seconds": "seconds of one core per round"}


# Judging


class Answer(NamedTuple):
    """Whether variance reduction does what the paper promises on a task."""

    verdict: Verdict
    marks: tuple[str, ...]
    contrasts: tuple[Judgement, ...]
    """SRG and SVRG against plain gradients with b = 2."""


class Answers(NamedTuple):
    """The answers by task, and the contrasts that decide nothing."""

    tasks: dict[str, Answer]
    beside: list[Judgement]


def judged(scores: Mapping[str, Mapping[str, Scores]], resamples: int = RESAMPLES) -> Answers:
    """The rule above, given all arms' and yardsticks' scores by task."""
    asked, beside = {}, []
    for task, mine in scores.items():
        seed = seed_of(KIND, task)
        pairs = [(ours, theirs) for theirs in (PLAIN_2, *_BESIDE) for ours in REDUCED]
        contrasts = [
            higher(f"{_NAMES[a]} against {_NAMES[b]}", mine[a], mine[b], MARGINS[task], REWARDS[task]) for a, b in pairs
        ]
        measured = dict(zip(pairs, measure(contrasts, seed, resamples), strict=True))
        arms = {name: mine[name] for name in (*REDUCED, PLAIN_2)}
        learned, beats = (arms_above(arms, mine[each].values, seed, resamples) for each in (UNTRAINED, RANDOM))
        for (ours, theirs), each in measured.items():
            name = f"{task}: {each.label}"
            if theirs == PLAIN_2:
                asked[task, ours] = Case(name, (each,), learned=learned, beats_random=beats)
            else:
                beside.append(Case(name, (each,)))
    decided = dict(zip(asked, judge(list(asked.values())), strict=True))
    answers = {task: answer_of([decided[task, ours] for ours in REDUCED]) for task in scores}
    return Answers(answers, judge(beside))


def answer_of(contrasts: Sequence[Judgement]) -> Answer:
    """The answer on a task from the verdicts on its contrasts: one that holds is enough, and all must fail."""
    left = [each for each in contrasts if each.verdict != "moot"]
    holding = [each for each in left if each.verdict == "holds"]
    verdict: Verdict = "undecided"
    if not left:
        verdict = "moot"
    elif holding:
        verdict = "holds"
    elif all(each.verdict == "fails" for each in left):
        verdict = "fails"
    marks = ["small"] if holding and all("small" in each.marks for each in holding) else []
    if any("below random" in each.marks for each in contrasts):
        marks.append("below random")
    return Answer(verdict, tuple(marks), tuple(contrasts))


# The command


def run(
    folder: Path,
    console: Console,
    procedure: Procedure = FINE,
    rounds: Mapping[str, int] = ROUNDS,
    seed: int = SEED,
    resamples: int = RESAMPLES,
) -> Evidence:
    """Every arm's α tuned on pilot seeds, the arms compared on fresh ones, and the answers."""
    place = folder / KIND
    arms = [Arm(task, name, READINGS) for task in TASKS for name in ARMS]
    tuned = tune(arms, place, console, procedure, reference=ARMS)
    groups: dict[str, Group] = {}
    costs: dict[str, TaskCosts] = {}
    for task in TASKS:  # one after the other, as their runs are large
        mine = {arm: choice for arm, choice in tuned.choices.items() if arm.task == task}
        cells = fresh_cells(mine, procedure, rounds[task], seed)
        outcomes = run_cells(f"Adam steps, {task}", cells, place, console)
        times = times_cell(task, READINGS, ARMS, procedure)
        measured = run_cells(f"seconds per step, {task}", [times], place, console)[times.name]
        groups[task] = group_of(outcomes, mine, ARMS)
        costs[task] = costs_of(outcomes, mine, groups[task].floor, seconds_per_step(measured))
    answers = judged({task: group.tuned for task, group in groups.items()}, resamples)
    checks = {
        arm: below_own(groups[arm.task], arm.algorithm)
        for arm, choice in tuned.choices.items()
        if choice.candidate != PAPERS_OWN
    }
    tables = [
        scores_table(tuned.choices, groups, costs, checks, procedure),
        costs_table(costs),
        contrasts_table(answers),
        curves_table(costs),
    ]
    evidence = evidence_of(
        KIND,
        {},
        tables,
        seed=seed,
        rounds=", ".join(f"{count} on {task}" for task, count in rounds.items()),
        seconds=tuned.seconds + sum(group.seconds for group in groups.values()),
    )
    about = {
        "verdicts": {task: answer.verdict for task, answer in answers.tasks.items()},
        "found": [*(answer_sentence(task, answer) for task, answer in answers.tasks.items()), defects_sentence(checks)],
    }
    return dataclasses.replace(evidence, about={**evidence.about, **about})


class TaskCosts(NamedTuple):
    """What the arms of a task spend, and what they come to at equal cost."""

    per_batch: Mapping[str, float]
    """Gradient queries per batch, by algorithm."""
    totals: Mapping[str, Mapping[Cost, float]]
    """What a round spends until its end."""
    at_equal: Mapping[str, Mapping[Cost, float]]
    """The mean score after as much as plain gradients with b = 2 spend."""
    curves: Mapping[str, list[dict[str, float | None]]]


def costs_of(
    outcomes: Outcomes, choices: Mapping[Arm, Choice], floor: float, seconds: Mapping[str, float]
) -> TaskCosts:
    """The costs of all arms of a task; a diverged round scores the floor, and a step takes so many `seconds`."""
    runs = tuned_runs(outcomes, choices)
    rounds = {name: rounds_of(run, seconds[name]) for name, run in runs.items()}
    totals = {name: {cost: total_cost(mine, cost) for cost in COSTS} for name, mine in rounds.items()}
    return TaskCosts(
        {name: queries_per_batch(run) for name, run in runs.items()},
        totals,
        {name: _at_equal(mine, totals[PLAIN_2], floor) for name, mine in rounds.items()},
        {name: curve_rows(mine) for name, mine in rounds.items()},
    )


def _at_equal(rounds: list[Round], spent: Mapping[Cost, float], floor: float) -> dict[Cost, float]:
    return {cost: float(np.mean(scores_after(rounds, cost, spent[cost], floor))) for cost in COSTS}


def queries_per_batch(result: Result) -> float:
    """Gradient queries of an outer iteration."""
    queries, batches = (int(result.rounds[name].sum()) for name in ("queries", "outer_iterations"))
    return queries / max(1, batches)


# Showing


def scores_table(
    choices: Mapping[Arm, Choice],
    groups: Mapping[str, Group],
    costs: Mapping[str, TaskCosts],
    checks: Mapping[Arm, Interval],
    procedure: Procedure = FINE,
) -> Table:
    """What every arm came to, and what it spends."""
    rows = []
    for task, group in groups.items():
        for name in (*ARMS, *YARDSTICKS):
            arm = Arm(task, name, READINGS)
            difference = checks.get(arm)
            spends = name in costs[task].per_batch
            rows.append(
                {
                    "task": task,
                    "algorithm": name,
                    "α": step_size_text(procedure, arm, choices[arm], "alpha") if arm in choices else "–",
                    "queries per batch": f"{costs[task].per_batch[name]:.0f}" if spends else "–",
                    **group.columns[name],
                    "paper's α": f"{group.own[name].values.mean():.3f}",
                    "tuned − paper's [99 %]": "–" if difference is None else interval_text(difference),
                    "defect": "–" if difference is None else "yes" if is_defect(difference) else "no",
                }
            )
    note = (
        f"{NOTE} A diverged round scores the worst round that finished in any of these arms, or the random policy's "
        "mean where that is worse. α at an edge of its grid is marked *. Where the paper's own α was chosen there is "
        "nothing to compare. Defect: worse than with the paper's own α at 99 %."
    )
    return Table("adam-steps-scores", "Adam at every inner step, α tuned", pl.DataFrame(rows), note)


def costs_table(costs: Mapping[str, TaskCosts]) -> Table:
    """What arms come to at equal steps, queries and seconds."""
    rows = [
        {"task": task, "algorithm": name}
        | {f"{cost} per round": f"{mine.totals[name][cost]:.3g}" for cost in COSTS}
        | {f"score at equal {cost}": f"{mine.at_equal[name][cost]:.3f}" for cost in COSTS}
        for task, mine in costs.items()
        for name in ARMS
    ]
    note = (
        f"At equal cost: the mean over the last fifth of what {PLAIN_2} spends in a whole round; an arm that spends "
        "less in all has its own last fifth. Per round: of rounds that finished. Seconds: steps times what "
        "a step costs, measured for all arms in turn on one core of the machine that ran this."
    )
    return Table("adam-steps-costs", "At equal steps, gradient queries and seconds", pl.DataFrame(rows), note)


def contrasts_table(answers: Answers) -> Table:
    """Every contrast of the study."""
    families = [(each, "equal") for answer in answers.tasks.values() for each in answer.contrasts]
    families += [(each, "other") for each in answers.beside]
    rows: list[dict[str, Any]] = [
        {
            "task": judgement.name.split(": ")[0],
            "contrast": contrast.label,
            "queries": queries,
            "difference [95 %]": contrast.void or contrast.unit.text(contrast.interval),
            "p⁺": f"{contrast.p_holds:.2g}",
            "p⁻": f"{contrast.p_fails:.2g}",
            "finding": {"holds": "above", "fails": "not above by what matters"}.get(
                judgement.verdict, judgement.verdict
            ),
        }
        for judgement, queries in families
        for contrast in judgement.contrasts
    ]
    note = (
        "Only contrasts at equal queries per batch decide. p⁺ speaks for a difference above 0, p⁻ for one below what "
        "would matter (0.0056, 0.222 and 0.444 on MountainCar, Pendulum and CartPole). Holm's procedure at 2.5 % over "
        "the six contrasts at equal queries and, apart from them, over the eighteen others, for each side."
    )
    return Table("adam-steps-contrasts", "Variance reduction against plain gradients", pl.DataFrame(rows), note)


def curves_table(costs: Mapping[str, TaskCosts]) -> Table:
    """The points of the learning curves."""
    rows = [
        {"task": task, "algorithm": name, **point}
        for task, mine in costs.items()
        for name, points in mine.curves.items()
        for point in points
    ]
    return Table(_CURVES, "Learning curves", pl.DataFrame(rows))


def answer_sentence(task: str, answer: Answer) -> str:
    """The answer on a task in words."""
    effects = "; ".join(measured.text() for each in answer.contrasts for measured in each.contrasts)
    marks = f" ({', '.join(answer.marks)})" if answer.marks else ""
    words = {
        "holds": "variance reduction does what the paper promises",
        "fails": "variance reduction does not do what the paper promises",
        "undecided": "it cannot be told whether variance reduction does what the paper promises",
        "moot": "there is nothing to compare",
    }[answer.verdict]
    return f"On {task} {words}{marks}: {effects}."


class _Told(NamedTuple):
    """The study's tables as a reader's sentences need them."""

    scores: Mapping[tuple[str, str], Mapping[str, str]]
    """By task and algorithm."""
    contrasts: Mapping[tuple[str, str], Mapping[str, str]]
    """By task and label."""
    costs: Mapping[tuple[str, str], Mapping[str, str]]
    """By task and algorithm."""

    def score(self, task: str, name: str) -> float:
        return float(self.scores[task, name]["score"].split(" ")[0])

    def difference(self, task: str, ours: str, theirs: str) -> tuple[Interval, str]:
        """The difference with its interval, and its unit; not a number where it is void."""
        text = self.contrasts[task, f"{_NAMES[ours]} against {_NAMES[theirs]}"]["difference [95 %]"]
        found = re.fullmatch(r"(\S+) (.*) \[(\S+), (\S+)\]", text)
        if found is None:
            return Interval(math.nan, math.nan, math.nan), ""
        return Interval(float(found[1]), float(found[3]), float(found[4])), found[2]

    def success(self, task: str, name: str) -> int | None:
        """Per cent of greedy episodes; None where success is not defined."""
        found = re.fullmatch(r"(\d+) ?%", self.scores[task, name]["success"])
        return int(found[1]) if found else None


def _told(evidence: Evidence) -> _Told:
    frames = {table.name: table.frame for table in evidence.tables}
    return _Told(
        {(row["task"], row["algorithm"]): row for row in frames["adam-steps-scores"].iter_rows(named=True)},
        {(row["task"], row["contrast"]): row for row in frames["adam-steps-contrasts"].iter_rows(named=True)},
        {(row["task"], row["algorithm"]): row for row in frames["adam-steps-costs"].iter_rows(named=True)},
    )


def in_brief(evidence: Evidence) -> Aside:
    """The answer for the first screen, from the verdicts and the tables: at most three sentences."""
    told, verdicts = _told(evidence), evidence.about["verdicts"]
    found = [
        f"At equal gradient queries per batch and with every α tuned (readings {READINGS}), {_verdicts(verdicts)}."
    ]
    gains = [_gain(told, task) for task, verdict in verdicts.items() if verdict == "holds"]
    if gains:
        found.append(f"{'; '.join(gains)}.".replace("on ", "On ", 1))
    return Aside("And if Adam makes every inner step?", (*found, *_stronger(told, list(verdicts))), KIND)


def _gain(told: _Told, task: str) -> str:
    """Who gains on a task, by how much, and whether success falls."""
    apart = {ours: told.difference(task, ours, PLAIN_2) for ours in REDUCED}
    gaining = {ours: interval.estimate for ours, (interval, _) in apart.items() if interval.low > 0}
    sizes = " and ".join(_sizes(list(gaining.values())))
    names = " and ".join(_NAMES[ours] for ours in gaining)
    verb = "add" if len(gaining) > 1 else "alone adds"
    falls = _success(told, task).split(":")[0].replace("; but", ", but")
    return f"on {task} {names} {verb} {sizes} {apart[SRG][1] or apart[SVRG][1]}{falls}"


def _sizes(values: Sequence[float]) -> list[str]:
    """Sizes above 0 with as many decimals as the smallest needs for two digits.

    >>> _sizes([0.0702, 0.0996]), _sizes([40.2])
    (['0.070', '0.100'], ['40'])
    """
    decimals = max((max(0, 1 - math.floor(math.log10(value))) for value in values), default=0)
    return [f"{value:.{decimals}f}" for value in values]


def _verdicts(verdicts: Mapping[str, str]) -> str:
    words = {
        "holds": "variance reduction pays on {}",
        "fails": "it does not on {}",
        "undecided": "it cannot be told on {}",
        "moot": "there is nothing to compare on {}",
    }
    by_verdict = {each: [task for task, found in verdicts.items() if found == each] for each in words}
    if not by_verdict["holds"]:
        words["fails"] = "variance reduction does not pay on {}"
    return "; ".join(words[each].format(" and ".join(tasks)) for each, tasks in by_verdict.items() if tasks)


def _effects(told: _Told, task: str) -> str:
    """What SRG and SVRG add on a task, and what becomes of success."""
    parts = [_effect(_NAMES[ours], *told.difference(task, ours, PLAIN_2)) for ours in REDUCED]
    return f"On {task} {', and '.join(parts)}{_success(told, task)}.{_at_equal_total(told, task)}"


def _effect(name: str, interval: Interval, unit: str) -> str:
    if not math.isfinite(interval.estimate):
        return f"{name} is not compared"
    estimate, low, high = (each.replace("-", "−") for each in differences(interval))
    if interval.low <= 0 <= interval.high:
        return f"{name} makes no clear difference, {estimate} {unit} [{low}, {high}]"
    verb = "adds" if interval.low > 0 else "costs"
    return f"{name} {verb} {estimate.lstrip('+−')} {unit} [{low}, {high}]"


def _at_equal_total(told: _Told, task: str) -> str:
    """Where arms spend other totals, as episodes are longer or shorter: their scores at equal total queries."""
    names = (*REDUCED, PLAIN_2)
    if len({told.costs[task, name]["queries per round"] for name in names}) == 1:
        return ""
    srg, svrg, plain = (f"{float(told.costs[task, name]['score at equal queries']):.3g}" for name in names)
    return (
        " Rounds there spend different totals, as episodes are longer where an agent is better: at equal total queries "
        f"SRG scores {srg} and SVRG {svrg} against {plain}."
    )


def _success(told: _Told, task: str) -> str:
    """Where reward rises and fewer greedy episodes succeed, what to think of it."""
    ours, theirs = [told.success(task, name) for name in REDUCED], told.success(task, PLAIN_2)
    known = [each for each in ours if each is not None]
    if theirs is None or not known or max(known) >= theirs:
        return ""
    shares = " and ".join(f"{each} %" for each in known)
    paid = ": the shaped reward pays for height, not for arriving" if task == "MountainCar" else ""
    return f"; but fewer greedy episodes succeed, {shares} against {theirs} %{paid}"


def _stronger(told: _Told, tasks: Sequence[str]) -> list[str]:
    """Which other ways to use Adam score more, in a sentence."""
    beside = "; ".join([*_full_batch(told, tasks), *_single(told, tasks)])
    return [f"{beside[0].upper()}{beside[1:]}."] if beside else []


def _full_batch(told: _Told, tasks: Sequence[str]) -> list[str]:
    """Where full-batch steps score more than SRG and SVRG, at how many times the queries."""
    queries = {name: float(told.scores[tasks[0], name]["queries per batch"]) for name in (FULL, PLAIN_2)}
    full = [task for task in tasks if all(told.difference(task, ours, FULL)[0].high < 0 for ours in REDUCED)]
    if not full:
        return []
    times = f"{queries[FULL] / queries[PLAIN_2]:.0f} times the queries"
    return [f"full-batch steps, at {times}, score more than both on {' and '.join(full)}"]


def _single(told: _Told, tasks: Sequence[str]) -> list[str]:
    """Where a single Adam step per batch scores more than SRG."""
    once = [task for task in tasks if told.difference(task, SRG, ONCE)[0].high < 0]
    if not once:
        return []
    beside = " and ".join(f"{task} ({told.score(task, ONCE):.3g} against {told.score(task, SRG):.3g})" for task in once)
    once_per_batch, ours = (float(told.scores[tasks[0], name]["queries per batch"]) for name in (ONCE, SRG))
    share = percent(once_per_batch / ours)
    return [f"a single Adam step per batch, tuned and at {share} of SRG's queries, beats SRG on {beside}"]


def chart_of(curves: pl.DataFrame, yardsticks: Mapping[tuple[str, str], float]) -> Chart:
    """The learning curves, which can be shown against steps, gradient queries and seconds; `yardsticks` are the scores
    of those who do not learn, by task and name.
    """
    panels = []
    for task in curves["task"].unique(maintain_order=True):
        mine = curves.filter(task=task)
        series = []
        for name in mine["algorithm"].unique(maintain_order=True):
            rows = mine.filter(algorithm=name)
            x: dict[str, np.ndarray] = {cost: rows[cost].to_numpy() for cost in COSTS}
            low, high = (rows[name_].cast(pl.Float64).to_numpy() for name_ in ("low", "high"))
            series.append(Series(name, STYLES[name], x, rows["mean"].to_numpy(), low, high))
        ends: dict[str, np.ndarray] = {cost: np.array([0.0, mine[cost].max()], float) for cost in COSTS}
        series += [
            Series(name, STYLES[name], ends, np.full(2, score))
            for (where, name), score in yardsticks.items()
            if where == task
        ]
        label = "return per episode" if task == "CartPole" else "reward per action"
        panels.append(Panel(task, label, _X_LABELS, tuple(series)))
    return Chart(
        "adam-steps",
        "Adam at every inner step",
        "Means over the rounds that have got so far, and their 95 % intervals, α tuned; each point is a twentieth of a "
        "round. Grey: what the random policy and the untrained agent score in the end. Can be shown against "
        "environment steps, gradient queries and seconds of one core.",
        tuple(panels),
    )


def section(evidence: Evidence) -> Section:
    """Whether variance reduction pays where every inner step is Adam's."""
    told = _told(evidence)
    yardsticks = {(task, name): told.score(task, name) for task, name in told.scores if name in YARDSTICKS}
    verdicts = evidence.about["verdicts"]
    curves = [table for table in evidence.tables if table.name == _CURVES]
    found = [
        f"At equal gradient queries per batch and with every α tuned, {_verdicts(verdicts)}. Compared are SRG and "
        "SVRG, each against plain gradients from two transitions a step (b = 2), which ask for as many gradients per "
        "batch.",
        " ".join(_effects(told, task) for task in verdicts),
        " ".join(
            [
                *_stronger(told, list(verdicts)),
                *evidence.about.get("found", ())[len(verdicts) :],
            ]
        ),
        evidence.made().strip(),
    ]
    return Section(
        name=KIND,
        title="Adam at every inner step, at equal queries per batch",
        paper_says="Nothing: in the paper inner steps have length η, and Adam makes one step per batch. It promises "
        "that variance-reduced gradients make learning better.",
        found="\n\n".join(part for part in found if part),
        charts=tuple(chart_of(table.frame, yardsticks) for table in curves),
        tables=tuple(_for_readers(table) for table in evidence.tables if table.name != _CURVES),
    )


def _for_readers(table: Table) -> Table:
    """A table in which numbers are written out."""
    written = [
        pl.col(name).map_elements(_written, pl.String) for name, kind in table.frame.schema.items() if kind == pl.String
    ]
    return dataclasses.replace(table, frame=of_finished(table.frame.with_columns(written)))


def _written(text: str) -> str:
    """A text of the tables as a reader wants it.

    >>> _written("5.94e+05"), _written("1e-05")
    ('594,000', '< 0.0001')
    """
    if re.fullmatch(r"\d(\.\d+)?e\+\d+", text):
        return f"{float(text):,.0f}"
    if re.fullmatch(r"\d(\.\d+)?e-0[5-9]", text):
        return "< 0.0001"
    return text
