import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srgdqn.figures.charts import data_of
from srgdqn.paper.scale import PAPER_SCALE, Scale
from srgdqn.paper.studies import dose_response
from srgdqn.paper.studies.dose_response import dose_scores, doses_of, response
from synthetic_outcomes import DOSE_ERRORS, DOSES, dose_outcomes, one_dose


@pytest.fixture
def scale() -> Scale:
    return dataclasses.replace(PAPER_SCALE, doses=DOSES)


def outcomes(**changed: object) -> dict[str, Any]:
    return {**dose_outcomes("corrected", 1.0, rounds=6), **changed}


@given(st.floats(-3, 3), st.floats(-5, 5))
def test_on_a_line_it_is_the_slope_times_the_range(slope: float, height: float) -> None:
    x = np.array([0.0, 0.5, 2.0, 3.5])
    assert response(np.exp(x), height + slope * x) == pytest.approx(-3.5 * slope, abs=1e-9)


def test_it_is_the_least_squares_line() -> None:
    x, y = np.array([1.0, 2.0, 4.0]), np.array([3.0, 1.0, 2.0])
    slope = ((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum()
    assert response(np.exp(x), y) == pytest.approx(-3 * slope)
    assert np.isnan(response(np.ones(3), y))  # no dose differs from another
    assert np.isnan(response(np.ones(1), y[:1]))


def test_the_claim_is_judged_by_doses_of_at_most_sixteen_transitions() -> None:
    large = {(1.0, 64): 0.5, (1.0, 16): 0.6}
    found = {f"dose-c1-b{b}-corrected": one_dose((1.0, b), 1.0, rounds=2) for _, b in large}
    found["dose-errors-corrected"] = dose_outcomes("corrected", 1.0, errors=large)["dose-errors-corrected"]
    rewards, errors = doses_of(found, "corrected")
    assert set(rewards) == set(errors) == {(1.0, 16)}
    assert set(doses_of(found, "corrected", 64).rewards) == set(large)


def test_errors_and_rewards_by_dose() -> None:
    rewards, errors = doses_of(outcomes(), "corrected")
    assert errors == pytest.approx(DOSE_ERRORS)
    for dose, error in DOSE_ERRORS.items():  # reward is minus the logarithm of the error
        assert rewards[dose].means.mean() == pytest.approx(-np.log(error))


def test_divergence_is_no_gain() -> None:
    some = outcomes(**{"dose-c0-b1-corrected": one_dose((0.0, 1), 1.0, rounds=6, diverged=[1, 4])})
    found = dose_scores(some, "corrected", dict(doses_of(some, "corrected").rewards))
    whole = dose_scores(outcomes(), "corrected", dict(doses_of(outcomes(), "corrected").rewards))
    worst = min(np.delete(whole[0.0, 1].values, [1, 4]).min(), *(whole[dose].values.min() for dose in DOSES[1:]))
    np.testing.assert_allclose(found[0.0, 1].values[[1, 4]], worst)
    assert worst < whole["random"].values.mean()
    low = {
        **some,
        "dose-random-corrected": dose_outcomes("corrected", 1.0, rounds=6, chance=-9.0)["dose-random-corrected"],
    }
    found = dose_scores(low, "corrected", dict(doses_of(low, "corrected").rewards))
    np.testing.assert_allclose(found[0.0, 1].values[[1, 4]], -9.0)


def test_the_section_shows_planted_numbers(scale: Scale) -> None:
    section = dose_response.show(scale, ("corrected",), outcomes())
    assert f"corrected {1 + np.log(2):+.3f} " in section.found
    rows = {(row["c"], row["b"]): row for row in section.tables[0].frame.to_dicts()}
    for dose, error in DOSE_ERRORS.items():
        assert rows[dose]["error of the direction"] == f"{error:.3g}"
        assert rows[dose]["reward per action"] == f"{-np.log(error):.4f}"
        assert rows[dose]["diverged"] == "0 of 6 [0 %, 39 %]"
    data = data_of(section.charts[0])
    points = data.filter(series="b = 4").sort("error")
    np.testing.assert_allclose(points["error"], sorted(e for d, e in DOSE_ERRORS.items() if d[1] == 4))
    assert {"random", "untrained"} <= set(data["series"])


def test_the_section_counts_diverged_rounds(scale: Scale) -> None:
    lost = {"dose-c0-b1-corrected": one_dose((0.0, 1), 1.0, rounds=6, diverged=range(6))}
    section = dose_response.show(scale, ("corrected",), outcomes(**lost))
    (row,) = (row for row in section.tables[0].frame.to_dicts() if (row["c"], row["b"]) == (0.0, 1))
    assert row["diverged"] == "6 of 6 [61 %, 100 %]"
    assert "6 of 100 rounds diverged." in section.charts[0].caption  # 25 of each dose at this scale
