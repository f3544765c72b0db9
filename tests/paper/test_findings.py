"""What the report says first, from made-up verdicts and tables."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from srgdqn.paper.claims.cases import CLAIMS_OF_A_SET, Gathered
from srgdqn.paper.claims.paper_claims import CLAIMS, WHY_CHANGED
from srgdqn.paper.claims.verdicts import REWARDS, Judgement, Measured
from srgdqn.paper.findings import (
    SHOWN_SETS,
    answer,
    cards,
    confirmed_section,
    contrast_rows,
    first_screen,
    forest,
    interaction_rows,
    rules_text,
    small_table,
)
from srgdqn.paper.scores import Values
from srgdqn.results.statistics import Interval
from synthetic_findings import ARMS, TASKS, contrast, contrasts, evidence, judgements, scores


def test_every_verdict_has_a_claim() -> None:
    assert len(CLAIMS) == CLAIMS_OF_A_SET + 1


def test_the_first_screen_counts_verdicts_by_set() -> None:
    found = first_screen(evidence(judgements("fails", mnih_C3="moot")))
    assert found.counts["corrected"] == {"holds": 0, "fails": 18, "undecided": 0, "moot": 0}
    assert found.counts["mnih"] == {"holds": 0, "fails": 17, "undecided": 0, "moot": 1}
    assert list(found.counts) == ["corrected", "printed", "mnih"]


def test_the_answer_says_where_sets_differ_in_at_most_three_sentences() -> None:
    first, second = answer(contrasts(corrected=-2.0, printed=0.1), scores())
    expected = "less reward (corrected -2), no difference that can be told (printed +0.1), more reward (mnih +2)"
    assert first.count(expected) == second.count(expected) == 3
    below = answer(contrasts(), scores(best=0.9).filter(~pl.col("arm").is_in(["dqn-adam", "sgd-inner"])))
    assert below[2] == (
        "Nobody's mean is above the random policy's on MountainCar (corrected, printed, mnih); Pendulum (corrected, "
        "printed, mnih); CartPole (corrected, printed, mnih)."
    )


def test_the_small_table_has_the_best_control_and_who_diverged() -> None:
    frame = small_table(scores(lost=0.25), "mnih").frame
    assert frame["task"].to_list() == list(TASKS)
    row = frame.row(0, named=True)
    assert row["SRG-DQN"] == "5.000 (25 %)"
    assert row["best control"] == "2.250 (0 %) dqn-adam"
    assert row["random policy"] == "1.000"


def test_the_forest_draws_every_contrast_of_every_set() -> None:
    chart = forest(contrasts(printed=-1.0))
    assert [panel.title for panel in chart.panels] == list(TASKS)
    for panel in chart.panels:
        assert len(panel.categories) == 4
        by_set = {series.group: series for series in panel.series}
        assert set(by_set) == set(SHOWN_SETS)
        np.testing.assert_array_equal(by_set["printed"].y, [-1.0] * 4)
        np.testing.assert_array_equal(by_set["printed"].low, [-1.5] * 4)


def test_cards_tell_what_depends_on_the_period_and_what_has_changed() -> None:
    found = judgements()
    found["mnih-20"] = [Judgement("C2", "fails", ()), Judgement("C3", "holds", ())]
    before = {"corrected": {"C2": "undecided", "C3": "holds"}}
    made = {each.name: each for each in cards(evidence(found), before)}
    assert list(made) == list(CLAIMS)
    assert made["C2"].notes == (
        "With mnih it depends on the period: fails with a period of 20.",
        f"In the last release: undecided with corrected. {WHY_CHANGED['C2']}",
    )
    assert made["C3"].notes == ()
    assert made["C2"].verdicts == dict.fromkeys(SHOWN_SETS, "holds")


def test_effects_have_the_deciding_contrast_first_and_say_why_a_claim_is_moot() -> None:
    one, two = contrast("first", 0.5), contrast("second", 0.1)
    weak = Measured("weak", Interval(0.0, -1.0, 1.0), 0.5, 0.5, 0.2, REWARDS["Pendulum"])
    found = judgements()
    found["mnih"][1] = Judgement("C2", "moot", (one, two, weak), reason="none of its arms has learned")
    effects = {each.name: each for each in cards(evidence(found))}["C2"].effects["mnih"]
    assert effects[0] == "Moot: none of its arms has learned."
    assert effects[1].startswith("weak: ")
    assert len(effects) == 4


@pytest.fixture
def gathered() -> Gathered:
    rng = np.random.default_rng(0)

    def arm(centre: float, lost: int = 0) -> Values:
        made = centre + rng.standard_normal((40, 3))
        made[:lost] = np.nan
        return Values(made, np.arange(40) < lost)

    arms = {name: arm(1.0) for name in ARMS}
    arms["srg-dqn"], arms["random"] = arm(4.0, lost=10), arm(-50.0)
    return Gathered(final={"MountainCar": arms})


def test_contrasts_are_told_over_all_rounds_and_over_survivors(gathered: Gathered) -> None:
    rows = {row["against"]: row for row in contrast_rows(gathered, "mnih")}
    arms = gathered.final["MountainCar"]
    ours, theirs = (arms[name].windows.mean(1) for name in ("srg-dqn", "svr-dqn"))
    floor = arms["random"].windows.mean()
    assert rows["svr-dqn"]["estimate"] == pytest.approx(
        np.where(np.arange(40) < 10, floor, ours).mean() - theirs.mean()
    )
    assert rows["svr-dqn"]["of survivors"] == pytest.approx(ours[10:].mean() - theirs[10:].mean())
    assert (rows["svr-dqn"]["rounds"], rows["svr-dqn"]["in both"]) == (40, 30)
    assert rows["svr-dqn"]["SRG-DQN diverged"].startswith("10 of 40 [")
    assert rows["svr-dqn"]["high"] < 0 < rows["svr-dqn"]["survivors low"]


def test_the_interaction_is_a_difference_of_differences(gathered: Gathered) -> None:
    arms = dict(gathered.final["MountainCar"])
    arms["srg-dqn"] = Values(np.full((40, 3), 7.0), np.zeros(40, bool))
    [row] = interaction_rows(Gathered(final={"MountainCar": arms}), "mnih")
    means = {name: each.windows.mean() for name, each in arms.items()}
    expected = (7.0 - means["srg-dqn-no-adam"]) - (means["sgd-inner-adam"] - means["sgd-inner"])
    assert row["estimate"] == pytest.approx(expected)


def test_the_section_lists_every_contrast_without_raw_numbers() -> None:
    found = judgements()
    found["mnih"][0] = Judgement("C1", "moot", (contrast("reward", 0.5, void="an arm has not learned"),), reason="so")
    shown = confirmed_section(evidence(found))
    frame = shown.tables[0].frame
    assert frame.height == sum(len(each.contrasts) for sets in found.values() for each in sets)
    assert "an arm has not learned" in frame["with its 95 % interval"].to_list()
    assert not any(kind.is_float() for table in shown.tables for kind in table.frame.schema.values())
    assert "seed 1" in rules_text(evidence(found))
