import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srgdqn.figures.charts import data_of
from srgdqn.paper.scale import PAPER_SCALE, Scale
from srgdqn.paper.studies import dose_response
from srgdqn.paper.studies.dose_response import doses, measured, response, scored
from synthetic_outcomes import DOSES, PILOT, one_dose

# The logarithm of each dose's planted error.
ERRORS = {(c, b): 2.0 - c - 0.5 * np.log(b) for c, b in DOSES}


@pytest.fixture
def scale() -> Scale:
    return dataclasses.replace(PAPER_SCALE, doses=DOSES)


def outcomes(gain: float = 1.0, **changed: object) -> dict[str, object]:
    found = {f"dose-c{c:g}-b{b}-corrected": one_dose((c, b), gain, rounds=6) for c, b in DOSES}
    return {**found, **changed}


@given(st.floats(-3, 3), st.floats(-5, 5), st.integers(1, 4))
def test_on_a_line_it_is_the_slope_times_the_range(slope: float, height: float, rounds: int) -> None:
    rng = np.random.default_rng(0)
    x = np.array([0.0, 0.5, 2.0, 3.5])
    errors = x[:, None] + rng.normal(size=(4, rounds))
    rewards = height + slope * errors
    expected = -slope * np.ptp(errors.mean(1))
    assert response(errors, rewards) == pytest.approx(expected, abs=1e-9)


def test_it_is_the_least_squares_line_of_the_doses_means() -> None:
    x, y = np.array([1.0, 2.0, 4.0]), np.array([3.0, 1.0, 2.0])
    slope = ((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum()
    errors, rewards = (np.stack([values - 1, values + 1], axis=1) for values in (x, y))
    assert response(errors, rewards) == pytest.approx(-3 * slope)


def test_a_dose_without_any_error_is_left_out() -> None:
    errors = np.array([[0.0], [1.0], [np.nan]])
    rewards = np.array([[5.0], [4.0], [-99.0]])
    assert response(errors, rewards) == pytest.approx(1.0)
    assert np.isnan(response(errors[1:], rewards[1:]))
    assert np.isnan(response(np.zeros((3, 2)), np.ones((3, 2))))  # no dose differs from another


def test_errors_and_rewards_by_dose_and_round() -> None:
    found = outcomes()
    assert doses(found, "corrected") == sorted(DOSES)
    errors, rewards = measured(found, "corrected", 0.0)
    assert errors.shape == rewards.shape == (4, 6)
    for row, dose in enumerate(sorted(DOSES)):
        assert errors[row].mean() == pytest.approx(ERRORS[dose])
        # In the last fifth reward is minus the logarithm; before, 9 more.
        np.testing.assert_allclose(rewards[row].mean(), -ERRORS[dose])


def test_rounds_that_diverged_score_as_the_random_policy_at_their_doses_error() -> None:
    lost = {"dose-c0-b1-corrected": one_dose((0.0, 1), 1.0, rounds=6, diverged=[1, 4])}
    errors, rewards = measured(outcomes(**lost), "corrected", -7.0)
    whole, _ = measured(outcomes(), "corrected", -7.0)
    assert rewards[0, [1, 4]].tolist() == [-7.0, -7.0]
    others = [0, 2, 3, 5]
    np.testing.assert_allclose(errors[0, others], whole[0, others])
    np.testing.assert_allclose(errors[0, [1, 4]], whole[0, others].mean())
    every = {"dose-c0-b1-corrected": one_dose((0.0, 1), 1.0, rounds=6, diverged=range(6))}
    errors, rewards = measured(outcomes(**every), "corrected", -7.0)
    assert np.isnan(errors[0]).all()
    assert (rewards[0] == -7.0).all()
    # The other three still lie on their line, and the range is theirs.
    assert response(errors, rewards) == pytest.approx(ERRORS[0.0, 4] - ERRORS[1.0, 4])


def test_the_section_shows_planted_numbers(scale: Scale, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dose_response, "read_pilot", lambda: PILOT)
    section = dose_response.show(scale, ("corrected",), outcomes())
    assert f"corrected {1 + np.log(2):+.4f}." in section.found
    rows = {(row["c"], row["b"]): row for row in section.tables[0].frame.to_dicts()}
    for dose, error in ERRORS.items():
        assert rows[dose]["estimator error"] == f"{np.exp(error):.4f}"
        assert rows[dose]["reward per action"] == f"{-error:.4f}"
        assert rows[dose]["diverged"] == "0 of 6 [0 %, 39 %]"
    points = data_of(section.charts[0]).filter(series="b = 4").sort("error")
    np.testing.assert_allclose(points["error"], np.exp(sorted(e for d, e in ERRORS.items() if d[1] == 4)))


def test_in_the_section_divergence_is_no_gain(scale: Scale, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dose_response, "read_pilot", lambda: PILOT)
    lost = {"dose-c0-b1-corrected": one_dose((0.0, 1), 1.0, rounds=6, diverged=range(6))}
    section = dose_response.show(scale, ("corrected",), outcomes(**lost))
    (row,) = (row for row in section.tables[0].frame.to_dicts() if (row["c"], row["b"]) == (0.0, 1))
    _, rewards = measured(outcomes(), "corrected", 0.0)
    worst = rewards[1:].min()  # of the other doses' rounds; the random policy has 0
    assert row["reward per action"] == f"{worst:.4f}"
    assert (row["diverged"], row["estimator error"]) == ("6 of 6 [61 %, 100 %]", "no round left")
    assert "6 of 100 rounds diverged." in section.charts[0].caption  # 25 of each dose at this scale
    some = {"dose-c0-b1-corrected": one_dose((0.0, 1), 1.0, rounds=6, diverged=[1, 4])}
    _, found = scored(outcomes(**some), "corrected", 9.0)
    np.testing.assert_allclose(found[0, [1, 4]], np.delete(rewards[0], [1, 4]).min())  # still the least accurate dose
    _, found = scored(outcomes(**some), "corrected", -9.0)
    np.testing.assert_allclose(found[0, [1, 4]], -9.0)
    assert f"{ERRORS[0.0, 4] - ERRORS[1.0, 4]:+.4f}" in section.found
