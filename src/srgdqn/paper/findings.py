"""What came of the confirmatory run: its tables, and what the report says of them first."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import polars as pl

from srgdqn.config.configure import configure
from srgdqn.errors import InputError
from srgdqn.figures.charts import Chart
from srgdqn.learner.outer_iteration import queries_per_iteration
from srgdqn.paper.arm_columns import ARM_NAMES, NOTE, arm_columns, of_finished, share_text
from srgdqn.paper.claim_arms import mean_interval
from srgdqn.paper.claims.cases import NO_ADAM, OURS, SAME_UPDATES, SGD, SVR, Gathered
from srgdqn.paper.claims.evidence import Evidence
from srgdqn.paper.claims.paper_claims import CLAIMS, IN_A_SENTENCE, NOTES, WHY_CHANGED
from srgdqn.paper.claims.verdicts import REWARDS, Judgement, Measured, seed_of
from srgdqn.paper.claims.wording import differences, effect_text, p_text, parts_of, weakest
from srgdqn.paper.experiment import RANDOM, UNTRAINED, YARDSTICKS, Outcomes
from srgdqn.paper.report.contents import Aside, ClaimCard, FirstScreen, Part, Section, Table
from srgdqn.paper.report.first_screen import Difference, Score, counts_of, forest_chart, percent, score_table
from srgdqn.paper.scale import Scale
from srgdqn.paper.scores import scored, values_of
from srgdqn.paper.studies.figure_2 import TASKS, cell_name
from srgdqn.results.statistics import Interval

QUESTION = "Variance reduction, or merely 17 updates per batch?"
SHOWN_SETS = ("corrected", "printed", "mnih")
SET_MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "corrected": "repairs as little as possible",
        "printed": "follows the letter",
        "mnih": "adds DQN's target network and clipped errors",
    }
)
"""What each set does where the paper is silent or contradicts itself."""
BESIDE = {"mnih": "mnih-20"}
"""A set whose verdicts on C2 to C6 are shown with another period of the target network beside them."""
_PERIODS = {"mnih-20": "mnih at a target period of 20"}
_MOST_DIVERGED = 0.5
"""A contrast of means is void if more than this share of each arm's rounds diverged."""
_SOME_DIVERGED = 0.01
_REDUCED = (OURS, SVR, NO_ADAM, "svr-dqn-no-adam")
_AGAINST = {arm: ARM_NAMES[arm] for arm in (SAME_UPDATES, SVR, SGD, NO_ADAM)}
_DIGITS = {"MountainCar": 3, "Pendulum": 2, "CartPole": 1}
_COLUMNS = {
    RANDOM: "random policy",
    UNTRAINED: "untrained agent",
    SGD: "DQN with SGD",
    SAME_UPDATES: ARM_NAMES[SAME_UPDATES],
    SVR: "SVR-DQN",
    OURS: "SRG-DQN",
}
_SCORED = (
    "Reward per action in the last fifth of the steps; on CartPole, return of the last 100 episodes. In brackets: "
    "rounds that diverged, if any did. They score the worst that finished, or as the random policy if that is worse."
)


# Tables of the evidence


def score_rows(outcomes: Outcomes, readings: str, arms: Iterable[str]) -> list[dict[str, Any]]:
    """A row per task and arm: what it scored, and how many of its rounds diverged."""
    rows = []
    for task in TASKS:
        runs = {arm: outcomes[cell_name(task, readings, arm)] for arm in arms}
        scores = scored({arm: values_of(run, "final") for arm, run in runs.items()})
        for arm, run in runs.items():
            about = {"readings": readings, "task": task, "arm": arm, "mean": float(scores[arm].values.mean())}
            rows.append({**about, "share diverged": scores[arm].share, **arm_columns(scores[arm], run)})
    return rows


