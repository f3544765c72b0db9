"""What the report says first, from made-up verdicts and tables."""

from __future__ import annotations

import dataclasses

import numpy as np
import polars as pl
import pytest

from srgdqn.errors import InputError
from srgdqn.paper.claims.cases import CLAIMS_OF_A_SET, Gathered
from srgdqn.paper.claims.evidence import Evidence
from srgdqn.paper.claims.paper_claims import CLAIMS, ONE_PROBLEM, WHY_CHANGED
from srgdqn.paper.claims.verdicts import REWARDS, STEADY, Judgement, Measured, Unit
from srgdqn.paper.findings import (
    SHOWN_SETS,
    answer,
    best_control,
    cards,
    cards_note,
    check_whole,
    confirmed_section,
    contrast_rows,
    diverging,
    first_screen,
    forest,
    forest_table,
    interaction_rows,
    periods_note,
    queries_per_batch,
    rules_text,
    small_table,
    with_confirmation,
)
from srgdqn.paper.report.contents import Section, Table
from srgdqn.paper.scale import PAPER_SCALE
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


def test_the_answer_says_where_sets_differ_in_three_sentences() -> None:
    assert answer(contrasts(corrected=-2.0, printed=0.1), scores()) == (
        "It depends on the readings: beyond the same updates along plain gradients, variance reduction adds reward on "
        "all three tasks with mnih.",
        "It costs reward on all three tasks with corrected; it makes no clear difference on all three tasks with "
        "printed.",
        "At no more gradients per batch, some control without variance reduction scores more than SRG-DQN in none of "
        "the 9 pairs of task and set.",
    )


@pytest.mark.parametrize(
    ("signs", "first", "second"),
    [
        (dict(corrected=2.0), "Variance reduction, too: beyond", "At no more gradients per batch"),
        (dict(corrected=-2.0, printed=0.1, mnih=-2.0), "Merely the updates: beyond", "It costs reward on all three"),
        (
            dict(corrected=-2.0, printed=-2.0),
            "It depends on the readings: beyond",
            "It costs reward on all three tasks with corrected and printed.",
        ),
    ],
)
def test_sets_that_agree_are_told_together(signs: dict[str, float], first: str, second: str) -> None:
    told = answer(contrasts(**signs), scores())
    assert told[0].startswith(first)
    assert told[1].startswith(second)
    assert ("adds reward nowhere." in told[0]) == (first.startswith("Merely"))


def test_tasks_that_differ_in_the_same_way_in_all_sets_are_what_it_depends_on() -> None:
    on_pendulum = pl.col("task") == "Pendulum"
    signs = [pl.when(on_pendulum).then(-pl.col(name)).otherwise(pl.col(name)).alias(name) for name in ("low", "high")]
    first, second, _ = answer(contrasts().with_columns(signs), scores())
    assert first == (
        "It depends on the task: beyond the same updates along plain gradients, variance reduction adds reward on "
        "MountainCar and CartPole with corrected, printed and mnih."
    )
    assert second == "It costs reward on Pendulum with corrected, printed and mnih."


def test_a_target_period_that_turns_an_outcome_is_told() -> None:
    cartpole = (pl.col("task") == "CartPole") & (pl.col("readings") == "mnih-20")
    turned = contrasts().with_columns(
        pl.when(cartpole).then(-pl.col(name)).otherwise(pl.col(name)).alias(name) for name in ("low", "high")
    )
    first, second, _ = answer(turned, scores())
    assert first.startswith("It depends on the readings: ")
    assert first.endswith("on all three tasks with corrected, printed and mnih.")
    assert second == "It costs reward on CartPole with mnih at a target period of 20."
    # Evidence without the other period has nothing to tell of it.
    assert len(answer(turned.filter(pl.col("readings") != "mnih-20"), scores())) == 2


def test_controls_are_counted_by_what_they_ask_for() -> None:
    mean = pl.when((pl.col("arm") == "dqn-adam") & (pl.col("task") == "CartPole")).then(9.0).otherwise("mean")
    dear = scores().with_columns(mean.alias("mean"), pl.col("arm").replace("sgd-inner", "dqn-gd"))
    dear = dear.with_columns(
        pl.when((pl.col("arm") == "dqn-gd") & (pl.col("readings") == "mnih")).then(8.0).otherwise("mean").alias("mean")
    )
    # Three sets on CartPole at no more gradients; with mnih two more tasks at (M + 1)N against N + 2M gradients.
    assert answer(contrasts(), dear)[-1] == (
        "At no more gradients per batch, some control without variance reduction scores more than SRG-DQN in 3 of the "
        f"9 pairs of task and set; at up to {17 * 64 / (64 + 2 * 16):.0f} times as many, in 5."
    )
    low = scores(best=0.9)  # below sgd-inner everywhere, which asks for fewer
    assert answer(contrasts(), low)[-1].endswith("in all of the 9 pairs of task and set.")
    assert (queries_per_batch("Pendulum", "srg-dqn"), queries_per_batch("Pendulum", "dqn-gd-adam")) == (64, 544)


