"""Every experiment at every scale: names, questions that can be written down, configurations that can be run."""

import dataclasses
import itertools
import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srgdqn.config import Configuration
from srgdqn.config.checks import check
from srgdqn.paper import studies
from srgdqn.paper.cells import RunCell
from srgdqn.paper.claims.paper_claims import CLAIMS
from srgdqn.paper.scale import CONFIRMATION, PAPER_SCALE, QUICK, SETS, Scale
from srgdqn.paper.studies import EXPERIMENTS
from srgdqn.results.result import Result
from srgdqn.runs import configurations
from synthetic_outcomes import DOSES, SPREAD_STEPS, planted_run, world

SCALES = (PAPER_SCALE, QUICK, CONFIRMATION)


def question(cell: Any) -> Any:
    return cell.configuration if isinstance(cell, RunCell) else cell.plan


def test_every_claim_has_a_section() -> None:
    assert {claim.section for claim in CLAIMS.values()} <= set(EXPERIMENTS)
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


@pytest.mark.parametrize("scale", SCALES, ids=lambda scale: scale.name)
def test_one_name_stands_for_one_question_that_can_be_written_down_and_run(scale: Scale) -> None:
    asked: dict[str, Any] = {}
    for experiment, readings in itertools.product(EXPERIMENTS.values(), ("corrected", "printed")):
        cells = experiment.cells(scale, readings)
        assert len({cell.name for cell in cells}) == len(cells)
        for cell in cells:
            assert asked.setdefault(cell.name, question(cell)) == question(cell)
            for configuration in configurations_in(question(cell)):
                assert configuration.readings == readings
    assert len(asked) > 40
    for each in asked.values():
        assert json.loads(json.dumps(dataclasses.asdict(each), allow_nan=False))
        for configuration in configurations_in(each):
            assert check(configuration) == configuration
            assert configurations.loads(configurations.dumps(configuration)) == configuration


def configurations_in(asked: Any) -> list[Configuration]:
    if isinstance(asked, Configuration):
        return [asked]
    values = [*vars(asked).values(), *getattr(asked, "configurations", {}).values()]
    return [value for value in values if isinstance(value, Configuration)]


def test_sections_need_only_what_their_own_cells_leave() -> None:
    outcomes, scale = world(True), dataclasses.replace(CONFIRMATION, doses=DOSES)
    names: list[str] = []
    for name, experiment in EXPERIMENTS.items():
        listed = {cell.name for cell in experiment.cells(scale, "corrected")}
        section = experiment.show(scale, ("corrected",), {each: outcomes[each] for each in listed & set(outcomes)})
        assert (section.name, section.title) == (name, experiment.title)
        assert section.charts
        assert section.tables
        assert section.found.endswith((".", ")"))
        names += [each.name for each in (*section.charts, *section.tables)]
    assert len(set(names)) == len(names)


def all_diverged(outcomes: dict[str, Any]) -> dict[str, Any]:
    """The same outcomes, but that all rounds of the algorithms diverged."""
    lost = dict(outcomes)
    for name, outcome in outcomes.items():
        if isinstance(outcome, Result) and "random" not in name and "untrained" not in name:
            options = outcome.configuration.training
            extra = {"episodes": options.episodes} if name.startswith("episodes") else {}
            rounds = outcome.rounds.height
            stops = dict.fromkeys(range(rounds), 1_504)
            task, algorithm = outcome.configuration.task.task, outcome.configuration.algorithm
            lost[name] = planted_run(task, algorithm, np.zeros(rounds), diverged=stops, **extra)
    return lost


@pytest.mark.parametrize("lost", [False, True], ids=("finished", "diverged"))
def test_no_panel_is_empty_and_no_cell_of_a_table_is_a_dash(lost: bool) -> None:
    outcomes = world(True, readings=SETS)
    outcomes = all_diverged(outcomes) if lost else outcomes
    scale = dataclasses.replace(PAPER_SCALE, doses=DOSES, spread_steps=SPREAD_STEPS[-1])
    for experiment in EXPERIMENTS.values():
        readings = SETS if experiment.in_all_readings else SETS[:1]
        section = experiment.show(scale, readings, outcomes)
        for chart in section.charts:
            for panel in chart.panels:
                shown = [series for series in panel.series if series.shown and np.isfinite(series.y).any()]
                assert shown, (chart.name, panel.title)
        for table in section.tables:
            values = {str(value) for row in table.frame.iter_rows() for value in row}
            assert not values & {"–", "nan", "None", ""}, table.name