def contrast_rows(found: Gathered, readings: str) -> list[dict[str, Any]]:
    """A row per task and other arm: by how much SRG-DQN scores more, over all rounds, and over those that finished in
    both arms.
    """
    rows = []
    for task, arms in found.final.items():
        scores = scored(arms)
        for arm in _AGAINST:
            ours, theirs = scores[OURS], scores[arm]
            both = ~(ours.diverged | theirs.diverged)
            apart = ours.values - theirs.values
            seed = seed_of(readings, task, arm)
            every, survivors = (mean_interval(values, seed) for values in (apart, apart[both]))
            about = {"readings": readings, "task": task, "against": arm}
            diverged = (
                share_text(int(ours.diverged.sum()), len(apart)),
                share_text(int(theirs.diverged.sum()), len(apart)),
            )
            rows.append(
                {
                    **about,
                    **dict(zip(("estimate", "low", "high"), every, strict=True)),
                    **dict(zip(("of survivors", "survivors low", "survivors high"), survivors, strict=True)),
                    "rounds": len(apart),
                    "in both": int(both.sum()),
                    "SRG-DQN diverged": diverged[0],
                    "the other diverged": diverged[1],
                }
            )
    return rows


def interaction_rows(found: Gathered, readings: str) -> list[dict[str, Any]]:
    """A row per task: does the Adam process add more with variance reduction than without it?"""
    rows = []
    for task, arms in found.final.items():
        scores = {name: each.values for name, each in scored(arms).items()}
        values = (scores[OURS] - scores[NO_ADAM]) - (scores[SAME_UPDATES] - scores["sgd-inner"])
        interval = mean_interval(values, seed_of(readings, task, "interaction"))
        rows.append({"readings": readings, "task": task, **interval._asdict()})
    return rows


# What the report says first


def first_screen(evidence: Evidence, asides: tuple[Aside, ...] = ()) -> FirstScreen:
    """The first screen, from the verdicts and the tables of the evidence; `asides` are other studies' answers."""
    check_whole(evidence)
    scores, contrasts = (_frame(evidence, name) for name in ("scores", "contrasts"))
    made = cards(evidence)
    first, *more = (small_table(scores, each) for each in SHOWN_SETS)
    return FirstScreen(
        IN_A_SENTENCE,
        counts_of(made),
        QUESTION,
        answer(contrasts, scores),
        dataclasses.replace(first, note=f"{first.note} {diverging(scores)}"),
        forest(contrasts, scores),
        forest_table=forest_table(contrasts, scores),
        readings=SET_MEANINGS,
        counts_note=f"{counts_note(made)} {periods_note(evidence)}".strip(),
        more_tables=tuple(more),
        asides=asides,
    )


def _frame(evidence: Evidence, name: str) -> pl.DataFrame:
    return next(table.frame for table in evidence.tables if table.name == f"confirmation-{name}")


_NEEDED: Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = MappingProxyType(
    {
        "scores": ("arm", (*_COLUMNS, "sgd-inner"), ("mean", "share diverged")),
        "contrasts": ("against", tuple(_AGAINST), ("estimate", "low", "high")),
    }
)
"""By table: the column of arms, those that must be there for every set and task, and the columns of numbers."""


def check_whole(evidence: Evidence) -> None:
    """Raises an InputError unless the evidence has all that the first screen and the cards show."""
    names = {each: {judgement.name for judgement in found} for each, found in evidence.judgements.items()}
    missing = [f"the set {each}" for each in SHOWN_SETS if each not in names]
    missing += [
        f"{claim} with {each}" for each in SHOWN_SETS if each in names for claim in CLAIMS if claim not in names[each]
    ]
    frames = {table.name: table.frame for table in evidence.tables}
    for name, (column, arms, numbers) in _NEEDED.items():
        title = f"confirmation-{name}"
        if title not in frames:
            missing.append(f"the table {title}")
            continue
        absent = [each for each in ("readings", "task", column, *numbers) if each not in frames[title].columns]
        missing += [f"the column {each!r} of the table {title}" for each in absent]
        if not absent:
            rows = set(frames[title].select("readings", "task", column).iter_rows())
            places = itertools.product(SHOWN_SETS, TASKS, arms)
            missing += [f"the row {', '.join(place)} of the table {title}" for place in places if place not in rows]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InputError(
            f"the evidence of the confirmatory run lacks {missing[0]}{more}. Run `srgdqn reproduce --confirm` again, "
            "or move confirmation.json out of the results folder to see the verdicts that were released."
        )


