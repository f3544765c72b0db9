"""Every experiment at every scale: names, questions that can be written down, configurations that can be run."""

import dataclasses
import itertools
import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from srgdqn.config import Configuration
from srgdqn.config.checks import check
from srgdqn.paper import studies
from srgdqn.paper.cells import RunCell
from srgdqn.paper.claims import CLAIMS
from srgdqn.paper.scale import CONFIRMATORY, CONFIRMATORY_PRINTED, PAPER_SCALE, QUICK, Scale
from srgdqn.paper.studies import EXPERIMENTS
from srgdqn.runs import configurations
from synthetic_outcomes import DOSES, world

SCALES = (PAPER_SCALE, QUICK, CONFIRMATORY)


def question(cell: Any) -> Any:
    return cell.configuration if isinstance(cell, RunCell) else cell.plan


def test_every_claim_has_a_section() -> None:
    assert {claim.section for claim in CLAIMS} <= set(EXPERIMENTS)
    for name, experiment in EXPERIMENTS.items():
        assert experiment.name == name
        assert experiment.title
        assert experiment.paper_says
        assert experiment.budget_seconds > 0


def test_a_file_is_a_study_by_itself_in_the_place_it_asks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, place in (("new_figure", 15), ("figure_1", 20)):
        source = f"from types import SimpleNamespace as Study\nEXPERIMENT = Study(name={name!r}, place={place})\n"
        (tmp_path / f"{name}.py").write_text(source)
    spec = spec_from_file_location("found", str(studies.__file__), submodule_search_locations=[str(tmp_path)])
    assert spec is not None
    found = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "found", found)
    spec.loader.exec_module(found)  # type: ignore[union-attr]
    assert found.NAMES == ("figure-1", "new-figure")
    assert list(found.EXPERIMENTS) == ["new_figure", "figure_1"]
    assert set(studies.NAMES) == set(EXPERIMENTS)


def test_both_confirmatory_scales_share_a_folder() -> None:
    """What has the same name in both asks the same."""
    asked = {
        scale.rounds["MountainCar"]: {
            cell.name: question(cell) for each in EXPERIMENTS.values() for cell in each.cells(scale, readings)
        }
        for readings, scale in (("corrected", CONFIRMATORY), ("printed", CONFIRMATORY_PRINTED))
    }
    first, second = asked.values()
    assert set(first) & set(second) == {"theorem-1"}
    assert first["theorem-1"] == second["theorem-1"]


@pytest.mark.parametrize("scale", SCALES, ids=lambda scale: scale.name)
def test_one_name_stands_for_one_question(scale: Scale) -> None:
    asked: dict[str, Any] = {}
    for experiment, readings in itertools.product(EXPERIMENTS.values(), ("corrected", "printed")):
        cells = experiment.cells(scale, readings)
        assert len({cell.name for cell in cells}) == len(cells)
        for cell in cells:
            assert asked.setdefault(cell.name, question(cell)) == question(cell)
    assert len(asked) > 40


@pytest.mark.parametrize("scale", SCALES, ids=lambda scale: scale.name)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_questions_can_be_written_down_and_run(scale: Scale, name: str) -> None:
    for readings in ("corrected", "printed"):
        for cell in EXPERIMENTS[name].cells(scale, readings):
            asked = question(cell)
            written = json.dumps(dataclasses.asdict(asked), allow_nan=False)
            assert json.loads(written)
            found = [asked] if isinstance(asked, Configuration) else []
            found += [value for value in vars(asked).values() if isinstance(value, Configuration)]
            found += list(getattr(asked, "configurations", {}).values())
            for configuration in found:
                assert check(configuration) == configuration
                assert configurations.loads(configurations.dumps(configuration)) == configuration
                assert configuration.readings == readings


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_sections_and_claims_ask_for_no_cell_that_was_not_listed(name: str) -> None:
    """What is shown needs only what the experiment's own cells leave."""
    outcomes = world(True)
    scale = dataclasses.replace(CONFIRMATORY, doses=DOSES)
    own = {
        cell.name: outcomes[cell.name] for cell in EXPERIMENTS[name].cells(scale, "corrected") if cell.name in outcomes
    }
    section = EXPERIMENTS[name].show(scale, ("corrected",), own)
    assert (section.name, section.title) == (name, EXPERIMENTS[name].title)
    assert section.charts
    assert section.tables
    assert section.found.endswith((".", ")"))
    assert len({each.name for each in (*section.charts, *section.tables)}) == len(section.charts) + len(section.tables)
    assert section.seconds is not None
    assert section.seconds >= 0


def test_names_of_charts_and_tables_are_their_own() -> None:
    outcomes, scale = world(True), dataclasses.replace(CONFIRMATORY, doses=DOSES)
    sections = [experiment.show(scale, ("corrected",), outcomes) for experiment in EXPERIMENTS.values()]
    names = [each.name for section in sections for each in (*section.charts, *section.tables)]
    assert len(set(names)) == len(names)