def lost_on_cartpole(arms: list[str]) -> pl.DataFrame:
    """Scores of which most rounds of some arms diverged on CartPole with the readings printed."""
    lost = (pl.col("task") == "CartPole") & (pl.col("readings") == "printed") & pl.col("arm").is_in(arms)
    return scores().with_columns(pl.when(lost).then(0.9).otherwise("share diverged").alias("share diverged"))


def test_nothing_is_said_of_arms_most_of_whose_rounds_diverged() -> None:
    both = lost_on_cartpole(["srg-dqn", "sgd-inner-adam"])
    first, second, _ = answer(contrasts(), both)
    assert second == "It cannot be judged on CartPole with printed, where most rounds of both diverge."
    assert first.endswith("on all three tasks with corrected and mnih, and on MountainCar and Pendulum with printed.")
    assert diverging(both) == "SRG-DQN's rounds diverge: none with corrected and mnih; 90 % on CartPole with printed."
    [plot] = [panel for panel in forest(contrasts(), both).panels if panel.title == "CartPole"]
    shown = {series.group: [plot.categories[int(row)] for row in series.x["against"]] for series in plot.series}
    assert "same updates, plain gradients" in shown["mnih"]
    assert shown["printed"] == ["SVR-DQN", "DQN with SGD", "SRG without Adam"]
    table = forest_table(contrasts(), both).frame
    assert table.height == 12
    row = table.row(by_predicate=(pl.col("task") == "CartPole") & pl.col("SRG-DQN minus").str.starts_with("same"))
    assert row[2:] == ("+2.00 [+1.50, +2.50]", "most rounds of both diverged", "+2.00 [+1.50, +2.50]")
    # One arm that diverges is no reason to be silent.
    assert answer(contrasts(), lost_on_cartpole(["srg-dqn"]))[0].endswith("with corrected, printed and mnih.")


def test_the_first_table_says_who_diverges() -> None:
    assert first_screen(evidence(judgements())).table.note.endswith("None of SRG-DQN's rounds diverges.")
    assert diverging(scores(lost=0.004)) == "SRG-DQN's rounds diverge: hardly any with corrected, printed and mnih."


def test_the_forest_says_where_srg_is_behind_svr_too() -> None:
    caption = forest(contrasts(corrected=-2.0, printed=0.1), scores()).caption
    assert "ahead of SVR-DQN on all three tasks with mnih, behind on all three tasks with corrected." in caption


def test_a_best_control_does_not_reduce_variance() -> None:
    high = scores().with_columns(pl.when(pl.col("arm") == "srg-dqn-no-adam").then(9.0).otherwise("mean").alias("mean"))
    assert best_control(high, "mnih", "Pendulum") == "dqn-adam"


def with_table(found: Evidence, name: str, frame: pl.DataFrame | None) -> Evidence:
    """Evidence with another table in place of one, or without it."""
    tables = [table for table in found.tables if table.name != f"confirmation-{name}"]
    more = [] if frame is None else [Table(f"confirmation-{name}", "", frame)]
    return dataclasses.replace(found, tables=[*tables, *more])


def test_evidence_that_lacks_something_is_an_error_of_the_input() -> None:
    whole = evidence(judgements())
    without_set = {each: found for each, found in judgements().items() if each != "mnih"}
    without_claim = judgements()
    del without_claim["printed"][2]
    some = scores().filter(~((pl.col("readings") == "mnih") & (pl.col("task") == "CartPole")))
    for damaged, missing in (
        (evidence(without_set), "lacks the set mnih."),
        (evidence(without_claim), "lacks C3 with printed."),
        (with_table(whole, "scores", None), "lacks the table confirmation-scores."),
        (
            with_table(whole, "contrasts", contrasts().drop("estimate")),
            "lacks the column 'estimate' of the table confirmation-contrasts.",
        ),
        (
            with_table(whole, "scores", some),
            "the row mnih, CartPole, random of the table confirmation-scores and 6 more",
        ),
    ):
        for made in (first_screen, cards):
            with pytest.raises(InputError, match="srgdqn reproduce --confirm` again, or move") as error:
                made(damaged)
            assert missing in str(error.value)
    check_whole(whole)


