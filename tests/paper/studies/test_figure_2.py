from typing import Any

import numpy as np
import pytest

from srgdqn.config.algorithms import PAPER
from srgdqn.figures.charts import data_of
from srgdqn.paper.scale import PAPER_SCALE
from srgdqn.paper.studies import controls, figure_2
from synthetic_outcomes import CHANCE, ROUNDS, planted_run, world


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Any]:
    """As planted, but two of SRG-DQN's rounds on Pendulum diverged, and it is behind a control on MountainCar."""
    found = world(True, readings=("corrected", "printed"))
    levels = 2.0 + np.linspace(-0.1, 0.1, ROUNDS)
    found["Pendulum-srg-dqn-corrected"] = planted_run("Pendulum", "srg-dqn", levels, diverged={0: 1_008, 5: 2_000})
    found["MountainCar-sgd-inner-adam-corrected"] = planted_run("MountainCar", "sgd-inner-adam", levels + 3)
    return found


def test_the_random_policy_always_explores_and_never_learns() -> None:
    (random,) = (cell for cell in figure_2.cells(PAPER_SCALE, "corrected") if cell.name == "Pendulum-random-corrected")
    options = random.configuration.options()
    assert (options["epsilon_start"], options["epsilon_end"], options["eta"]) == (1.0, 1.0, 0.0)
    assert not options["adam_process"]


def test_scores_of_diverged_rounds_are_the_random_policys(outcomes: dict[str, Any]) -> None:
    found = figure_2.scores(outcomes, "Pendulum", "corrected", "srg-dqn")
    expected = 2.0 + np.linspace(-0.1, 0.1, ROUNDS)
    expected[[0, 5]] = CHANCE
    np.testing.assert_allclose(found, expected)
    assert figure_2.random_score(outcomes, "Pendulum", "corrected") == pytest.approx(CHANCE)


def test_the_section_has_the_papers_panels_bands_and_numbers(outcomes: dict[str, Any]) -> None:
    section = figure_2.show(PAPER_SCALE, ("corrected", "printed"), outcomes)
    main, other, beside = section.charts
    assert [chart.name for chart in section.charts] == ["figure-2", "figure-2-printed", "figure-2-success-and-length"]
    assert [panel.title for panel in main.panels] == ["MountainCar", "Pendulum", "CartPole"]
    for panel in main.panels:
        assert [(s.label, s.group) for s in panel.series] == [(n, r) for r in ("corrected", "printed") for n in PAPER]
        assert [s.label for s in panel.series if s.low is None] == ["dqn-sgd"] * 2  # as in the paper
        assert len({s.style.color for s in panel.series[:4]}) == 4
        assert [s.shown for s in panel.series] == [True] * 4 + [False] * 4  # it starts with the primary readings
    for panel in other.panels:
        assert {(s.group, s.shown) for s in panel.series} == {("printed", True)}
    # Ten windows: early rewards are 0.4 less than late ones, of which SRG-DQN's mean is 2.
    car = data_of(main).filter(panel="MountainCar", series="srg-dqn", group="printed").sort("steps")
    np.testing.assert_allclose(car["y"], [1.6] * 5 + [2.0] * 5)
    np.testing.assert_allclose(car["high"] - car["y"], 0.05)
    assert len(beside.panels) == 4
    success = next(s for s in beside.panels[0].series if s.label == "svr-dqn")
    np.testing.assert_allclose(success.y, 0.75)  # every other round succeeds once of twice
    length = next(s for s in beside.panels[3].series if s.label == "svr-dqn")
    np.testing.assert_allclose(length.y, 50.0)

    rows = {(r["task"], r["readings"], r["algorithm"]): r for r in section.tables[0].frame.to_dicts()}
    assert len(rows) == 3 * 2 * 5
    mine = rows["MountainCar", "corrected", "srg-dqn"]
    assert (mine["score"], mine["sd over rounds"], mine["success"], mine["length"]) == ("2.000", "0.050", "75%", "120")
    lost = rows["Pendulum", "corrected", "srg-dqn"]
    assert lost["diverged"] == f"2 of {ROUNDS}"
    assert "2 of SRG-DQN's 24 rounds diverged" in section.found
    assert "MountainCar: srg-dqn 2.000, " in section.found


def test_controls_contrast_srg_dqn_with_every_other(outcomes: dict[str, Any]) -> None:
    section = controls.show(PAPER_SCALE, ("corrected",), outcomes)
    table, interaction, scores = section.tables
    rows = {(row["task"], row["against"]): row for row in table.frame.to_dicts()}
    assert len(rows) == 3 * 5
    row = rows["CartPole", "sgd-inner-adam"]
    assert (row["SRG-DQN"], row["it"]) == ("2.000", "0.900")
    assert row["difference [95 %]"].startswith("+1.100 [")
    assert row["log sd ratio [95 %]"].startswith(f"{np.log(0.05 / 0.3):+.3f} [")
    assert rows["MountainCar", "sgd-inner-adam"]["difference [95 %]"].startswith("-3.000 [")
    ahead = "srg-dqn-no-adam, svr-dqn, sgd-inner, dqn-sgd"
    assert f"MountainCar: SRG-DQN is ahead of {ahead} and behind sgd-inner-adam" in section.found
    assert scores.frame.height == 3 * 7
    assert {series.label for series in section.charts[0].panels[0].series} == {*PAPER, "sgd-inner", "sgd-inner-adam"}
    # 0.9 with neither, 5 with Adam, 0.9 with variance reduction, and 2 with both.
    car = interaction.frame.row(0, named=True)
    assert (car["task"], car["neither"]) == ("MountainCar", "0.900")
    for effect, value in (("Adam alone", 4.1), ("variance reduction alone", 0.0), ("both", 1.1), ("interaction", -3.0)):
        assert float(car[effect].split()[0]) == pytest.approx(value, abs=1e-3)
    assert interaction.frame.height == 3
    # Two of SRG-DQN's rounds on Pendulum, and none elsewhere.
    assert interaction.frame["diverged"].to_list() == [f"0 of {4 * ROUNDS}", f"2 of {4 * ROUNDS}", f"0 of {4 * ROUNDS}"]
    assert (rows["Pendulum", "svr-dqn"]["diverged"], row["diverged"]) == ("2 and 0", "0 and 0")
    # In a preview there is none of it, rather than a table of nothing.
    few = {name: result for name, result in outcomes.items() if "-sgd-inner-corrected" not in name}
    assert len(controls.show(PAPER_SCALE, ("corrected",), few).tables) == 2


def test_there_is_no_interaction_without_the_whole_factorial(outcomes: dict[str, Any]) -> None:
    some = {name: result for name, result in outcomes.items() if name != "CartPole-sgd-inner-corrected"}
    assert controls.interaction_table(some, ("corrected",)).frame["task"].to_list() == ["MountainCar", "Pendulum"]
