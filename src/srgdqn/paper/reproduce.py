"""Runs the experiments, and makes the report of them: verdicts, sections and facts as plain data."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from srgdqn.paper import adam_steps, factorial, noise, tuned_settings
from srgdqn.paper.cells import Console, run_cells
from srgdqn.paper.claims.evidence import Evidence, find_evidence
from srgdqn.paper.confirmation import confirm
from srgdqn.paper.experiment import Outcomes, seconds_of
from srgdqn.paper.findings import cards, cards_note, confirmed_section, first_screen, rules_text, with_confirmation
from srgdqn.paper.fingerprint_study import find_readings, fingerprint_section
from srgdqn.paper.report.contents import Aside, Report, Section
from srgdqn.paper.scale import SETS, Scale
from srgdqn.paper.studies import EXPERIMENTS
from srgdqn.results.result import Result
from srgdqn.runs import configurations
from srgdqn.runs.provenance import VERSIONS, provenance

TITLE = "SRG-DQN, reproduced"

GLOSSARY = {
    "round": "One run of training with its own seed. Many rounds show what is luck.",
    "outer iteration": "One pass of the paper's Algorithm 1: it draws a batch and updates the network up to 18 times "
    "from it, once every 16 steps.",
    "anchor": "The reference by which the noisy gradient of a single transition is corrected: the whole batch's "
    "gradient in SVR-DQN, the last corrected gradient in SRG-DQN.",
    "reading": "A choice where the paper is silent or contradicts itself. A set of readings decides all of them: "
    "corrected repairs as little as possible, printed follows the letter, mnih adds the target network and the clipped "
    "errors of the DQN that the paper cites.",
    "contrast": "A quantity that a claim says is above 0, such as SRG-DQN's reward minus SVR-DQN's.",
    "moot": "Nothing can be decided: no algorithm that the claim speaks of has learned, or nothing is left to compare.",
}


class LongCommand(NamedTuple):
    """A study that takes longer than everything the paper shows; the package is released with what came of it."""

    run: Callable[[Path, Console], Evidence]
    section: Callable[[Evidence], Section]
    minutes: int
    """What it takes on two cores of a present-day machine."""


LONG: Mapping[str, LongCommand] = {
    "confirmation": LongCommand(confirm, confirmed_section, 60),
    adam_steps.KIND: LongCommand(adam_steps.run, adam_steps.section, 30),
    "tuned": LongCommand(tuned_settings.run, tuned_settings.section, 45),
    "factorial": LongCommand(factorial.run, factorial.section, 60),
    "fingerprint": LongCommand(find_readings, fingerprint_section, 30),
}
"""By the kind of evidence that each leaves."""

SECTIONS: Mapping[str, Callable[[Evidence], Section]] = {
    **{kind: long.section for kind, long in LONG.items()},
    noise.KIND: noise.section,
}
"""The same with studies that have commands of their own, and that the package may be released without."""


def readings_of(scale: Scale, experiment: str) -> tuple[str, ...]:
    """The sets of readings that an experiment is shown with: the primary one, or at the paper's scale perhaps all."""
    return SETS if scale.name == "paper" and EXPERIMENTS[experiment].in_all_readings else SETS[:1]


def run_experiments(names: Sequence[str], scale: Scale, folder: Path, console: Console) -> dict[str, Any]:
    """The outcomes of the cells of some experiments."""
    cells = [
        cell for name in names for each in readings_of(scale, name) for cell in EXPERIMENTS[name].cells(scale, each)
    ]
    return run_cells("experiments", cells, folder / scale.name, console)


def check_evidence(folder: Path) -> None:
    """Raises what is wrong with stored evidence before anything is computed."""
    for kind in SECTIONS:
        find_evidence(kind, folder)


def make_report(
    names: Sequence[str],
    scale: Scale,
    outcomes: Outcomes,
    folder: Path | None,
    seconds: float,
    said: Sequence[str] = (),
) -> Report:
    """The report of some experiments at a scale, with the verdicts of the latest confirmatory run there is."""
    confirmed = find_evidence("confirmation", folder)
    seconds_of_sections = _seconds_by_experiment(scale, outcomes)
    sections = [
        dataclasses.replace(
            EXPERIMENTS[name].show(scale, readings_of(scale, name), outcomes), seconds=seconds_of_sections[name]
        )
        for name in names
    ]
    if confirmed is not None:
        sections = [with_confirmation(section, confirmed, scale) for section in sections]
    for kind, section in SECTIONS.items():
        evidence = find_evidence(kind, folder)
        if evidence is not None:
            sections.append(section(evidence))
    return Report(
        title=TITLE,
        first=None if confirmed is None else first_screen(confirmed, _asides(folder)),
        cards=() if confirmed is None else cards(confirmed, last_release()),
        cards_note="" if confirmed is None else cards_note(confirmed, scale),
        rules=_NOT_YET if confirmed is None else rules_text(confirmed),
        glossary=GLOSSARY,
        sections=tuple(sections),
        facts=_facts(scale, seconds, said),
        configurations={name: _configuration(outcome) for name, outcome in outcomes.items()},
        preview=scale.name == "quick",
    )


def noise_report(evidence: Evidence, seconds: float, *, preview: bool) -> Report:
    """The noise map as a page of its own."""
    here = provenance()
    return Report(
        title=noise.TITLE,
        first=None,
        cards=(),
        rules="",
        glossary={},
        sections=(noise.section(evidence),),
        facts={
            "date": str(evidence.about["date"]),
            "seed": str(evidence.about["seed"]),
            "time of this run": f"{seconds:.0f} s",
            "processor": str(here["processor"]),
            "computation": here["computation"],
            **{f"version of {name}": str(version) for name, version in here["versions"].items()},
        },
        configurations={},
        preview=preview,
    )


def _asides(folder: Path | None) -> tuple[Aside, ...]:
    """What other studies have to say on the first screen."""
    told = {"factorial": factorial.in_brief, adam_steps.KIND: adam_steps.in_brief}
    found = {kind: find_evidence(kind, folder) for kind in told}
    return tuple(told[kind](evidence) for kind, evidence in found.items() if evidence is not None)


_NOT_YET = "No confirmatory run has been made yet: srgdqn reproduce --confirm."


def last_release() -> dict[str, dict[str, str]]:
    """The verdicts of the confirmatory run before the last, by set of readings and claim."""
    text = resources.files("srgdqn.paper.evidence").joinpath("verdicts_before.json").read_text(encoding="utf-8")
    verdicts: dict[str, dict[str, str]] = json.loads(text)
    return verdicts


def _seconds_by_experiment(scale: Scale, outcomes: Outcomes) -> dict[str, float]:
    """What each experiment's own cells took: those that no experiment before it in the catalogue has."""
    found, counted = {}, set[str]()
    for name, experiment in EXPERIMENTS.items():
        listed = [cell.name for each in readings_of(scale, name) for cell in experiment.cells(scale, each)]
        found[name] = seconds_of(outcomes, [cell for cell in listed if cell in outcomes and cell not in counted])
        counted.update(listed)
    return found


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
