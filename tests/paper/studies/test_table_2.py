import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from srgdqn.figures.charts import data_of
from srgdqn.paper.scale import PAPER_SCALE, QUICK
from srgdqn.paper.studies import table_2
from srgdqn.paper.studies.table_2 import PRINTED, Spreads, falls_text, late_ratio
from srgdqn.runs.measurement import Measured
from synthetic_outcomes import ELEMENTS, SPREAD_STEPS, WEIGHTS, spread

# As the paper's Table 2 has them.
SOURCE = r"""
SVR-DQN & 0.229 & 0.790 & 0.430 & \textbf{0.474} & 0.626 & 1.176 & \textbf{0.500} &\textbf{0.388}& 0.638& 0.739\\
SRG-DQN & \textbf{0.122} & \textbf{0.395} & \textbf{0.389} & 0.520 & \textbf{0.625} & \textbf{0.632} & 0.966 & 0.966&
\textbf{0.394}& \textbf{0.562}\\
SVR-DQN & 0.306 & \textbf{0.286} & 0.293 & \textbf{0.212} & 0.188 & 0.318 & 0.443 & 0.271& 0.193 & 0.205\\
SRG-DQN & \textbf{0.225} & 0.334 & \textbf{0.254} & 0.353& \textbf{0.154} & \textbf{0.247} & \textbf{0.182} &
\textbf{0.229} & \textbf{0.188} & \textbf{0.203}\\
"""


def test_the_papers_numbers_are_the_papers() -> None:
    rows = [row for row in SOURCE.split(r"\\") if "DQN" in row]
    numbers = [tuple(float(number) for number in re.findall(r"\d\.\d{3}", row)) for row in rows]
    assert {"svr-dqn": (numbers[0], numbers[2]), "srg-dqn": (numbers[1], numbers[3])} == PRINTED
    bold = sum(row.count("textbf") for row in (rows[1], rows[3]))
    srg, svr = (np.ravel(PRINTED[name]) for name in ("srg-dqn", "svr-dqn"))
    assert srg.shape == svr.shape == (20,)
    assert int((srg < svr).sum()) == bold == 15


def test_steps_are_the_tables() -> None:
    assert table_2.steps(PAPER_SCALE)[:2] == (1_000, 2_000)
    assert table_2.steps(PAPER_SCALE)[9:11] == (10_000, 91_000)
    assert table_2.steps(PAPER_SCALE)[-1] == 100_000
    assert len(set(table_2.steps(PAPER_SCALE))) == len(set(table_2.steps(QUICK))) == 20


