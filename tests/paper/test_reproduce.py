"""The report as data: complete, and honest about what it was decided by."""

import dataclasses
import json
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from srgdqn.paper import reproduce
from srgdqn.paper.claims import evidence as evidence_module
from srgdqn.paper.claims.evidence import Evidence, evidence_of, find_evidence, write_evidence
from srgdqn.paper.claims.paper_claims import CLAIMS
from srgdqn.paper.report.contents import Report, Table
from srgdqn.paper.reproduce import make_report, readings_of
from srgdqn.paper.scale import PAPER_SCALE, QUICK, Scale
from srgdqn.paper.studies import EXPERIMENTS
from srgdqn.results.result import Result
from srgdqn.runs import configurations
from srgdqn.runs.provenance import VERSIONS
from synthetic_findings import evidence, judgements
from synthetic_outcomes import DOSES, world

SMALL = dataclasses.replace(QUICK, doses=DOSES)
NAMES = ("figure-1", "figure-3-left", "dose-response")


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Any]:
    return world(True)


@pytest.fixture(autouse=True)
def nothing_released(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what a test puts into its own folder is found."""
    empty = tmp_path_factory.mktemp("released")
    monkeypatch.setattr(evidence_module, "resources", SimpleNamespace(files=lambda package: empty))


def confirmed(folder: Path, claims: int | None = None) -> Evidence:
    made = evidence(judgements("fails", mnih_C3="moot"))
    found = dataclasses.replace(made, about={**made.about, **({} if claims is None else {"claims": claims})})
    write_evidence(found, folder)
    return found


def report(outcomes: dict[str, Any], folder: Path, scale: Scale = SMALL, **options: Any) -> Report:
    return make_report(NAMES, scale, outcomes, folder, 12.3, **options)


def test_every_claim_has_a_card_with_all_three_readings(outcomes: dict[str, Any], tmp_path: Path) -> None:
    confirmed(tmp_path)
    found = report(outcomes, tmp_path)
    assert [card.name for card in found.cards] == list(CLAIMS)
    for card in found.cards:
        mnih = "moot" if card.name == "C3" else "fails"
        assert card.verdicts == {"corrected": "fails", "printed": "fails", "mnih": mnih}
        assert card.effects["printed"][0].startswith("steadiness: 1.11 times as steady [")
    assert len(found.glossary) <= 6
    for said in ("seed 1; 2 on CartPole", "1 minutes", f"version of the rules: {VERSIONS['claims']}."):
        assert said in found.rules
    assert "other rules" not in found.rules


def test_the_first_screen_comes_with_the_verdicts(outcomes: dict[str, Any], tmp_path: Path) -> None:
    confirmed(tmp_path)
    first = report(outcomes, tmp_path).first
    assert first is not None
    assert first.counts["mnih"] == {"holds": 0, "fails": 17, "undecided": 0, "moot": 1}
    assert len(first.forest.panels) == 3


def test_every_contrast_of_the_confirmatory_run_is_shown(outcomes: dict[str, Any], tmp_path: Path) -> None:
    made = confirmed(tmp_path)
    (section,) = (each for each in report(outcomes, tmp_path).sections if each.name == "confirmatory")
    assert section.tables[0].frame.height == sum(len(j.contrasts) for found in made.judgements.values() for j in found)


def test_what_has_changed_since_the_last_release_is_said(
    outcomes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    confirmed(tmp_path)
    monkeypatch.setattr(reproduce, "last_release", lambda: {"corrected": {"C8a": "undecided", "C2": "fails"}})
    notes = {card.name: card.notes for card in report(outcomes, tmp_path).cards}
    assert notes["C8a"][-1].startswith("In the last release: undecided with corrected. It was also asked that")
    assert notes["C2"] == ()


def test_stale_evidence_is_said(outcomes: dict[str, Any], tmp_path: Path) -> None:
    confirmed(tmp_path, claims=1)
    note = report(outcomes, tmp_path).rules
    assert f"taken by other rules or margins than the present ones (version {VERSIONS['claims']})" in note
    assert "version of the rules: 1" in note


def test_without_a_confirmatory_run_nothing_is_decided(outcomes: dict[str, Any], tmp_path: Path) -> None:
    found = report(outcomes, tmp_path)
    assert (found.first, found.cards) == (None, ())
    assert "srgdqn reproduce --confirm" in found.rules


def test_sections_facts_and_configurations_are_complete(outcomes: dict[str, Any], tmp_path: Path) -> None:
    found = report(outcomes, tmp_path, said=["a-cell is computed again: it was damaged."])
    assert [section.name for section in found.sections] == list(NAMES)
    for section in found.sections:
        experiment = EXPERIMENTS[section.name]
        assert (section.title, section.paper_says) == (experiment.title, experiment.paper_says)
        assert section.budget_seconds == experiment.budget_seconds
    facts = found.facts
    assert (facts["scale"], facts["seed"], facts["time of this run"]) == ("quick", "0", "12 s")
    assert facts["version of the claims"] == str(VERSIONS["claims"])
    assert facts["computed again"] == "a-cell is computed again: it was damaged."
    assert facts["version of jax"]
    assert set(found.configurations) == set(outcomes)
    for name, text in found.configurations.items():
        outcome = outcomes[name]
        if isinstance(outcome, Result):
            assert tomllib.loads(text)
            assert configurations.loads(text) == outcome.configuration
        else:
            assert json.loads(text) == outcome.about["plan"]
    assert "computed again" not in report(outcomes, tmp_path).facts


def test_a_cell_counts_for_the_first_experiment_that_has_it(tmp_path: Path) -> None:
    outcomes = world(True)
    names = ("theorem-1", "anatomy", "training-time")
    found = make_report(names, dataclasses.replace(PAPER_SCALE, doses=DOSES), outcomes, tmp_path, 12.3)
    # The anchors are Figure 3's and the times those of the controls, which come before these.
    assert [section.seconds for section in found.sections] == [8.0, 0.0, 0.0]


def test_only_a_preview_says_that_it_is_one(outcomes: dict[str, Any], tmp_path: Path) -> None:
    assert report(outcomes, tmp_path).preview
    whole = dataclasses.replace(PAPER_SCALE, doses=DOSES)
    assert not report(outcomes, tmp_path, whole).preview


@pytest.mark.parametrize("kind", reproduce.LONG)
def test_every_long_study_is_released_and_has_a_section(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # what is released is found
    released = find_evidence(kind)
    assert released is not None
    assert released.released
    assert released.is_current
    section = reproduce.LONG[kind].section(released)
    assert section.tables
    assert f"Made on {released.about['date']} (seed {released.about['seed']};" in section.found


def test_a_long_study_has_a_section_once_it_was_run(outcomes: dict[str, Any], tmp_path: Path) -> None:
    assert [section.name for section in report(outcomes, tmp_path).sections] == list(NAMES)
    table = Table("tuned-scores", "Scores", outcomes["theorem-1"].tables["growth"])
    made = evidence_of("tuned", {}, [table], seed=20_002, rounds="100 on Pendulum", seconds=600.0)
    write_evidence(dataclasses.replace(made, about={**made.about, "found": ["Tuning helps."]}), tmp_path)
    found = {section.name: section for section in report(outcomes, tmp_path).sections}
    assert list(found) == [*NAMES, "tuned"]
    assert found["tuned"].found.startswith("Tuning helps. Made on ")
    assert "seed 20002; rounds: 100 on Pendulum) in 10 minutes" in found["tuned"].found
    assert [each.name for each in found["tuned"].tables] == ["tuned-scores"]


def test_the_last_releases_verdicts_are_known() -> None:
    before = reproduce.last_release()
    assert set(before) == {"corrected", "printed"}
    assert set(before["corrected"]) <= set(CLAIMS)
    assert set(before["corrected"].values()) <= {"holds", "fails", "undecided"}


def test_figure_2_alone_is_drawn_with_all_three_sets() -> None:
    for name in EXPERIMENTS:
        several = ("corrected", "printed", "mnih") if name == "figure-2" else ("corrected",)
        assert readings_of(PAPER_SCALE, name) == several
        assert readings_of(QUICK, name) == ("corrected",)