def counts_note(made: Sequence[ClaimCard]) -> str:
    """What moot means, and in how many verdicts no algorithm beats the random policy."""
    told = ["Moot: nobody has learned, or nothing is left to compare."] if _any_moot(made) else []
    counts = {each: sum("below random" in card.marks.get(each, ()) for card in made) for each in SHOWN_SETS}
    if any(counts.values()):
        found = listed([f"{count} ({each})" for each, count in counts.items() if count])
        told.append(f"Behind {found} of the verdicts no algorithm compared is clearly above the random policy.")
    return " ".join(told)


def periods_note(evidence: Evidence) -> str:
    """How many claims that hold with a set do not with the other period of its target network."""
    told = []
    for each, other in BESIDE.items():
        verdicts = {judgement.name: judgement.verdict for judgement in evidence.judgements.get(other, ())}
        ours = [judgement for judgement in evidence.judgements[each] if judgement.verdict == "holds"]
        changed = [judgement.name for judgement in ours if verdicts.get(judgement.name, "holds") != "holds"]
        if changed:
            told.append(
                f"With a target period of 20 instead of 100, {listed(changed)} of those that hold with {each} "
                f"{'do' if len(changed) > 1 else 'does'} not."
            )
    return " ".join(told)


def _any_moot(made: Sequence[ClaimCard]) -> bool:
    return any(verdict == "moot" for card in made for verdict in card.verdicts.values())


def answer(contrasts: pl.DataFrame, scores: pl.DataFrame) -> tuple[str, ...]:
    """At most three sentences: where variance reduction adds reward to the same updates; where it does not; and how
    often controls without it score more than SRG-DQN.
    """
    return *_added(contrasts, scores), _controls(scores)


Outcome = Literal["adds", "costs", "even", "void"]


def _outcomes(
    contrasts: pl.DataFrame, scores: pl.DataFrame, arm: str, sets: Sequence[str] = SHOWN_SETS
) -> dict[str, dict[str, Outcome]]:
    """By set and task: whether SRG-DQN has more reward than an arm at 95 %, less, or neither; void if most rounds of
    both diverged.
    """
    shares = _by_place(scores, "share diverged")
    found: dict[str, dict[str, Outcome]] = {each: {} for each in sets}
    for row in contrasts.filter(pl.col("against") == arm, pl.col("readings").is_in(sets)).iter_rows(named=True):
        place = row["readings"], row["task"]
        void = min(shares[*place, OURS], shares[*place, arm]) > _MOST_DIVERGED
        more, less = (row["low"] or 0.0) > 0, (row["high"] or 0.0) < 0
        found[row["readings"]][row["task"]] = "void" if void else "adds" if more else "costs" if less else "even"
    return found


def _by_place(scores: pl.DataFrame, column: str) -> dict[tuple[str, str, str], float]:
    return {(row["readings"], row["task"], row["arm"]): row[column] for row in scores.iter_rows(named=True)}


def _added(contrasts: pl.DataFrame, scores: pl.DataFrame) -> list[str]:
    """Where variance reduction adds reward, and where it does not, in a sentence each. A set's other target period is
    told where it comes out otherwise.
    """
    outcomes: dict[str, Mapping[str, Outcome]] = {**_outcomes(contrasts, scores, SAME_UPDATES)}
    beside = _outcomes(contrasts, scores, SAME_UPDATES, tuple(BESIDE.values()))
    for each, other in BESIDE.items():
        changed = {task: found for task, found in beside[other].items() if found != outcomes[each][task]}
        if changed:
            outcomes[_PERIODS[other]] = changed
    found = {outcome for by_task in outcomes.values() for outcome in by_task.values()}
    every = found - {"void"}
    alike = all(by_task == outcomes[SHOWN_SETS[0]] for by_task in outcomes.values())
    if not every:
        lead = "It cannot be judged"
    elif every == {"adds"}:
        lead = "Variance reduction, too"
    elif "adds" not in every:
        lead = "Merely the updates"
    else:
        lead = "It depends on the task" if alike else "It depends on the readings"
    told = [
        f"{lead}: beyond the same updates along plain gradients, variance reduction adds reward "
        f"{_where(outcomes, 'adds')}."
    ]
    others = {"costs": "costs reward", "even": "makes no clear difference", "void": "cannot be judged"}
    rest = "; it ".join(f"{words} {_where(outcomes, outcome)}" for outcome, words in others.items() if outcome in found)
    why = ", where most rounds of both diverge" if "void" in found else ""
    return [*told, f"It {rest}{why}."] if rest else told