def measured(
    vectors: dict[int, list[list[float]]], windows: dict[int, list[float]], redraws: dict[str, dict[int, list[float]]]
) -> Measured:
    """Two steps: by round, a vector for each, the spread within each window, and by estimator that over redraws."""
    labels = [(step, quantity) for step in (1_000, 2_000) for quantity in ("delta", "gradient")]

    def table(entries: dict[int, list[Any]], make: Any) -> pl.DataFrame:
        rows = []
        for number, values in reversed(entries.items()):
            for step, quantity in labels:
                value = values[step // 1_000 - 1]
                scale = 1.0 if quantity == "delta" else 10.0
                rows.append({"step": step, "quantity": quantity, "round": number, **make(value, scale)})
        return pl.DataFrame(rows)

    def spreads(value: float, scale: float) -> dict[str, float]:
        return {"spread": scale * value, "spread_with_biases": 3 * scale * value}

    tables = {
        "vectors": table(vectors, lambda value, scale: {"vector": [scale * x for x in value]}),
        "windows": table(windows, spreads),
        "redraws": pl.concat(
            [
                table(
                    entries, lambda value, scale: {**spreads(value, scale), "within": 1.0, "between": 3.0}
                ).with_columns(estimator=pl.lit(estimator))
                for estimator, entries in redraws.items()
            ]
        ),
        "rounds": pl.DataFrame({"rounds": [3], "diverged": [0], "weights": [2]}),
    }
    return Measured(tables, {"plan": {}, "seconds": 1.0})


@pytest.fixture
def outcomes() -> dict[str, Measured]:
    """Round 1 diverged in SRG-DQN's run, and round 3 in SVR-DQN's: rounds 0 and 2 are left."""
    nan = float("nan")
    svr = measured(
        {0: [[0, 0, 9], [0, 0, 9]], 1: [[5, 5, 5]] * 2, 2: [[2, 4, 0], [6, 0, 9]]},
        {0: [nan, 1.0], 1: [nan, 100.0], 2: [nan, 3.0]},
        {"svrg": {0: [4.0, 8.0], 1: [99.0] * 2, 2: [4.0, 8.0]}, "srg": {0: [1.0, 2.0], 1: [99.0] * 2, 2: [3.0, 2.0]}},
    )
    srg = measured(
        {0: [[0, 0, 1], [1, 1, 0]], 2: [[1, 0, 1], [1, 4, 0]], 3: [[7, 7, 7]] * 2},
        {0: [nan, 2.0], 2: [nan, 2.0], 3: [nan, 50.0]},
        {"svrg": {0: [2.0, 4.0], 2: [2.0, 4.0], 3: [9.0, 9.0]}, "srg": {0: [1.0, 4.0], 2: [1.0, 4.0], 3: [9.0, 9.0]}},
    )
    return {"spread-svr-dqn-corrected": svr, "spread-srg-dqn-corrected": srg}


def test_spreads_across_rounds_by_hand(outcomes: dict[str, Measured]) -> None:
    spreads = Spreads(outcomes, "corrected")
    assert spreads.rounds == [0, 2]
    assert spreads.steps == [1_000, 2_000]
    # Of two values, the deviation with n - 1 is their distance over √2; summed over the two weights.
    found = spreads.of("across")
    np.testing.assert_allclose(found["svr-dqn"], np.array([2 + 4, 6 + 0]) / np.sqrt(2))
    np.testing.assert_allclose(found["srg-dqn"], np.array([1 + 0, 0 + 3]) / np.sqrt(2))
    assert spreads.log_ratio("across") == pytest.approx((np.log(1 / 6) + np.log(3 / 6)) / 2)
    biased = Spreads(outcomes, "corrected", biases=True).of("across")
    np.testing.assert_allclose(biased["svr-dqn"], np.array([6 + 9, 6 + 0]) / np.sqrt(2))
    raw = Spreads(outcomes, "corrected", "gradient").of("across")
    np.testing.assert_allclose(raw["srg-dqn"], 10 * found["srg-dqn"])


def test_spreads_within_windows_by_hand(outcomes: dict[str, Measured]) -> None:
    spreads = Spreads(outcomes, "corrected")
    found = spreads.of("window")
    np.testing.assert_array_equal(found["svr-dqn"], [np.nan, 2.0])  # a single outer iteration has no spread
    np.testing.assert_array_equal(found["srg-dqn"], [np.nan, 2.0])
    assert spreads.log_ratio("window") == 0.0
    assert spreads.log_ratio("window", np.array([0, 0])) == pytest.approx(np.log(2))
    assert Spreads(outcomes, "corrected", biases=True).of("window")["srg-dqn"][1] == 6.0


def test_spreads_at_a_frozen_point_are_of_both_runs(outcomes: dict[str, Measured]) -> None:
    found = Spreads(outcomes, "corrected").of("frozen")
    np.testing.assert_allclose(found["svr-dqn"], [(4 + 2) / 2, (8 + 4) / 2])
    np.testing.assert_allclose(found["srg-dqn"], [(2 + 1) / 2, (2 + 4) / 2])


def test_rounds_are_resampled_jointly(outcomes: dict[str, Measured]) -> None:
    spreads = Spreads(outcomes, "corrected")
    np.testing.assert_allclose(spreads.of("frozen", np.array([1, 1]))["srg-dqn"], [(3 + 1) / 2, (2 + 4) / 2])
    picks = np.array([0, 1, 1])
    vectors = {"svr-dqn": np.array([[0, 0], [2, 4], [2, 4]]), "srg-dqn": np.array([[0, 0], [1, 0], [1, 0]])}
    for name, stack in vectors.items():
        assert spreads.of("across", picks)[name][0] == pytest.approx(stack.std(0, ddof=1).sum())


@pytest.mark.parametrize("definition", ["across", "window"])
@pytest.mark.parametrize("huge", [1.0, 1e12])
def test_many_resamples_at_once_are_those_one_by_one(definition: str, huge: float) -> None:
    """Also where one round has a huge vector, which some resamples lack."""
    cells = {f"spread-{name}-corrected": spread(name, 1.0, 0.5, rounds=9) for name in table_2.ALGORITHMS}
    for cell in cells.values():
        tables = cell.tables
        large = pl.when(pl.col("round") == 4).then(huge).otherwise(1.0)
        tables["windows"] = tables["windows"].with_columns(pl.col("spread") * large)
        stack = np.array(tables["vectors"]["vector"].to_list())
        stack[tables["vectors"]["round"].to_numpy() == 4] *= huge
        tables["vectors"] = tables["vectors"].with_columns(vector=pl.Series(stack))
    spreads = Spreads(cells, "corrected")
    picks = np.random.default_rng(0).integers(0, 9, (40, 6))
    picks[0] = 3  # no spread across rounds
    assert 0 < (picks == 4).any(1).sum() < 40
    found = spreads.resampled(definition, picks)
    assert found.shape == (40, 2, len(spreads.steps))
    for row, several in zip(picks, found, strict=True):
        one_by_one = spreads.of(definition, row)
        for name, mine in zip(table_2.ALGORITHMS, several, strict=True):
            np.testing.assert_allclose(mine, one_by_one[name], rtol=1e-9, atol=1e-6)


def test_the_section_shows_planted_numbers_beside_the_papers(tmp_path: Path) -> None:
    outcomes = {
        "spread-svr-dqn-corrected": spread("svr-dqn", 1.0, 0.5, rounds=5),
        "spread-srg-dqn-corrected": spread("srg-dqn", 0.25, 0.5, rounds=5),
    }
    section = table_2.show(QUICK, ("corrected",), outcomes)
    assert "in 20 (across rounds), 19 (within 1,000-step windows)" in section.found
    tables = {table.name: table.frame for table in section.tables}
    across = tables["table-2-across"]
    vectors = outcomes["spread-svr-dqn-corrected"].tables["vectors"].filter(step=2_000, quantity="delta")
    stack = np.array(vectors["vector"].to_list())
    assert stack.shape == (5, ELEMENTS)
    spread_by_hand = stack[:, :WEIGHTS].std(0, ddof=1).sum()
    row = across.filter(readings="corrected", algorithm="svr-dqn").row(0, named=True)
    assert row["2,000"] == f"{spread_by_hand:.3f}"
    assert across.filter(readings="corrected", algorithm="srg-dqn")["2,000"].item() == f"{spread_by_hand / 4:.3f}"
    assert across.filter(readings="as printed in the paper", algorithm="svr-dqn")["6,000"].item() == "1.176"
    assert tables["table-2-window"]["1,000"].to_list() == ["no spread"] * 2
    ratios = tables["table-2-ratios"]
    assert ratios["rounds"].to_list() == ["5 of 5"] * 4
    assert "Rounds that diverged, and are left out (corrected: none of 5)." in section.charts[0].caption
    assert "none of 5" in next(table.note for table in section.tables if table.name == "table-2-across")
    assert ratios["across rounds"].to_list() == ["0.250"] * 4
    assert ratios["vector"].to_list() == ["Δ_M", "Δ_M", "g_M", "g_M"]
    assert set(tables["table-2-split"]["between Ds"]) == {"75.0%"}  # three times the variance within
    (chart,) = section.charts
    points = data_of(chart).filter(panel="across rounds", series="svr-dqn", group="corrected")
    assert points["y"].len() == len(SPREAD_STEPS)
    assert points["y"][1] == pytest.approx(spread_by_hand)


@pytest.mark.parametrize("left", [(), ("svr-dqn",), ("srg-dqn",)], ids=["neither", "svr-dqn", "srg-dqn"])
def test_the_section_says_where_every_round_diverged(left: tuple[str, ...]) -> None:
    """Of both runs, or of one of them."""
    outcomes = {f"spread-{name}-corrected": spread(name, 1.0, 0.5, rounds=5) for name in table_2.ALGORITHMS}
    for name in set(table_2.ALGORITHMS) - set(left):
        tables = outcomes[f"spread-{name}-corrected"].tables
        tables.update({table: tables[table].clear() for table in ("vectors", "windows", "redraws")})
        tables["rounds"] = tables["rounds"].with_columns(diverged=5)
    spreads = Spreads(outcomes, "corrected", planned=table_2.steps(QUICK))
    assert spreads.rounds == []
    assert spreads.steps == list(table_2.steps(QUICK))
    section = table_2.show(QUICK, ("corrected",), outcomes)
    tables = {table.name: table.frame for table in section.tables}
    for definition in table_2.DEFINITIONS:
        assert np.isnan(spreads.log_ratio(definition))
        shown = tables[f"table-2-{definition}"].filter(readings="corrected").drop("readings", "algorithm")
        assert shown.width == 20
        assert set(shown.unpivot()["value"]) == {"no spread"}
        assert set(tables["table-2-ratios"][table_2.DEFINITIONS[definition]]) == {"no round left"}
    between = {"no round left"} if not left else {"75.0%"}  # at the frozen θ of the run that is left
    assert set(tables["table-2-split"]["between Ds"]) == between
    assert "cannot be told: there is no spread" in section.found


def test_a_ratio_of_no_spread_is_said() -> None:
    outcomes = {f"spread-{name}-corrected": spread(name, 0.0, 0.5, rounds=5) for name in table_2.ALGORITHMS}
    ratios = next(t.frame for t in table_2.show(QUICK, ("corrected",), outcomes).tables if t.name == "table-2-ratios")
    assert set(ratios["across rounds"]) == {"no spread"}
    assert "no spread" not in set(ratios[table_2.DEFINITIONS["frozen"]])


def test_the_late_ratio_by_hand() -> None:
    rng = np.random.default_rng(0)
    table = {name: rng.uniform(0.1, 1.0, 20) for name in table_2.ALGORITHMS}
    both = np.array(list(table.values()))
    early, late = np.prod(both[:, 1:10]) ** (1 / 18), np.prod(both[:, 10:]) ** (1 / 20)
    assert late_ratio(table) == pytest.approx(late / early)
    gaps = {name: np.where(np.arange(20) == 3, np.nan, values) for name, values in table.items()}
    kept = np.delete(both[:, 1:10], 2, axis=1)
    assert late_ratio(gaps) == pytest.approx(late / np.prod(kept) ** (1 / 16))
    assert np.isnan(late_ratio({name: np.zeros(20) for name in table}))


def test_the_papers_standard_deviations_fall_to_less_than_half() -> None:
    """Its fall is +0.87 in logarithms."""
    printed = late_ratio({name: np.ravel(PRINTED[name]) for name in table_2.ALGORITHMS})
    assert -np.log(printed) == pytest.approx(0.87, abs=0.005)


@pytest.mark.parametrize(
    ("ratios", "said"),
    [
        ((0.4, 0.3, 0.2), "By the same measure ours fall as much or more: 0.40 times across rounds, 0.30 times"),
        ((0.9, 0.3, 0.2), "ours fall as well, but by 1 of 3 definitions less: 0.90 times across rounds"),
        ((1.1, 0.3, 0.2), "ours fall by 2 of 3 definitions: 1.10 times across rounds"),
        ((1.1, 2.0, 1.0), "ours do not fall: 1.10 times across rounds, 2.00 times within 1,000-step windows, 1.00"),
        ((np.nan, 2.0, 0.9), "ours fall by 1 of 2 definitions: 2.00 times within"),
        ((np.nan,) * 3, "cannot be told: there is no spread."),
    ],
)
def test_whether_ours_fall_as_the_papers_do_is_said(ratios: tuple[float, ...], said: str) -> None:
    text = falls_text(dict(zip(table_2.DEFINITIONS, ratios, strict=True)))
    assert said in text
    assert text.endswith(".")


def test_the_section_says_whether_ours_fall() -> None:
    outcomes = {
        f"spread-{name}-corrected": spread(name, 1.0, 0.5, rounds=5, seed=place)
        for place, name in enumerate(table_2.ALGORITHMS)
    }
    found = table_2.show(QUICK, ("corrected",), outcomes).found
    ratio = late_ratio(Spreads(outcomes, "corrected").of("across"))
    assert "those of the last 10,000 steps are 0.42 times those of steps 2,000 to 10,000" in found
    assert f"{ratio:.2f} times across rounds" in found
