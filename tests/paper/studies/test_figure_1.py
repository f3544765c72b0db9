import numpy as np
import pytest

from srgdqn.figures.charts import data_of
from srgdqn.paper.measurements.exact_anchors import ARMS
from srgdqn.paper.scale import PAPER_SCALE
from srgdqn.paper.studies import figure_1
from srgdqn.paper.studies.figure_1 import evaluation_matrix, evaluation_steps
from synthetic_outcomes import PILOT, exact_anchors

REWARDS = {"ordinary": np.array([1.0, 2.0, 4.0]), "exact": np.array([2.0, 4.0, 8.0]), "oracle": np.zeros(3)}


def test_rows_of_the_matrix_are_rounds() -> None:
    outcomes = {"exact-anchors-corrected": exact_anchors(REWARDS)}
    for arm in ARMS:
        found = evaluation_matrix(outcomes, "corrected", arm, -1.0)
        np.testing.assert_array_equal(found, np.repeat(REWARDS[arm][:, None], 20, axis=1))
    np.testing.assert_array_equal(evaluation_steps(outcomes, "corrected"), 1_000 * np.arange(1, 21))


def test_a_round_that_diverged_scores_as_the_random_policy_throughout() -> None:
    """Its only evaluation is at a step of its own, which is none of the others'."""
    outcomes = {"exact-anchors-corrected": exact_anchors(REWARDS, diverged={"exact": [1]})}
    found = evaluation_matrix(outcomes, "corrected", "exact", -1.0)
    np.testing.assert_array_equal(found, np.repeat([[2.0], [-1.0], [8.0]], 20, axis=1))
    assert len(evaluation_steps(outcomes, "corrected")) == 20


@pytest.mark.parametrize("arms", [("exact",), ARMS])
def test_all_rounds_of_an_arm_may_diverge(arms: tuple[str, ...]) -> None:
    outcomes = {"exact-anchors-corrected": exact_anchors(REWARDS, diverged={arm: range(3) for arm in arms})}
    found = {arm: evaluation_matrix(outcomes, "corrected", arm, -1.0) for arm in ARMS}
    assert (found["exact"] == -1.0).all()
    assert len({values.shape for values in found.values()}) == 1  # comparable
    assert found["exact"].shape[1] == (20 if arms == ("exact",) else 1)


def test_the_section_shows_planted_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figure_1, "read_pilot", lambda: PILOT)
    outcomes = {
        "exact-anchors-corrected": exact_anchors(REWARDS, diverged={"exact": [2]}),
        "exact-anchors-printed": exact_anchors(REWARDS),
    }
    section = figure_1.show(PAPER_SCALE, ("corrected", "printed"), outcomes)
    rows = section.tables[0].frame.to_dicts()
    assert [row["readings"] for row in rows] == ["corrected"] * 3 + ["printed"] * 3
    assert [row["diverged"] for row in rows] == [0, 1, 0, 0, 0, 0]
    exact = rows[1]
    assert exact["last 20 % [95 %]"].startswith("2.000 [")  # of 2, 4, and 0 for the random policy
    assert exact["sd over rounds"] == "2.000"
    points = data_of(section.charts[0]).filter(group="printed", series="SVR-DQN")
    np.testing.assert_allclose(points["y"], 7 / 3)
    deviation = np.std([1.0, 2.0, 4.0], ddof=1)
    np.testing.assert_allclose(points["high"] - points["y"], deviation)