def _where(outcomes: Mapping[str, Mapping[str, Outcome]], wanted: Outcome) -> str:
    """On which tasks with which sets something came out; sets that agree are told together.

    >>> _where({"a": {"Pendulum": "adds"}, "b": {"Pendulum": "adds"}, "c": {"Pendulum": "even"}}, "adds")
    'on Pendulum with a and b'
    >>> _where({"a": {"Pendulum": "even"}}, "adds")
    'nowhere'
    """
    alike: dict[tuple[str, ...], list[str]] = {}
    for each, by_task in outcomes.items():
        alike.setdefault(tuple(task for task, found in by_task.items() if found == wanted), []).append(each)
    places = [f"on {_tasks(tasks)} with {listed(sets)}" for tasks, sets in alike.items() if tasks]
    return ", and ".join([", ".join(places[:-1]), places[-1]] if len(places) > 1 else places) or "nowhere"


def _tasks(names: Sequence[str]) -> str:
    return "all three tasks" if len(names) == len(TASKS) else listed(names)


def listed(names: Sequence[str]) -> str:
    """Names as a sentence has them.

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def diverging(scores: pl.DataFrame) -> str:
    """How many of SRG-DQN's rounds diverge, in a sentence."""
    shares = _by_place(scores, "share diverged")
    told: dict[str, list[str]] = {}
    for each in SHOWN_SETS:
        mine = {task: shares[each, task, OURS] for task in TASKS}
        often = [f"{percent(share)} on {task}" for task, share in mine.items() if share >= _SOME_DIVERGED]
        rest = "hardly any" if any(mine.values()) else "none"
        told.setdefault(listed(often) if often else rest, []).append(each)
    if list(told) == ["none"]:
        return "None of SRG-DQN's rounds diverges."
    shown = "; ".join(f"{what} with {listed(sets)}" for what, sets in told.items())
    return f"SRG-DQN's rounds diverge: {shown}."


@functools.cache
def queries_per_batch(task: str, arm: str) -> int:
    """Gradient queries of an outer iteration; N, M and b are the same in all sets of readings."""
    return queries_per_iteration(configure(task, arm))


def _controls(scores: pl.DataFrame) -> str:
    """How often a control without variance reduction scores more than SRG-DQN: one that asks for no more gradients per
    batch, and any.
    """
    means = _by_place(scores, "mean")
    cheap = dear = 0
    most = 1.0
    places = [(each, task) for each in SHOWN_SETS for task in TASKS]
    for readings, task in places:
        ours = means[readings, task, OURS]
        better = [
            queries_per_batch(task, arm) / queries_per_batch(task, OURS)
            for (each, where, arm), mean in means.items()
            if (each, where) == (readings, task) and arm not in (*_REDUCED, *YARDSTICKS) and mean > ours
        ]
        cheap += any(times <= 1 for times in better)
        dear += bool(better)
        most = max(most, *better) if better else most
    where = f"of the {len(places)} pairs of task and set"
    told = (
        "At no more gradients per batch, some control without variance reduction scores more than SRG-DQN in "
        f"{_count(cheap, len(places))} {where}"
    )
    if dear == cheap:
        return f"{told}."
    return f"{told}; at up to {most:.0f} times as many, in {_count(dear, len(places))}."


def _count(count: int, total: int) -> str:
    """How many, in a sentence that goes on with the total or has named it.

    >>> _count(0, 9), _count(5, 9), _count(9, 9)
    ('none', '5', 'all')
    """
    return "none" if not count else "all" if count == total else str(count)


def best_control(scores: pl.DataFrame, readings: str, task: str) -> str:
    """The algorithm with the best score that neither reduces variance nor stands in the small table."""
    mine = scores.filter((pl.col("task") == task) & (pl.col("readings") == readings))
    means = dict(mine.select("arm", "mean").iter_rows())
    return str(max((arm for arm in means if arm not in (*_COLUMNS, *_REDUCED)), key=lambda arm: means[arm]))


