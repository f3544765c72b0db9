"""The confirmatory run: every claim judged on seeds that no pilot has seen, and the answer on page one.

The question there: is it variance reduction, or merely 17 updates per batch?
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from srgdqn.paper.cells import Console, run_cells
from srgdqn.paper.claims import CLAIMS, Judgement, judge
from srgdqn.paper.claims.evidence import Evidence, evidence_of
from srgdqn.paper.experiment import Outcomes, diverged_rounds, diverged_text, interval_text, seconds_of
from srgdqn.paper.pilot import read_pilot
from srgdqn.paper.report.contents import ClaimRow, Section, Table
from srgdqn.paper.scale import CONFIRMATORY, CONFIRMATORY_SCALES, Scale
from srgdqn.paper.studies import EXPERIMENTS
from srgdqn.paper.studies.controls import CHAMPION, contrast_table, interaction_table
from srgdqn.paper.studies.figure_2 import TASKS, cell_name, random_score, scores
from srgdqn.results.statistics import Interval, paired_bootstrap_difference

SETS = tuple(CONFIRMATORY_SCALES)
"""The sets of readings that the released verdicts are for, the primary one first."""
QUESTION = "Variance reduction, or merely 17 updates per batch?"

_SAME_UPDATES = "sgd-inner-adam"
_ONE_UPDATE = "dqn-sgd"
_OTHER = "svr-dqn"


def confirm(folder: Path, console: Console, scales: Mapping[str, Scale] = CONFIRMATORY_SCALES) -> Evidence:
    """Every claim judged on seeds that no pilot has seen, for every set of readings."""
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
        each: judge(outcomes, each, pilot, report=lambda share, name=each: console.progress(name, share))  # type: ignore[misc]
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
    return dataclasses.replace(evidence, about={**evidence.about, "answer": answer_from(outcomes, SETS[0])})


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


def claim_rows(confirmed: Evidence | None) -> tuple[ClaimRow, ...]:
    """The table of verdicts on page one: the claims that were judged for every set of readings that was confirmed."""
    if confirmed is None:
        return ()
    found: dict[str, dict[str, Judgement]] = {
        each: {judgement.name: judgement for judgement in confirmed.judgements[each]}
        for each in SETS
        if each in confirmed.judgements
    }
    return tuple(
        ClaimRow(
            name=claim.name,
            claim=claim.statement,
            where=claim.where,
            verdicts={each: judged[claim.name].verdict for each, judged in found.items()},
            evidence={each: judged[claim.name].deciding.text() for each, judged in found.items()},
            section=claim.section,
        )
        for claim in CLAIMS
        if found and all(claim.name in judged for judged in found.values())
    )


def claims_note(confirmed: Evidence | None) -> str:
    """What stands below the verdicts: by which rules they were taken, and on what."""
    rules = (
        "A claim holds if the lower bound of every contrast is above 0, be they smaller than δ or not; otherwise it "
        "fails if the upper bound of some contrast is below its margin (δ, or 0 where δ is part of the contrast "
        "already); otherwise it is undecided. Bounds are "
        "those of paired bootstrap intervals over rounds (10,000 resamples), corrected for the number of all "
        "contrasts; only the inequality's slack (C9) has Student's intervals, corrected for all its settings. Shown is "
        "the contrast furthest from holding. C8 asks not only for a lower standard deviation, but also for a reward "
        "that is not below SVR-DQN's by δ. Beside an algorithm that is stuck (episodes cut at 2,000 steps, rounds that "
        "diverged and all score as the random policy) being steady is hard, which counts against SRG-DQN in C3 and C6."
    )
    if confirmed is None:
        return rules
    about = confirmed.about
    whose = (
        "These verdicts were released with the package: this run has not computed them."
        if confirmed.released
        else "These verdicts were computed in this results folder."
    )
    counted = sum(len(judgement.contrasts) for judgement in confirmed.judgements.get(SETS[0], ()))
    return (
        f"{rules} Taken on fresh seeds (seed {about['seed']}; rounds: {about['rounds']}; {counted} contrasts) on "
        f"{about['date']}, in {about['seconds'] / 60:.0f} minutes of one core; version of the claims, rules and "
        f"margins: {about['claims']}. {whose}{confirmed.stale()}"
    )


def confirmed_section(evidence: Evidence) -> Section:
    """Every contrast of every claim."""
    rows = [
        {
            "claim": judgement.name,
            "readings": readings,
            "contrast": contrast.label,
            "estimate": _rounded(contrast.interval.estimate),
            "low": _rounded(contrast.interval.low),
            "high": _rounded(contrast.interval.high),
            "fails below": _rounded(contrast.margin),
            "": "above 0" if contrast.holds else "below that" if contrast.fails else "neither",
        }
        for readings, judgements in evidence.judgements.items()
        for judgement in judgements
        for contrast in judgement.contrasts
    ]
    counts = ", ".join(
        f"{sum(judgement.verdict == verdict for judgement in evidence.judgements.get(SETS[0], ()))} {verdict}"
        for verdict in ("holds", "fails", "undecided")
    )
    return Section(
        name="confirmatory",
        title="The confirmatory run: every contrast",
        paper_says="The paper reports no intervals and no tests.",
        found=f"Verdicts with the readings {SETS[0]}: {counts}." + evidence.made(),
        tables=(
            Table(
                "verdict-contrasts",
                "Every contrast of every claim",
                pl.DataFrame(rows),
                "Intervals are corrected for the number of contrasts of a set of readings (the slack's of C9 for "
                "its own settings). A claim holds if all of its contrasts are above 0, and fails if one is below its "
                "margin.",
            ),
            *evidence.tables,
        ),
    )


def _rounded(value: float) -> float | None:
    return float(f"{value:.3g}") if math.isfinite(value) else None


def answer_from(outcomes: Outcomes, readings: str) -> str:
    """A conclusion for every task, then the numbers behind it."""
    reductions = {task: _reduction(outcomes, task, readings) for task in TASKS}
    first = "; ".join(f"on {task} {_conclusion(outcomes, task, readings, found)}" for task, found in reductions.items())
    sentences = [
        f"Beyond the updates themselves, SRG's variance reduction: {first}.",
        f"The control {_SAME_UPDATES} makes the same updates as SRG-DQN, on the same picks and with the same Adam "
        "process, along plain gradients; SVR-DQN makes them along SVRG's. A round that diverged scores as the random "
        "policy. Intervals are of 95 % each.",
    ]
    for task, found in reductions.items():
        arms = []
        for name in (_ONE_UPDATE, _SAME_UPDATES, _OTHER, CHAMPION):
            lost = diverged_text(outcomes[cell_name(task, readings, name)])
            arms.append(f"{name} {scores(outcomes, task, readings, name).mean():.3f} ({lost} diverged)")
        updates = _difference(outcomes, task, readings, _SAME_UPDATES, _ONE_UPDATE)
        other = _difference(outcomes, task, readings, _OTHER, _SAME_UPDATES)
        sentences.append(
            f"{task} (the random policy scores {random_score(outcomes, task, readings):.3f}): {', '.join(arms)}. "
            f"More updates and the Adam process, beside {_ONE_UPDATE}: {interval_text(updates)}; beyond them SVRG's "
            f"variance reduction: {interval_text(other)}, SRG's: {interval_text(found)}."
        )
    return " ".join(sentences)


def _reduction(outcomes: Outcomes, task: str, readings: str) -> Interval:
    return _difference(outcomes, task, readings, CHAMPION, _SAME_UPDATES)


def _difference(outcomes: Outcomes, task: str, readings: str, one: str, other: str) -> Interval:
    return paired_bootstrap_difference(scores(outcomes, task, readings, one), scores(outcomes, task, readings, other))


def _conclusion(outcomes: Outcomes, task: str, readings: str, interval: Interval) -> str:
    for name in (CHAMPION, _SAME_UPDATES):
        result = outcomes[cell_name(task, readings, name)]
        if diverged_rounds(result) > result.rounds.height / 2:
            return f"it cannot be told, as most rounds of {name} diverge"
    if interval.low > 0:
        return "it gives more reward"
    if interval.high < 0:
        return "it gives less reward"
    return "it makes no difference that can be told"
