"""What came of the confirmatory run: its tables, and what the report says of them first."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from srgdqn.figures.charts import Chart
from srgdqn.paper.arm_columns import NOTE, arm_columns, share_text
from srgdqn.paper.claims.cases import NO_ADAM, OURS, SAME_UPDATES, SGD, SVR, Gathered
from srgdqn.paper.claims.evidence import Evidence
from srgdqn.paper.claims.paper_claims import CLAIMS, IN_A_SENTENCE, WHY_CHANGED
from srgdqn.paper.claims.verdicts import REWARDS, Judgement, difference, measure, seed_of
from srgdqn.paper.experiment import RANDOM, UNTRAINED, YARDSTICKS, Outcomes
from srgdqn.paper.report.contents import ClaimCard, FirstScreen, Section, Table
from srgdqn.paper.report.first_screen import Difference, Score, counts_of, forest_chart, score_table
from srgdqn.paper.scores import scored, values_of
from srgdqn.paper.studies.figure_2 import TASKS, cell_name
from srgdqn.results.statistics import Interval

QUESTION = "Variance reduction, or merely 17 updates per batch?"
SHOWN_SETS = ("corrected", "printed", "mnih")
BESIDE = {"mnih": "mnih-20"}
"""A set whose verdicts on C2 to C6 are shown with another period of the target network beside them."""
_RESAMPLES = 10_000
_AGAINST = {
    SAME_UPDATES: "same updates, plain gradients",
    SVR: "SVR-DQN",
    SGD: "DQN with SGD",
    NO_ADAM: "SRG without Adam",
}
_DIGITS = {"MountainCar": 3, "Pendulum": 2, "CartPole": 1}
_COLUMNS = {
    RANDOM: "random policy",
    UNTRAINED: "untrained agent",
    SGD: "DQN with SGD",
    SAME_UPDATES: "same updates, plain gradients",
    SVR: "SVR-DQN",
    OURS: "SRG-DQN",
}


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
            every, survivors = (_interval(values, seed) for values in (apart, apart[both]))
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


def _interval(values: np.ndarray, seed: int) -> Interval:
    if len(values) < 2:
        return Interval(np.nan, np.nan, np.nan)
    return measure([difference("", values, 0.0, REWARDS["MountainCar"])], seed, _RESAMPLES)[0].interval


def interaction_rows(found: Gathered, readings: str) -> list[dict[str, Any]]:
    """A row per task: does the Adam process add more with variance reduction than without it?"""
    rows = []
    for task, arms in found.final.items():
        scores = {name: each.values for name, each in scored(arms).items()}
        values = (scores[OURS] - scores[NO_ADAM]) - (scores[SAME_UPDATES] - scores["sgd-inner"])
        interval = _interval(values, seed_of(readings, task, "interaction"))
        rows.append({"readings": readings, "task": task, **interval._asdict()})
    return rows


# What the report says first


def first_screen(evidence: Evidence) -> FirstScreen:
    """The first screen, from the verdicts and the tables of the evidence."""
    scores, contrasts = (_frame(evidence, name) for name in ("scores", "contrasts"))
    table, chart = small_table(scores, SHOWN_SETS[0]), forest(contrasts)
    return FirstScreen(IN_A_SENTENCE, counts_of(cards(evidence)), QUESTION, answer(contrasts, scores), table, chart)


def _frame(evidence: Evidence, name: str) -> pl.DataFrame:
    return next(table.frame for table in evidence.tables if table.name == f"confirmation-{name}")


def answer(contrasts: pl.DataFrame, scores: pl.DataFrame) -> tuple[str, ...]:
    """At most three sentences: what variance reduction adds to the updates, by task; beside SVR-DQN; and whether
    anybody beats the random policy.
    """
    beyond = "; ".join(f"on {task} {_in_words(contrasts, task, SAME_UPDATES)}" for task in TASKS)
    beside = "; ".join(f"on {task} {_in_words(contrasts, task, SVR)}" for task in TASKS)
    below = [
        f"{task} ({', '.join(sets)})"
        for task in TASKS
        if (sets := [each for each in SHOWN_SETS if not _beats_random(scores, task, each)])
    ]
    last = f"Nobody's mean is above the random policy's on {'; '.join(below)}." if below else ""
    sentences = [
        f"Beyond the same updates along plain gradients, SRG-DQN's variance reduction gives, {beyond}.",
        f"Beside SVR-DQN it gives, {beside}.",
        last,
    ]
    return tuple(each for each in sentences if each)


def _in_words(contrasts: pl.DataFrame, task: str, arm: str) -> str:
    """More, less, or no reward that can be told, for the sets that agree together."""
    found: dict[str, list[str]] = {}
    for each in SHOWN_SETS:
        row = contrasts.row(
            by_predicate=(pl.col("task") == task) & (pl.col("against") == arm) & (pl.col("readings") == each),
            named=True,
        )
        word = (
            "more reward" if row["low"] > 0 else "less reward" if row["high"] < 0 else "no difference that can be told"
        )
        found.setdefault(word, []).append(f"{each} {row['estimate']:+.3g}")
    return ", ".join(f"{word} ({', '.join(sets)})" for word, sets in found.items())


def _beats_random(scores: pl.DataFrame, task: str, readings: str) -> bool:
    mine = scores.filter((pl.col("task") == task) & (pl.col("readings") == readings))
    chance = mine.filter(pl.col("arm") == RANDOM)["mean"].item()
    learned = mine.filter(~pl.col("arm").is_in([RANDOM, UNTRAINED]))["mean"].max()
    return bool(learned > chance)


def small_table(scores: pl.DataFrame, readings: str) -> Table:
    """What the yardsticks, the paper's algorithms and the best control score with one set of readings."""
    rows = {}
    for task in TASKS:
        mine = scores.filter((pl.col("task") == task) & (pl.col("readings") == readings))
        by_arm = {row["arm"]: row for row in mine.iter_rows(named=True)}
        controls = {arm: row for arm, row in by_arm.items() if arm not in (*_COLUMNS, NO_ADAM)}
        best = max(controls, key=lambda arm: controls[arm]["mean"])
        rows[task] = {
            **{title: _score(by_arm[arm], learns=arm not in YARDSTICKS) for arm, title in _COLUMNS.items()},
            "best control": _score(controls[best])._replace(name=best),
        }
    title = f"Final scores with the readings {readings}, and the share of rounds that diverged"
    return score_table("first-scores", title, rows, _DIGITS, NOTE)


