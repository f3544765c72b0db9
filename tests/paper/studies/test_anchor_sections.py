"""Figure 3, right, and the anatomy: both look at the anchors of the same two runs."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from srgdqn.figures.charts import data_of
from srgdqn.paper.scale import PAPER_SCALE
from srgdqn.paper.studies import anatomy, figure_3_right
from synthetic_outcomes import anchors


@pytest.fixture
def outcomes() -> dict[str, Any]:
    """Rounds 2 and 7 diverged, each in one of the two runs."""
    rounds = {"svr-dqn": [0, 1, 3, 7], "srg-dqn": [0, 1, 2, 3]}
    return {
        f"anchors-{name}-corrected": anchors(0.5, 3.0, rounds=numbers, seed=place)
        for place, (name, numbers) in enumerate(rounds.items())
    }


def wobble(number: int) -> float:
    """What a round's ratios deviate by, in both runs together."""
    return 0.05 * (np.cos(number) + np.cos(number + 1)) / 2


@pytest.mark.parametrize("definition", figure_3_right.DEFINITIONS)
def test_log_ratios_are_means_over_both_runs_of_the_rounds_in_both(outcomes: dict[str, Any], definition: str) -> None:
    found = figure_3_right.log_ratios(outcomes, "corrected", definition)
    np.testing.assert_allclose(found, [np.log(0.5) + wobble(number) for number in (0, 1, 3)])


def test_the_first_inner_iteration_does_not_count(outcomes: dict[str, Any]) -> None:
    """As in the claim: both anchors coincide there."""
    changed = {}
    for name, measured in outcomes.items():
        first = (pl.col("m") == 1) & (pl.col("estimator") == "srg")
        far = [pl.when(first).then(99.0).otherwise(each).alias(each) for each in figure_3_right.DEFINITIONS]
        tables = {**measured.tables, "distances": measured.tables["distances"].with_columns(far)}
        changed[name] = type(measured)(tables, measured.about)
    before, after = (figure_3_right.show(PAPER_SCALE, ("corrected",), each).tables[0] for each in (outcomes, changed))
    assert before.frame.equals(after.frame)
    assert after.note.startswith("From m = 2 on")
    assert figure_3_right.log_ratios(changed, "corrected", "own", first=1).mean() > 0


@pytest.mark.parametrize("part", anatomy.PARTS)
def test_a_rounds_shares_are_those_of_sums_over_both_runs(outcomes: dict[str, Any], part: str) -> None:
    tables = [outcomes[f"anchors-{name}-corrected"].tables["anatomy"] for name in ("svr-dqn", "srg-dqn")]
    expected = []
    for number in (0, 1, 3):  # those in both
        rows = [row for table in tables for row in table.iter_rows(named=True) if row["round"] == number]
        expected.append(sum(row[part] for row in rows) / sum(row[each] for row in rows for each in anatomy.PARTS))
    np.testing.assert_allclose(anatomy.shares(outcomes, "corrected", part), expected)


def test_distances_are_shown_over_training_and_by_inner_iteration(outcomes: dict[str, Any]) -> None:
    section = figure_3_right.show(PAPER_SCALE, ("corrected",), outcomes)
    ratio = np.exp(np.mean([np.log(0.5) + wobble(number) for number in (0, 1, 3)]))
    assert f"anchors at their own θ {ratio:.3f}" in section.found
    assert section.tables[0].frame["ratio"].to_list() == [f"{ratio:.3f}"] * 3
    # Of ten, six were lost in each run, and one more that is in only one of them.
    assert section.tables[0].frame["rounds"].to_list() == ["3 of 10"] * 3
    lost = "(corrected: 6 of 10 in anchors-svr-dqn-corrected, 6 of 10 in anchors-srg-dqn-corrected)"
    assert all(lost in chart.caption for chart in section.charts)
    charts = {chart.name: chart for chart in section.charts}
    assert len(charts) == 4
    rows = pl.concat([measured.tables["distances"] for measured in outcomes.values()]).filter(estimator="svrg")
    for name, key, norm in (
        ("figure-3-right-over-training", "step", 1.0),
        ("figure-3-right-by-m-relative", "m", 20.0),
    ):
        points = data_of(charts[name]).filter(panel="estimates Δ_m at θ_m", series="SVR-DQN's").sort(key)
        for at, y in points.select(key, "y").iter_rows():
            assert y == pytest.approx(rows.filter(pl.col(key) == at)["estimate"].to_numpy().mean() / norm)
    own = data_of(charts["figure-3-right-by-m-relative"]).filter(
        panel="anchors at their own θ", series="SVR-DQN's", m=1
    )
    assert own["y"].item() == pytest.approx(rows.filter(m=1)["own"].to_numpy().mean() / 10.0)
    floor = data_of(charts["figure-3-right-over-training"]).filter(series="D's own error")
    np.testing.assert_allclose(floor["y"], 0.5)
    estimates = pl.concat([measured.tables["distances"] for measured in outcomes.values()]).filter(estimator="srg")
    share = 0.5 / estimates["estimate"].to_numpy().mean()
    assert f"is {100 * share:.0f} % of the distance of SRG's estimates." in section.found


def test_the_anatomy_shows_shares(outcomes: dict[str, Any]) -> None:
    section = anatomy.show(PAPER_SCALE, ("corrected",), outcomes)
    table = outcomes["anchors-svr-dqn-corrected"].tables["anatomy"]
    sizes = {part: table[part].to_numpy().mean() for part in ("sampling", "unseen", "drift")}
    rows = [row for row in section.tables[0].frame.to_dicts() if row["run of"] == "svr-dqn"]
    assert [row["share of the three"] for row in rows] == [
        f"{100 * size / sum(sizes.values()):.0f} %" for size in sizes.values()
    ]
    assert [row["mean squared error"] for row in rows] == [f"{size:.4g}" for size in sizes.values()]
    assert {row["rounds"] for row in rows} == {"4 of 10"}
    assert "means over 3 of 10 rounds, those that diverged in neither run" in section.found
    assert "6 of 10 in anchors-srg-dqn-corrected" in section.charts[0].caption
    unseen = anatomy.shares(outcomes, "corrected", "unseen").mean()
    assert f"unseen transitions are {100 * unseen:.0f} [" in section.found
    points = data_of(section.charts[0]).filter(panel="run of svr-dqn", series="D against all recorded").sort("steps")
    expected = table.group_by("step").agg(pl.col("total").mean()).sort("step")["total"]
    np.testing.assert_allclose(points["y"], expected)