def small_table(scores: pl.DataFrame, readings: str) -> Table:
    """What the yardsticks, the paper's algorithms and the best control score with one set of readings."""
    rows = {}
    for task in TASKS:
        mine = scores.filter((pl.col("task") == task) & (pl.col("readings") == readings))
        by_arm = {row["arm"]: row for row in mine.iter_rows(named=True)}
        best = best_control(scores, readings, task)
        rows[task] = {
            **{title: _score(by_arm[arm], learns=arm not in YARDSTICKS) for arm, title in _COLUMNS.items()},
            "best control": _score(by_arm[best])._replace(name=f"{best} ({queries_per_batch(task, best):,} queries)"),
        }
    name = "first-scores" if readings == SHOWN_SETS[0] else f"first-scores-{readings}"
    title = f"Final scores with the readings {readings}"
    ours = listed([f"{queries_per_batch(task, OURS):,}" for task in TASKS])
    return score_table(name, title, rows, _DIGITS, f"{_SCORED} SRG-DQN's gradient queries per batch: {ours}.")


def _score(row: Mapping[str, Any], learns: bool = True) -> Score:
    return Score(row["mean"], row["share diverged"] if learns else None)


def _differences(contrasts: pl.DataFrame, scores: pl.DataFrame) -> list[Difference]:
    """The contrasts of the first screen that are not void."""
    void = {arm: _outcomes(contrasts, scores, arm) for arm in _AGAINST}
    return [
        Difference(
            row["task"],
            REWARDS[row["task"]].words,
            row["readings"],
            _AGAINST[row["against"]],
            Interval(*(float("nan") if row[key] is None else row[key] for key in ("estimate", "low", "high"))),
        )
        for row in contrasts.filter(pl.col("readings").is_in(SHOWN_SETS)).iter_rows(named=True)
        if void[row["against"]][row["readings"]][row["task"]] != "void"
    ]


def forest(contrasts: pl.DataFrame, scores: pl.DataFrame) -> Chart:
    """By how much SRG-DQN scores more than others: a panel per task, a marker per set."""
    beside = _outcomes(contrasts, scores, SVR)
    caption = (
        "Differences of final scores, with 95 % intervals over rounds: right of 0 SRG-DQN is better. It is ahead "
        f"of SVR-DQN {_where(beside, 'adds')}, behind {_where(beside, 'costs')}. Where more than half of the rounds of "
        "both diverged, nothing is drawn."
    )
    return forest_chart("first-contrasts", "SRG-DQN beside the others", caption, _differences(contrasts, scores))


def forest_table(contrasts: pl.DataFrame, scores: pl.DataFrame) -> Table:
    """The forest plot as a table: a row per task and other algorithm, a column per set."""
    found: dict[tuple[str, str], dict[str, str]] = {
        (task, name): dict.fromkeys(SHOWN_SETS, "most rounds of both diverged")
        for task in contrasts["task"].unique(maintain_order=True)
        for name in _AGAINST.values()
    }
    for each in _differences(contrasts, scores):
        known = all(map(math.isfinite, each.interval))
        estimate, low, high = differences(each.interval) if known else ("not known", "", "")
        text = f"{estimate} [{low}, {high}]" if known else estimate
        found[each.panel, each.against][each.readings] = text.replace("-", "−")
    rows = [{"task": task, "SRG-DQN minus": name, **texts} for (task, name), texts in found.items()]
    return Table("first-differences", "The same as a table, with 95 % intervals", pl.DataFrame(rows))


def cards(evidence: Evidence, before: Mapping[str, Mapping[str, str]] = MappingProxyType({})) -> tuple[ClaimCard, ...]:
    """A card per claim; `before` are the last release's verdicts by set and claim."""
    check_whole(evidence)
    by_set = {each: {judgement.name: judgement for judgement in found} for each, found in evidence.judgements.items()}
    made = []
    for name, claim in CLAIMS.items():
        mine = {each: by_set[each][name] for each in SHOWN_SETS}
        made.append(
            ClaimCard(
                name,
                claim.words,
                claim.where,
                claim.section,
                {each: judgement.verdict for each, judgement in mine.items()},
                {each: judgement.marks for each, judgement in mine.items()},
                {each: _effects(judgement) for each, judgement in mine.items()},
                (
                    *_alone_note(mine),
                    *_period_note(name, by_set),
                    *_change_note(name, mine, before),
                    *NOTES.get(name, ()),
                    *(_sampling_note(evidence) if name == "C1" else ()),
                ),
                {each: parts_of(judgement) for each, judgement in mine.items() if not _nobody_learned(judgement)},
            )
        )
    return tuple(made)


