import numpy as np
import pytest

from srgdqn.config.algorithms import PAPER
from srgdqn.figures.charts import data_of
from srgdqn.paper.scale import CONFIRMATORY, CONFIRMATORY_PRINTED, PAPER_SCALE
from srgdqn.paper.studies import figure_3_left
from synthetic_outcomes import planted_run

NAMES = (*PAPER, "sgd-inner-adam", "random")
LENGTHS = {name: np.array([100.0, 200.0, 300.0]) * (1 + place) for place, name in enumerate(NAMES)}


@pytest.fixture(scope="module")
def outcomes() -> dict:
    found = {}
    for name, lengths in LENGTHS.items():
        algorithm, stops = ("dqn-sgd" if name == "random" else name), ({0: 150} if name == "svr-dqn" else None)
        run = planted_run("MountainCar", algorithm, np.zeros(3), lengths=lengths, diverged=stops, episodes=110)
        found[f"episodes-{name}-corrected"] = run
    return found


def test_the_control_that_a_claim_needs_is_run_where_it_is_judged() -> None:
    for scale, readings in ((CONFIRMATORY, "corrected"), (CONFIRMATORY_PRINTED, "printed")):
        names = [cell.name for cell in figure_3_left.cells(scale, readings)]
        assert names == [f"episodes-{name}-{readings}" for name in NAMES]


def test_what_was_not_run_is_not_shown(outcomes: dict) -> None:
    some = {name: run for name, run in outcomes.items() if "sgd-inner" not in name}
    section = figure_3_left.show(PAPER_SCALE, ("corrected",), some)
    assert section.tables[0].frame["algorithm"].to_list() == [*PAPER, "random"]


def test_a_round_that_diverged_has_the_random_policys_length(outcomes: dict) -> None:
    chance = LENGTHS["random"].mean()
    np.testing.assert_allclose(figure_3_left.lengths(outcomes, "corrected", "svr-dqn"), [chance, 400, 600])
    np.testing.assert_allclose(figure_3_left.lengths(outcomes, "corrected", "srg-dqn"), LENGTHS["srg-dqn"])


def test_the_section_shows_planted_lengths(outcomes: dict) -> None:
    section = figure_3_left.show(PAPER_SCALE, ("corrected",), outcomes)
    rows = {row["algorithm"]: row for row in section.tables[0].frame.to_dicts()}
    assert rows["srg-dqn"]["mean length [95 %]"].startswith("800 [400, 1200]")
    assert rows["srg-dqn"]["sd over rounds"] == "400"
    assert rows["svr-dqn"]["diverged"] == "1 of 3"
    assert rows["srg-dqn"]["cut at 2,000"] == f"{(110 // 3) / 110:.1%}"
    points = data_of(section.charts[0]).filter(series="srg-dqn")
    np.testing.assert_array_equal(points["episodes"], np.arange(1, 111))
    np.testing.assert_allclose(points["y"], 800)
    np.testing.assert_allclose(points["low"], 400)
    shown = {series.label: series.shown for series in section.charts[0].panels[0].series}
    assert not shown.pop("random")
    assert all(shown.values())
    assert "srg-dqn 800 [" in section.found