def _score(row: Mapping[str, Any], learns: bool = True) -> Score:
    return Score(row["mean"], row["share diverged"] if learns else None)


def forest(contrasts: pl.DataFrame) -> Chart:
    """By how much SRG-DQN scores more than others: a panel per task, a marker per set."""
    differences = [
        Difference(
            row["task"],
            REWARDS[row["task"]].words,
            row["readings"],
            _AGAINST[row["against"]],
            Interval(*(float("nan") if row[key] is None else row[key] for key in ("estimate", "low", "high"))),
        )
        for row in contrasts.iter_rows(named=True)
        if row["readings"] in SHOWN_SETS
    ]
    caption = (
        "Differences of final scores with 95 % intervals over rounds: to the right of 0 SRG-DQN is better. A round "
        "that diverged scores the worst of those that finished, or as the random policy where that is worse."
    )
    return forest_chart("first-contrasts", "SRG-DQN beside the others", caption, differences)


def cards(evidence: Evidence, before: Mapping[str, Mapping[str, str]] = MappingProxyType({})) -> tuple[ClaimCard, ...]:
    """A card per claim; `before` are the last release's verdicts by set and claim."""
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
                (*_period_note(name, by_set), *_change_note(name, mine, before)),
            )
        )
    return tuple(made)


def _effects(judgement: Judgement) -> tuple[str, ...]:
    """The contrasts in words, the deciding one first; why it is moot before them."""
    first = judgement.deciding
    ordered = sorted(judgement.contrasts, key=lambda each: each is not first)
    reason = (f"Moot: {judgement.reason}.",) if judgement.reason else ()
    return (*reason, *(each.text() for each in ordered))


def _period_note(name: str, by_set: Mapping[str, Mapping[str, Judgement]]) -> list[str]:
    found = []
    for each, other in BESIDE.items():
        if name in by_set.get(other, {}) and by_set[other][name].verdict != by_set[each][name].verdict:
            found.append(f"With {each} it depends on the period: {by_set[other][name].verdict} with a period of 20.")
    return found


def _change_note(name: str, mine: Mapping[str, Judgement], before: Mapping[str, Mapping[str, str]]) -> list[str]:
    changed = {
        each: before[each][name]
        for each, judgement in mine.items()
        if name in before.get(each, {}) and before[each][name] != judgement.verdict
    }
    if not changed:
        return []
    was = " and ".join(f"{verdict} with {each}" for each, verdict in changed.items())
    return [f"In the last release: {was}. {WHY_CHANGED.get(name, '')}".strip()]


def tables_of(parts: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Table]:
    """The tables of the evidence from their rows."""
    about = {
        "scores": ("Final scores of every arm", NOTE),
        "contrasts": (
            "By how much SRG-DQN scores more",
            "Over all rounds, and beside it over the rounds that finished in both arms; 95 % intervals.",
        ),
        "interaction": (
            "Does the Adam process add more with variance reduction?",
            "What it adds to SRG, less what it adds to plain gradients; 95 % intervals.",
        ),
    }
    return [
        Table(
            f"confirmation-{name}", *about[name][:1], pl.DataFrame(list(rows), infer_schema_length=None), about[name][1]
        )
        for name, rows in parts.items()
    ]


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
            "contrast": contrast.label,
            "with its 95 % interval": contrast.void or contrast.unit.text(contrast.interval),
            "p (holds)": _p_text(contrast.p_holds),
            "p (fails)": _p_text(contrast.p_fails),
        }
        for readings, judgements in evidence.judgements.items()
        for judgement in judgements
        for contrast in judgement.contrasts
    ]
    every = Table(
        "verdict-contrasts",
        "Every contrast of every claim",
        pl.DataFrame(rows),
        "p (holds): of what is not above 0; p (fails): of what is not below the margin. Neither is corrected.",
    )
    return Section(
        name="confirmatory",
        title="The confirmatory run: every contrast",
        paper_says="The paper reports no intervals and no tests.",
        found=evidence.made().strip(),
        tables=(every, *map(_for_readers, evidence.tables)),
    )


def _p_text(value: float) -> str:
    return "< 0.0001" if value < 1e-4 else f"{value:.2g}"


def _for_readers(table: Table) -> Table:
    """A table without the columns that only programs read, and with numbers of three digits."""
    frame = table.frame.drop([name for name in ("mean", "share diverged") if name in table.frame.columns])
    rounded = [pl.col(name).map_elements(lambda value: f"{value:.3g}", pl.String) for name in _floats(frame)]
    return dataclasses.replace(table, frame=frame.with_columns(rounded))


def _floats(frame: pl.DataFrame) -> list[str]:
    return [name for name, kind in frame.schema.items() if kind.is_float()]