def _sampling_note(evidence: Evidence) -> list[str]:
    """How far the exact anchors, which are computed on a sample, are off."""
    errors = [table.frame for table in evidence.tables if table.name == "confirmation-anchors"]
    told = []
    for (readings,), mine in errors[0].group_by("readings", maintain_order=True) if errors else ():
        medians = sorted(float(each.rstrip("%")) for each in mine["median"])
        told.append(f"{medians[0]:.0f} to {medians[-1]:.0f} % with {readings}")
    if not told:
        return []
    return [
        "Exact anchors are computed on 8,192 rows drawn from the recording. They are off those on all rows by (medians "
        f"over rounds, from step to step) {listed(told)}."
    ]


def _effects(judgement: Judgement) -> tuple[str, ...]:
    """The contrasts in words, the deciding one first; why it is moot before them."""
    first = judgement.deciding
    ordered = sorted(judgement.contrasts, key=lambda each: each is not first)
    reason = (f"Moot: {judgement.reason}.",) if judgement.reason else ()
    return (*reason, *(_effect(each) for each in ordered))


def _effect(contrast: Measured) -> str:
    return f"{contrast.part}: {effect_text(contrast)}" if contrast.part else effect_text(contrast)


def _nobody_learned(judgement: Judgement) -> bool:
    """Whether nothing of a claim is worth telling: its parts compare what is the same."""
    return judgement.reason == "none of its arms has learned"


def _alone_note(mine: Mapping[str, Judgement]) -> list[str]:
    """Why a claim that all parts speak for is undecided, if one is."""
    sets = [
        each
        for each, judgement in mine.items()
        if judgement.verdict == "undecided" and all(part.state == "for the claim" for part in parts_of(judgement))
    ]
    if not sets:
        return []
    return [f"With {listed(sets)} each part by itself speaks for it, but not when corrected for the number of claims."]


def _period_note(name: str, by_set: Mapping[str, Mapping[str, Judgement]]) -> list[str]:
    """Where a verdict depends on the target's period: both, each with the contrast that decides with the other one."""
    found = []
    for each, other in BESIDE.items():
        if name not in by_set.get(other, {}) or by_set[other][name].verdict == by_set[each][name].verdict:
            continue
        ours, theirs = by_set[each][name], by_set[other][name]
        label = weakest(theirs.contrasts, fails=theirs.verdict == "fails").label
        found.append(
            f"With {each} it depends on the period of the target network: {_verdict_text(ours, label)} with 100 outer "
            f"iterations, {_verdict_text(theirs, label)} with 20."
        )
    return found


def _verdict_text(judgement: Judgement, label: str) -> str:
    """The verdict with the contrast of that label, and why it is moot."""
    told = [judgement.reason] if judgement.reason else []
    told += [effect_text(each) for each in judgement.contrasts if each.label == label]
    return f"{judgement.verdict} ({'; '.join(told)})" if told else judgement.verdict


def _change_note(name: str, mine: Mapping[str, Judgement], before: Mapping[str, Mapping[str, str]]) -> list[str]:
    changed = {
        each: before[each][name]
        for each, judgement in mine.items()
        if name in before.get(each, {}) and before[each][name] != judgement.verdict
    }
    if not changed:
        return []
    alike: dict[str, list[str]] = {}
    for each, verdict in changed.items():
        alike.setdefault(verdict, []).append(each)
    was = " and ".join(f"{verdict} with {listed(sets)}" for verdict, sets in alike.items())
    return [f"In the last release: {was}. {WHY_CHANGED.get(name, '')}".strip()]


