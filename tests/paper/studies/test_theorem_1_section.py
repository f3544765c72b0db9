from typing import Any

import numpy as np
import polars as pl
import pytest

from srgdqn.figures.charts import data_of
from srgdqn.paper.claims.paper_claims import ONE_PROBLEM
from srgdqn.paper.scale import PAPER_SCALE
from srgdqn.paper.studies import theorem_1
from synthetic_outcomes import anchors, theorem


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Any]:
    runs = {f"anchors-{name}-corrected": anchors(0.5, 3.0) for name in ("svr-dqn", "srg-dqn")}
    return {"theorem-1": theorem(True), **runs}


def test_ratios_of_queries_are_paired_at_the_centre(outcomes: dict[str, Any]) -> None:
    table = outcomes["theorem-1"].tables["queries"]
    for problem in theorem_1.PROBLEMS:
        for step in ("theory", "tuned"):
            found = theorem_1.log_query_ratios(outcomes, problem, step)
            rows = table.filter(problem=problem, step=step, n=64, M=16, relative=1e-2)
            for replication, ratio in enumerate(found):
                svrg, srg = (
                    rows.filter(estimator=e, replication=replication)["queries"].item() for e in ("svrg", "srg")
                )
                assert ratio == pytest.approx(np.log(svrg / srg))
            assert found.mean() == pytest.approx(np.log(2), abs=0.05)


def test_replications_that_neither_finishes_are_not_compared(outcomes: dict[str, Any]) -> None:
    measured = outcomes["theorem-1"]
    before = theorem_1.log_query_ratios(outcomes, "convex", "tuned")

    def without(lost: pl.Expr) -> np.ndarray:
        table = measured.tables["queries"].with_columns(reached=pl.col("reached") & ~lost)
        changed = {"theorem-1": type(measured)({**measured.tables, "queries": table}, measured.about)}
        return theorem_1.log_query_ratios(changed, "convex", "tuned")

    first = pl.col("replication") == 0
    np.testing.assert_allclose(without(first), before[1:])
    np.testing.assert_allclose(without(first & (pl.col("estimator") == "svrg")), before)


def test_the_section_shows_planted_numbers(outcomes: dict[str, Any]) -> None:
    section = theorem_1.show(PAPER_SCALE, ("corrected",), outcomes)
    assert "violated in 0 of 4 settings" in section.found
    assert (
        "SVRG needs 1.97 (convex) and 1.97 (network) times SRG's queries; with tuned step sizes SVRG needs 2.04"
        in section.found
    )
    assert ONE_PROBLEM in section.found
    assert "order 1/ε², not" in section.found  # the mean of 1.75 and 2.25
    assert "η of 0.01 satisfies the bound at 50 % of 40 snapshots" in section.found
    tables = {table.name: table.frame for table in section.tables}
    inequality = tables["theorem-1-inequality"]
    assert inequality.filter(problem="convex")["violated"].to_list() == ["0 of 2", "2 of 2"]
    assert inequality["left side"].to_list() == ["1", "3"] * 2
    rows = (
        outcomes["theorem-1"]
        .tables["queries"]
        .filter(problem="network", step="tuned", n=64, M=16, relative=1e-2, estimator="sgd")
    )
    mean = np.exp(np.log(rows["queries"].to_numpy()).mean())
    shown = tables["theorem-1-queries-by-size"].filter(
        **{"problem": "network", "step size": "tuned", "n": 64, "M": 16, "ε / start": 1e-2}
    )
    assert shown["SGD"].item() == f"{mean:.0f} (η 0.01, 0 missed)"
    bound = tables["theorem-1-bound"]
    assert set(bound["η within the bound"]) == {"50 %"}
    points = data_of(section.charts[0]).filter(panel="network, tuned step size", series="SGD", epsilon=1e-2)
    assert points["y"].item() == pytest.approx(mean)


def test_sides_that_have_diverged_are_not_written_out(outcomes: dict[str, Any]) -> None:
    measured = outcomes["theorem-1"]
    far = pl.col("multiple") > 1
    table = measured.tables["inequality"].with_columns(
        left=pl.when(far).then(1e110).otherwise(pl.col("left")),
        right=pl.when(far).then(-1e110).otherwise(pl.col("right")),
    )
    changed = {**outcomes, "theorem-1": type(measured)({**measured.tables, "inequality": table}, measured.about)}
    [shown, *_] = theorem_1.show(PAPER_SCALE, ("corrected",), changed).tables
    assert shown.frame["left side"].to_list() == ["1", "diverged"] * 2
    assert shown.frame["right side"].to_list()[1::2] == ["diverged"] * 2
    assert shown.frame["violated"].to_list()[1::2] == ["–"] * 2


def test_a_ratio_cut_short_by_the_budget_is_told_as_such(outcomes: dict[str, Any]) -> None:
    measured = outcomes["theorem-1"]
    lost = (pl.col("estimator") == "svrg") & (pl.col("step") == "theory") & (pl.col("problem") == "convex")
    table = measured.tables["queries"].with_columns(reached=pl.col("reached") & ~lost)
    changed = {**outcomes, "theorem-1": type(measured)({**measured.tables, "queries": table}, measured.about)}
    found = theorem_1.show(PAPER_SCALE, ("corrected",), changed).found
    assert "SVRG needs at least 1.97 (convex) and 1.97 (network) times SRG's queries; with tuned" in found