def test_verdicts_where_nobody_beats_the_random_policy_are_counted() -> None:
    found = judgements()
    found["mnih"][1] = dataclasses.replace(found["mnih"][1], marks=("small", "below random"))
    assert first_screen(evidence(found)).counts_note == (
        "Behind 1 (mnih) of the verdicts no algorithm compared is clearly above the random policy."
    )
    assert first_screen(evidence(judgements(mnih_C3="moot"))).counts_note.startswith("Moot: nobody has learned")
    assert first_screen(evidence(judgements())).counts_note == ""


def test_the_small_table_has_the_best_control_and_who_diverged() -> None:
    frame = small_table(scores(lost=0.25), "mnih").frame
    assert frame["task"].to_list() == list(TASKS)
    row = frame.row(0, named=True)
    assert row["SRG-DQN"] == "5.000 (25 %)"
    assert row["best control"] == "2.250 (0 %) dqn-adam (64 queries)"
    assert "SRG-DQN's gradient queries per batch: 96, 64 and 96." in small_table(scores(), "mnih").note
    assert row["random policy"] == "1.000"


def test_the_forest_draws_every_contrast_of_every_set() -> None:
    chart = forest(contrasts(printed=-1.0), scores())
    assert [panel.title for panel in chart.panels] == list(TASKS)
    for panel in chart.panels:
        assert len(panel.categories) == 4
        by_set = {series.group: series for series in panel.series}
        assert set(by_set) == set(SHOWN_SETS)
        np.testing.assert_array_equal(by_set["printed"].y, [-1.0] * 4)
        np.testing.assert_array_equal(by_set["printed"].low, [-1.5] * 4)


def test_cards_tell_what_depends_on_the_period_and_what_has_changed() -> None:
    found = judgements()
    bad = contrast("final reward over svr-dqn", -0.5, part="reward")
    worse = contrast("final reward over dqn-sgd", -0.75, part="reward")
    good = contrast("final reward over dqn-sgd", 0.25, part="reward")
    found["mnih-20"] = [
        Judgement("C2", "moot", (bad, worse), reason="none of its arms has learned"),
        Judgement("C3", "holds", (good,)),
    ]
    found["mnih"][1] = Judgement("C2", "holds", (good,))
    before = {"corrected": {"C2": "undecided", "C3": "holds"}}
    made = {each.name: each for each in cards(evidence(found), before)}
    assert list(made) == list(CLAIMS)
    assert made["C2"].notes == (
        "With mnih it depends on the period of the target network: holds (+0.25 reward per action beside DQN with SGD "
        "[+0.15, +0.35]) with 100 outer iterations, moot (none of its arms has learned; −0.75 reward per action beside "
        "DQN with SGD [−0.85, −0.65]) with 20.",
        f"In the last release: undecided with corrected. {WHY_CHANGED['C2']}",
    )
    assert made["C3"].notes == ()
    assert made["C9"].notes == (ONE_PROBLEM,)
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


def test_cards_tell_parts_unless_nobody_has_learned() -> None:
    found = judgements()
    found["mnih"][1] = Judgement("C2", "moot", (contrast("reward", 0.5),), reason="none of its arms has learned")
    found["printed"][1] = Judgement("C2", "undecided", (contrast("reward", 0.5),))
    card = {each.name: each for each in cards(evidence(found))}["C2"]
    assert set(card.parts) == {"corrected", "printed"}
    assert card.notes[0] == (
        "With printed each part by itself speaks for it, but not when corrected for the number of claims."
    )


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
    assert any("an arm has not learned" in text for text in frame["contrast, with its 95 % interval"])
    assert not any(kind.is_float() for table in shown.tables for kind in table.frame.schema.values())
    assert "seed 1" in rules_text(evidence(found))


def test_differences_of_arms_most_of_whose_rounds_diverged_are_dashes() -> None:
    both = lost_on_cartpole(["srg-dqn", "sgd-inner-adam"])
    four = lost_on_cartpole(["srg-dqn", "sgd-inner-adam", "srg-dqn-no-adam", "sgd-inner"])
    places = contrasts().filter(against="svr-dqn").select("readings", "task", "estimate", "low", "high")
    for shares, lost_of_contrasts, lost_of_interactions in ((both, 1, 0), (four, 2, 1), (scores(), 0, 0)):
        given = [
            Table("confirmation-scores", "", shares),
            Table("confirmation-contrasts", "", contrasts()),
            Table("confirmation-interaction", "", places),
        ]
        shown = confirmed_section(dataclasses.replace(evidence(judgements()), tables=given)).tables[2:]
        for table, lost in zip(shown, (lost_of_contrasts, lost_of_interactions), strict=True):
            blank = table.frame.filter(pl.col("estimate").is_null())
            assert blank.height == lost
            assert set(blank.select("readings", "task").rows()) <= {("printed", "CartPole")}
            assert blank["low"].is_null().all()
            assert ("A dash: more than half" in table.note) == (lost > 0)