TABLES: Mapping[str, tuple[str, str]] = {
    "scores": ("Final scores of every arm", NOTE),
    "contrasts": (
        "By how much SRG-DQN scores more",
        "Over all rounds, and beside it over the rounds that finished in both arms; 95 % intervals.",
    ),
    "interaction": (
        "Does the Adam process add more with variance reduction?",
        "What it adds to SRG, less what it adds to plain gradients; 95 % intervals.",
    ),
    "arms": (
        "The arms of every claim about performance",
        "Has learned: above the untrained agent at 2.5 %, divided by the claim's number of arms; beats the random "
        "policy: by the same test. Diverged: rounds, and the share's 95 % interval.",
    ),
    "steadiness": (
        "The standard deviations behind C1's steadiness",
        "S: the standard deviation over the rounds that finished in both arms, averaged over the evaluations of the "
        "last fifth (100,000 steps). The claim compares S of ordinary anchors with S of exact ones.",
    ),
    "survivors": (
        "Other contrasts, without the rounds that diverged",
        "Over all rounds, as they were judged or nearly so (lengths and times as differences, not ratios), and over "
        "those that finished in both arms.",
    ),
    "measured": ("Rounds that diverged in the runs that were measured", "Rounds, and the share's 95 % interval."),
    "anchors": (
        "The sampling error of exact anchors",
        "C1's exact anchors are computed on 8,192 rows drawn from the recording: how far they are from those on all "
        "rows, relative to these, at the θ of the recorded run.",
    ),
}
"""The titles and notes of the evidence's tables."""


def tables_of(parts: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Table]:
    """The tables of the evidence from their rows."""
    return [
        Table(f"confirmation-{name}", title, pl.DataFrame(list(parts[name]), infer_schema_length=None), note)
        for name, (title, note) in TABLES.items()
        if parts.get(name)
    ]


# What stands beside this run's own numbers


def cards_note(evidence: Evidence, scale: Scale) -> str:
    """Whose numbers cards show, and whose the sections that they link to."""
    return (
        f"Cards tell of the confirmatory run (seed {evidence.about['seed']:,}). The sections that they link to show "
        f"this run: seed {scale.seed:,}, and fewer rounds."
    )


def with_confirmation(section: Section, evidence: Evidence, scale: Scale) -> Section:
    """The section of an experiment, saying which run its numbers are of and on which its claims are judged."""
    names = [name for name, claim in CLAIMS.items() if claim.section == section.name]
    if not names:
        return section
    told = [
        f"These numbers are of this run (seed {scale.seed:,}). {listed(names)} {'are' if len(names) > 1 else 'is'} "
        f"judged on the confirmatory run (seed {evidence.about['seed']:,})."
    ]
    if "C9" in names:
        told += [f"There, {part.name}: {part.effect}." for part in _parts_in(evidence, "C9") if part.name]
    if "C1" in names:
        told += _steadiness_told(evidence)
    return dataclasses.replace(section, found=f"{section.found}\n\n{' '.join(told)}")


def _parts_in(evidence: Evidence, name: str) -> Sequence[Part]:
    """The parts of a claim that is the same in all sets."""
    found = evidence.judgements.get(SHOWN_SETS[0], ())
    return next((parts_of(judgement) for judgement in found if judgement.name == name), ())


def _steadiness_told(evidence: Evidence) -> list[str]:
    """C1's standard deviations in the confirmatory run."""
    frames = [table.frame for table in evidence.tables if table.name == "confirmation-steadiness"]
    by_set: dict[str, dict[str, float]] = {}
    for readings, arm, spread in frames[0].select("readings", "arm", "S").drop_nulls().iter_rows() if frames else ():
        by_set.setdefault(readings, {})[arm] = spread
    told = [
        f"{arms['exact']:.3f} with exact and {arms['ordinary']:.3f} with ordinary anchors ({readings})"
        for readings, arms in by_set.items()
        if len(arms) == 2
    ]
    if told:
        return [f"There S, after 100,000 steps, is {'; '.join(told)}."]
    ratios = {
        each: effect_text(contrast)
        for each in SHOWN_SETS
        for judgement in evidence.judgements.get(each, ())
        for contrast in judgement.contrasts
        if judgement.name == "C1" and contrast.label == "steadiness over rounds" and not contrast.void
    }
    shown = "; ".join(f"{text} ({each})" for each, text in ratios.items())
    return [f"Of S, its evidence has the ratio alone: after 100,000 steps exact anchors are {shown}."] if shown else []


