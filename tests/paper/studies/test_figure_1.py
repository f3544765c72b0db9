import numpy as np
import polars as pl
import pytest

from srgdqn.figures.charts import data_of
from srgdqn.paper.measurements.exact_anchors import ARMS
from srgdqn.paper.scale import PAPER_SCALE
from srgdqn.paper.studies import figure_1
from srgdqn.paper.studies.figure_1 import evaluation_steps, scored_rounds
from srgdqn.runs.measurement import Measured
from synthetic_outcomes import UNTRAINED, exact_anchors, exact_yardsticks

REWARDS = {"ordinary": np.array([1.0, 2.0, 4.0]), "exact": np.array([2.0, 4.0, 8.0]), "oracle": np.zeros(3)}


@pytest.mark.parametrize("arms", [("exact",), ARMS])
def test_all_rounds_of_an_arm_may_diverge(arms: tuple[str, ...]) -> None:
    """Their only evaluation is at a step of their own, which is none of the others'."""
    outcomes = {"exact-anchors-corrected": exact_anchors(REWARDS, diverged={arm: range(3) for arm in arms})}
    found = scored_rounds(outcomes, "corrected", -1.0)
    assert (found["exact"].filled == -1.0).all()
    assert len({each.filled.shape for each in found.values()}) == 1  # comparable
    assert len(evaluation_steps(outcomes, "corrected")) == (20 if arms == ("exact",) else 1)


def test_the_section_shows_planted_numbers() -> None:
    outcomes = {
        "exact-anchors-corrected": exact_anchors(REWARDS, diverged={"exact": [2]}),
        "exact-anchors-printed": exact_anchors(REWARDS),
        "exact-yardsticks-corrected": exact_yardsticks(3, chance=0.0),
        "exact-yardsticks-printed": exact_yardsticks(3, chance=0.0),
    }
    section = figure_1.show(PAPER_SCALE, ("corrected", "printed"), outcomes)
    rows = section.tables[0].frame.to_dicts()
    assert [row["readings"] for row in rows] == ["corrected"] * 3 + ["printed"] * 3
    assert [row["diverged"][:6] for row in rows] == ["0 of 3", "1 of 3", *["0 of 3"] * 4]
    assert rows[1]["diverged"] == "1 of 3 [6 %, 79 %]"
    exact = rows[1]
    assert exact["last 20 % [95 %]"].startswith("2.000 [")  # of 2, 4, and 0, which is the oracle's as well as random's
    # Of the two rounds that finished in every arm: 1 and 2, 2 and 4, 0 and 0; with printed of all three.
    assert [row["S"] for row in rows[:4]] == ["0.707", "1.414", "0.000", "1.528"]
    mine = [each for each in section.charts[0].panels[0].series if each.group == "corrected" and each.note]
    assert [(each.label, each.note, each.style.dashes) for each in mine] == [
        ("SVR-DQN with exact anchors (same batches)", "2 of 3 left", "--")
    ]
    np.testing.assert_allclose(mine[0].y, 2.0)
    points = data_of(section.charts[0]).filter(group="printed", series="SVR-DQN")
    np.testing.assert_allclose(points["y"], 7 / 3)
    for name, level in (("random", 0.0), ("untrained", UNTRAINED)):
        np.testing.assert_allclose(data_of(section.charts[0]).filter(group="printed", series=name)["y"], level)
    deviation = np.std([1.0, 2.0, 4.0], ddof=1)
    np.testing.assert_allclose(points["high"] - points["y"], deviation)


def test_too_few_rounds_have_no_spread() -> None:
    outcomes = {
        "exact-anchors-corrected": exact_anchors(REWARDS, diverged={"exact": [1, 2]}),
        "exact-yardsticks-corrected": exact_yardsticks(3, chance=0.0),
    }
    section = figure_1.show(PAPER_SCALE, ("corrected",), outcomes)
    assert section.tables[0].frame["S"].to_list() == ["–"] * 3


def test_a_diverged_round_has_the_worst_of_every_evaluation_from_then_on() -> None:
    """The second round of the exact arm was evaluated twice before it diverged; the third round's recording ended."""
    steps = [1_000, 2_000, 3_000, 4_000]
    rewards = {
        "ordinary": [[1.0, 2.0, 3.0, 4.0], [5.0, 5.0, 5.0, 0.5], [7.0]],
        "exact": [[6.0, 6.0, 6.0, 6.0], [8.0, 9.0], [2.0, 2.0, 2.0, 2.0]],
        "oracle": [[3.0, 3.0, 1.0, 3.0], [4.0, 4.0, 4.0, 4.0], [2.0, 2.0, 2.0, 2.0]],
    }
    lost = {("exact", 1): 2_480, ("ordinary", 2): 1_480}
    rows, rounds = [], []
    for arm, mine in rewards.items():
        for number, values in enumerate(mine):
            at = [*zip(steps, values, strict=False)]
            if (arm, number) in lost:
                at.append((lost[arm, number], 1e6))  # its last evaluation
            rows += [{"arm": arm, "round": number, "step": step, "reward": value} for step, value in at]
            rounds.append({"arm": arm, "round": number, "diverged": (arm, number) in lost or number == 2})
    outcomes = {
        "exact-anchors-corrected": Measured({"evaluations": pl.DataFrame(rows), "rounds": pl.DataFrame(rounds)}, {})
    }
    found = scored_rounds(outcomes, "corrected", 2.5)
    worst = [1.0, 2.0, 1.0, 0.5]  # of the rounds 0 and 1 that finished, or 2.5
    np.testing.assert_array_equal(found["exact"].filled[1], [8.0, 9.0, *worst[2:]])
    np.testing.assert_array_equal(found["ordinary"].filled[2], [7.0, *worst[1:]])
    np.testing.assert_array_equal(found["exact"].filled[2], [2.0, *worst[1:]])  # of which 1,000 steps were recorded
    np.testing.assert_array_equal(found["exact"].filled[0], [6.0] * 4)
    assert found["exact"].left.tolist() == [3, 2, 1, 1]
    np.testing.assert_array_equal(scored_rounds(outcomes, "corrected", 0.0)["exact"].filled[1], [8.0, 9.0, 0.0, 0.0])
