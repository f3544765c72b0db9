"""The report of a reproduction: verdicts, sections, facts, all as plain data."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from srgdqn.paper.answer import QUESTION
from srgdqn.paper.claims import CLAIMS, Judgement
from srgdqn.paper.claims.evidence import Evidence, find_evidence
from srgdqn.paper.claims.rules import MeasuredContrast
from srgdqn.paper.experiment import Outcomes
from srgdqn.paper.report.contents import ClaimRow, Report, Section, Table
from srgdqn.paper.reproduce import BOTH, readings_of
from srgdqn.paper.scale import Scale
from srgdqn.paper.studies import EXPERIMENTS
from srgdqn.results.result import Result
from srgdqn.runs import configurations
from srgdqn.runs.provenance import VERSIONS, provenance

TITLE = "SRG-DQN, reproduced"


def make_report(
    names: Sequence[str],
    scale: Scale,
    outcomes: Outcomes,
    folder: Path | None,
    seconds: float,
    said: Sequence[str] = (),
) -> Report:
    """The report of some experiments at a scale, with the verdicts of the latest confirmatory run there is."""
    confirmed = find_evidence("confirmatory", folder)
    sections = [EXPERIMENTS[name].show(scale, readings_of(scale, name), outcomes) for name in names]
    sections += [
        section for section in (_confirmed(confirmed), _tuned(folder), _readings(folder)) if section is not None
    ]
    return Report(
        title=TITLE,
        question=QUESTION,
        answer=confirmed.about.get("answer", "")
        if confirmed
        else "No confirmatory run has been made yet: srgdqn reproduce --confirm.",
        claims=_claim_rows(confirmed),
        claims_note=_claims_note(confirmed),
        sections=tuple(sections),
        facts=_facts(scale, seconds, said),
        configurations={name: _configuration(outcome) for name, outcome in outcomes.items()},
        preview=scale.name == "quick",
    )


def _claim_rows(confirmed: Evidence | None) -> tuple[ClaimRow, ...]:
    if confirmed is None:
        return ()
    found: dict[str, dict[str, Judgement]] = {
        each: {judgement.name: judgement for judgement in confirmed.judgements.get(each, ())} for each in BOTH
    }
    return tuple(
        ClaimRow(
            name=claim.name,
            claim=claim.statement,
            where=claim.where,
            verdicts={each: found[each][claim.name].verdict for each in BOTH},
            evidence={each: contrast_text(found[each][claim.name].deciding) for each in BOTH},
            section=claim.section,
        )
        for claim in CLAIMS
        if all(claim.name in found[each] for each in BOTH)
    )


def contrast_text(contrast: MeasuredContrast) -> str:
    """A contrast with its interval and margin, in words."""
    interval = contrast.interval
    if not math.isfinite(interval.estimate):
        return f"{contrast.label}: cannot be told, as one side has no spread or nothing is left to compare"
    bounds = f"{interval.estimate:+.3g} [{interval.low:+.3g}, {interval.high:+.3g}]"
    return f"{contrast.label}: {bounds} (fails if its upper bound is below {contrast.margin:.2g})"


def _claims_note(confirmed: Evidence | None) -> str:
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
    counted = sum(len(judgement.contrasts) for judgement in confirmed.judgements.get(BOTH[0], ()))
    return (
        f"{rules} Taken on fresh seeds (seed {about['seed']}; rounds: {about['rounds']}; {counted} contrasts) on "
        f"{about['date']}, in {about['seconds'] / 60:.0f} minutes of one core; version of the claims, rules and "
        f"margins: {about['claims']}. {_whose(confirmed)}{_stale(confirmed)}"
    )


def _confirmed(evidence: Evidence | None) -> Section | None:
    if evidence is None:
        return None
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
        f"{sum(judgement.verdict == verdict for judgement in evidence.judgements.get(BOTH[0], ()))} {verdict}"
        for verdict in ("holds", "fails", "undecided")
    )
    return Section(
        name="confirmatory",
        title="The confirmatory run: every contrast",
        paper_says="The paper reports no intervals and no tests.",
        found=f"Verdicts with the readings {BOTH[0]}: {counts}." + _made(evidence),
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


def _tuned(folder: Path | None) -> Section | None:
    evidence = find_evidence("tuned", folder)
    if evidence is None:
        return None
    verdicts = "; ".join(
        f"{judgement.name} {judgement.verdict} ({contrast_text(judgement.deciding)})"
        for judgements in evidence.judgements.values()
        for judgement in judgements
    )
    return Section(
        name="tuned",
        title="Tuned settings",
        paper_says="Nothing: the paper gives one η and one α per task, and does not say how they were chosen.",
        found="With every arm's step sizes tuned by the same procedure, the claims about Figure 2 (intervals corrected "
        f"for these alone): {verdicts}. A round that diverges scores as the random policy, in tuning as well: where no "
        "candidate is ahead of that policy, one whose rounds all diverge may be chosen." + _made(evidence),
        tables=tuple(evidence.tables),
    )


def _readings(folder: Path | None) -> Section | None:
    evidence = find_evidence("readings", folder)
    if evidence is None:
        return None
    count = len(evidence.judgements)
    held = sum(judgement.verdict == "holds" for judgements in evidence.judgements.values() for judgement in judgements)
    asked = sum(len(judgements) for judgements in evidence.judgements.values())
    return Section(
        name="readings",
        title="Every reading",
        paper_says="Nothing: where the paper is silent or contradicts itself, there are readings.",
        found=(
            f"Eleven readings in the {count} runs of Plackett and Burman's design. Of {asked} verdicts (five claims in "
            f"every run, intervals corrected for these alone) {held} are 'holds'." + _made(evidence)
        ),
        tables=tuple(evidence.tables),
    )


def _made(evidence: Evidence) -> str:
    about = evidence.about
    seeds = f"seed {about['seed']}; rounds: {about['rounds']}"
    made = f" Made on {about['date']} ({seeds}) in {about['seconds'] / 60:.0f} minutes of one core."
    return made + _stale(evidence)


def _whose(evidence: Evidence) -> str:
    if evidence.released:
        return "These verdicts were released with the package: this run has not computed them."
    return "These verdicts were computed in this results folder."


def _stale(evidence: Evidence) -> str:
    if evidence.is_current:
        return ""
    return f" Its verdicts were taken by other rules or margins than the present ones (version {VERSIONS['claims']})."


def _facts(scale: Scale, seconds: float, said: Sequence[str]) -> Mapping[str, str]:
    here = provenance()
    facts = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "scale": scale.name,
        "seed": str(scale.seed),
        "time of this run": f"{seconds:.0f} s",
        "processor": str(here["processor"]),
        "cores": str(here["cores"]),
        "instruction sets": ", ".join(here["instruction_sets"]),
        "computation": here["computation"],
        "version of the claims": str(VERSIONS["claims"]),
        **{f"version of {name}": str(version) for name, version in here["versions"].items()},
    }
    if said:
        facts["computed again"] = " ".join(said)
    return facts


def _configuration(outcome: Any) -> str:
    if isinstance(outcome, Result):
        return configurations.dumps(outcome.configuration)
    return json.dumps(outcome.about["plan"], indent=1)