# The section with every contrast

RULES = (
    "A claim is a list of contrasts, quantities that it says are above 0. Rounds are resampled 100,000 times, the same "
    "for all arms. A claim holds if all its contrasts are above 0 and fails if one is below what would matter (δ) "
    "beyond doubt, each side at 2.5 % for all 17 claims of a set together (Holm); C9 is tested alone. It is moot if "
    "none of its arms scores above the untrained agent, or if nothing is left to compare in a part of it. A round that "
    "diverged scores the worst of all rounds that finished, or as the random policy where that is worse; steadiness is "
    "compared between arms that have learned and of which at most a tenth of the rounds diverged."
)


def rules_text(evidence: Evidence) -> str:
    """By which rules the verdicts were reached, and on what."""
    about = evidence.about
    whose = (
        "These verdicts were released with the package: this run has not computed them."
        if evidence.released
        else "These verdicts were computed in this results folder."
    )
    return (
        f"{whose} {RULES} Taken on fresh seeds (seed {about['seed']}; {about['rounds']}) on {about['date']}, in "
        f"{about['seconds'] / 60:.0f} minutes of one core; version of the rules: {about['claims']}.{evidence.stale()}"
    )


def confirmed_section(evidence: Evidence) -> Section:
    """Every contrast of every claim, and the scores behind them."""
    rows = [
        {
            "claim": judgement.name,
            "readings": readings,
            "verdict": judgement.verdict,
            "part": contrast.part,
            "contrast, with its 95 % interval": effect_text(contrast),
            "p (holds)": p_text(contrast.p_holds),
            "p (fails)": p_text(contrast.p_fails),
        }
        for readings, judgements in evidence.judgements.items()
        for judgement in judgements
        for contrast in judgement.contrasts
    ]
    every = Table(
        "verdict-contrasts",
        "Every contrast of every claim",
        pl.DataFrame(rows),
        "p (holds): of what is not above 0; p (fails): of what is not below the margin. Neither is corrected. In C4 "
        "δ = 0.444 is added to the difference before it is tested, with the margin 0; shown is the difference.",
    )
    return Section(
        name="confirmatory",
        title="The confirmatory run: every contrast",
        paper_says="The paper reports no intervals and no tests.",
        found=evidence.made().strip(),
        tables=(every, *(_for_readers(_without_void(table, evidence)) for table in evidence.tables)),
    )


def _without_void(table: Table, evidence: Evidence) -> Table:
    """The table of contrasts, or of interactions, without the differences of arms most of whose rounds diverged."""
    arms = {"confirmation-contrasts": (), "confirmation-interaction": (NO_ADAM, SAME_UPDATES, "sgd-inner")}
    if table.name not in arms:
        return table
    shares, frame = _by_place(_frame(evidence, "scores"), "share diverged"), table.frame
    void = [
        min(shares[row["readings"], row["task"], arm] for arm in (OURS, *arms[table.name], *_other(row)))
        > _MOST_DIVERGED
        for row in frame.iter_rows(named=True)
    ]
    blank = pl.when(pl.lit(pl.Series(void))).then(None)
    columns = [name for name in ("estimate", "low", "high") if name in frame.columns]
    note = f"{table.note} A dash: more than half of the rounds of all these arms diverged." if any(void) else table.note
    return dataclasses.replace(table, frame=frame.with_columns(blank.otherwise(pl.col(columns)).name.keep()), note=note)


def _other(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (row["against"],) if "against" in row else ()


def _for_readers(table: Table) -> Table:
    """A table without the columns that only programs read, and with numbers of three digits."""
    frame = of_finished(table.frame.drop([name for name in ("mean", "share diverged") if name in table.frame.columns]))
    rounded = [pl.col(name).map_elements(lambda value: f"{value:.3g}", pl.String) for name in _floats(frame)]
    return dataclasses.replace(table, frame=frame.with_columns(rounded))


def _floats(frame: pl.DataFrame) -> list[str]:
    return [name for name, kind in frame.schema.items() if kind.is_float()]