def test_claims_that_the_other_target_period_turns_are_told_beside_the_counts() -> None:
    found = judgements()
    assert periods_note(evidence(found)) == ""
    bad = contrast("final reward over svr-dqn", -0.5, part="reward")
    found["mnih-20"] = [
        Judgement("C2", "fails", (bad,)),
        Judgement("C3", "holds", (bad,)),
        Judgement("C5c", "moot", (bad,)),
    ]
    assert periods_note(evidence(found)) == (
        "With a target period of 20 instead of 100, C2 and C5c of those that hold with mnih do not."
    )
    assert first_screen(evidence(found)).counts_note.endswith("with mnih do not.")


def test_greedy_columns_are_named_for_the_rounds_that_finished() -> None:
    greedy = scores().with_columns(pl.lit("34.3").alias("greedy return"))
    shown = confirmed_section(with_table(evidence(judgements()), "scores", greedy))
    [columns] = [table.frame.columns for table in shown.tables if table.name == "confirmation-scores"]
    assert "greedy return (finished rounds)" in columns
    assert "greedy return" not in columns


# Whose numbers they are


def section(name: str) -> Section:
    return Section(name, "A title", "What it says.", "What was found.")


def test_a_section_says_which_run_it_is_of_and_which_its_claims_are_judged_on() -> None:
    made = evidence(judgements("fails"))
    assert with_confirmation(section("figure-2"), made, PAPER_SCALE).found == (
        "What was found.\n\nThese numbers are of this run (seed 0). C2, C3 and C4 are judged on the confirmatory run "
        "(seed 1)."
    )
    assert with_confirmation(section("fingerprint"), made, PAPER_SCALE).found == "What was found."
    assert "the confirmatory run (seed 1)" in cards_note(made, PAPER_SCALE)
    assert "this run: seed 0," in cards_note(made, PAPER_SCALE)


def test_theorem_1_has_the_confirmatory_runs_ratios_beside_its_own() -> None:
    labels = [f"queries of SVRG beside SRG's, {each} η" for each in ("convex, theory", "network, tuned")]
    found = judgements("fails")
    (place,) = [place for place, each in enumerate(found["corrected"]) if each.name == "C9"]
    about = {"unit": Unit("times as few queries", is_log=True)}
    contrasts_of_c9 = tuple(contrast(label, np.log(4.0), **about) for label in labels)
    found["corrected"][place] = dataclasses.replace(found["corrected"][place], contrasts=contrasts_of_c9)
    told = with_confirmation(section("theorem-1"), evidence(found), PAPER_SCALE).found.split("\n\n")[1]
    assert told.startswith("These numbers are of this run (seed 0). C9 is judged on the confirmatory run (seed 1). ")
    assert "There, at the theory's η: convex problem: SVRG needs 4.00 times SRG's queries [3.62, 4.42]." in told
    assert "There, at the tuned η: small network: SVRG needs 4.00 times SRG's queries [3.62, 4.42]." in told


def test_figure_1_has_the_confirmatory_runs_standard_deviations_beside_its_own() -> None:
    made = evidence(judgements("fails"))
    assert with_confirmation(section("figure-1"), made, PAPER_SCALE).found.endswith("confirmatory run (seed 1).")
    found = judgements("fails")
    ratio = contrast("steadiness over rounds", np.log(0.5), unit=STEADY)
    found["mnih"][0] = dataclasses.replace(found["mnih"][0], contrasts=(ratio,))
    told = with_confirmation(section("figure-1"), evidence(found), PAPER_SCALE).found
    assert told.endswith(
        "Of S, its evidence has the ratio alone: after 100,000 steps exact anchors are 0.50 times as steady "
        "[0.45, 0.55] (mnih)."
    )
    rows = [
        {"readings": readings, "arm": arm, "S": spread, "finished in both": "40 of 40"}
        for readings, arm, spread in (
            ("corrected", "exact", 0.25),
            ("corrected", "ordinary", 0.125),
            ("mnih", "exact", None),
            ("mnih", "ordinary", 0.5),
        )
    ]
    table = Table("confirmation-steadiness", "", pl.DataFrame(rows))
    told = with_confirmation(
        section("figure-1"), dataclasses.replace(made, tables=[*made.tables, table]), PAPER_SCALE
    ).found
    assert told.endswith(
        "There S, after 100,000 steps, is 0.250 with exact and 0.125 with ordinary anchors (corrected)."
    )
