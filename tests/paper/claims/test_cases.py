"""Every claim on made-up outcomes: where it holds, fails, is undecided and is moot, and every number by hand."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from srgdqn.config.algorithms import PAPER
from srgdqn.paper.claims.cases import (
    CLAIMS_OF_A_SET,
    Distances,
    Doses,
    Exact,
    Gathered,
    dose_name,
    filled_up,
    judged,
    spread_at,
)
from srgdqn.paper.claims.verdicts import MARGINS, Judgement
from synthetic_cases import (
    ARMS,
    DOSES,
    OURS,
    ROUNDS,
    TASKS,
    arms,
    diverging,
    doses,
    lengths,
    opposite,
    reaching,
    spreads,
    values,
    world,
)

COUNT = 8_000


def verdicts(found: Gathered, *only: str, readings: str = "corrected") -> dict[str, Judgement]:
    return {each.name: each for each in judged(found, readings, COUNT, only or None)}


@pytest.fixture(scope="module")
def good() -> dict[str, Judgement]:
    return verdicts(world())


def test_all_claims_hold_where_everything_is_as_the_paper_says(good: Mapping[str, Judgement]) -> None:
    letters = [f"{claim}{letter}" for claim in ("C5", "C7", "C8") for letter in "abc"]
    assert set(good) == {*(f"C{number}" for number in (1, 2, 3, 4, 6, 9, 10, 11, 12)), *letters}
    assert {name: each.verdict for name, each in good.items()} == dict.fromkeys(good, "holds")
    assert all(not each.marks for each in good.values())
    assert len(good) - 1 == CLAIMS_OF_A_SET


def test_all_claims_fail_where_the_opposite_is_so() -> None:
    found = verdicts(opposite())
    assert {name: each.verdict for name, each in found.items()} == dict.fromkeys(found, "fails")


def test_claims_about_performance_are_moot_where_nobody_has_learned() -> None:
    asleep = {task: {name: values(0.0, 0.1, seed) for seed, name in enumerate(ARMS)} for task in TASKS}
    still = {name: values(800.0, 50.0, seed) for seed, name in enumerate(ARMS)}
    flat = Exact({arm: np.full((40, 20), 0.1) for arm in ("exact", "ordinary")}, np.full(40, 0.2), np.full(40, 0.1))
    rewards = Doses({dose: values(-0.05, 0.1, 400 + i) for i, dose in enumerate(DOSES)}, doses().errors)
    found = verdicts(world(final=asleep, first_half=asleep, lengths=still, exact=flat, doses=rewards))
    about_performance = {"C1", "C2", "C3", "C4", "C5a", "C5b", "C5c", "C6", "C10", "C12"}
    for name, each in found.items():
        assert (each.verdict == "moot") == (name in about_performance), name
        if name in about_performance:
            assert each.reason == "none of its arms has learned"
            assert "below random" in each.marks


def test_noise_alone_is_undecided() -> None:
    """Differences around a small effect that neither side can be told of."""
    same = arms(MARGINS["MountainCar"] * 10)
    for seed, name in enumerate(PAPER):
        same[name] = values(0.3, 0.2, 900 + seed)
    assert verdicts(world(final={**world().final, "MountainCar": same}), "C2")["C2"].verdict == "undecided"


# One claim at a time


def test_a_round_of_c1_that_diverged_scores_the_worst_there_from_then_on() -> None:
    finished = np.array([[1.0, 2.0, 3.0], [4.0, 0.5, 6.0]])
    lost = np.array([[9.0, np.nan, np.nan], [2.0, 2.0, 2.0]])
    filled = filled_up(Exact({"exact": finished, "ordinary": lost}, np.array([1.0, 3.0]), np.zeros(2)))
    np.testing.assert_array_equal(filled["exact"], finished)
    # At the second evaluation 0.5 is worst, at the third the random policy's 2.0 is no better than a finished round's.
    np.testing.assert_array_equal(filled["ordinary"], [[9.0, 0.5, 2.0], [2.0, 2.0, 2.0]])
    nobody = filled_up(
        Exact(dict.fromkeys(("exact", "ordinary"), np.full((2, 2), np.nan)), np.full(2, 0.7), np.ones(2))
    )
    np.testing.assert_array_equal(nobody["exact"], np.full((2, 2), 0.7))


def test_c1_is_not_steady_where_exact_anchors_diverge() -> None:
    found = verdicts(diverging(), "C1")["C1"]
    [steadiness] = [each for each in found.contrasts if each.part == "steadiness"]
    assert steadiness.against
    assert steadiness.interval.estimate == pytest.approx(8 / 40)
    assert found.verdict == "fails"


def test_c4_allows_a_return_that_is_less_by_a_margin() -> None:
    """C2, on the same numbers, asks for more."""
    delta = MARGINS["CartPole"]
    close = arms(delta * 10)
    for seed, name in enumerate(("svr-dqn", "dqn-sgd", "srg-dqn-no-adam")):
        close[name] = values(9 * delta * 10 + 0.5 * delta, delta, 500 + seed)
    found = verdicts(world(final={**world().final, "CartPole": close}), "C4")["C4"]
    assert found.verdict == "holds"
    reward = next(each for each in found.contrasts if each.part == "reward")
    assert 0 < reward.interval.estimate < delta


def test_steadiness_is_compared_with_svr_and_srg_without_adam_and_for_lengths_with_sgd(
    good: Mapping[str, Judgement],
) -> None:
    for claim, expected in (("C2", {"svr-dqn", "srg-dqn-no-adam"}), ("C6", {"svr-dqn", "srg-dqn-no-adam", "dqn-sgd"})):
        labels = {each.label for each in good[claim].contrasts if each.part == "steadiness"}
        assert labels == {f"steadiness beside {name}" for name in expected}


def test_c3_is_also_about_speed(good: Mapping[str, Judgement]) -> None:
    assert {each.part for each in good["C3"].contrasts} == {"reward", "speed", "steadiness"}
    slow = arms(MARGINS["Pendulum"] * 10)
    slow[OURS] = values(0.0, 0.1, 42)
    assert verdicts(world(first_half={"Pendulum": slow}), "C3")["C3"].verdict == "fails"


def test_a_part_without_contrasts_is_moot() -> None:
    """More than a fifth of SRG's episodes were cut, so that nothing can be said of steadiness."""
    found = verdicts(world(cut=dict.fromkeys(ARMS, 0.3)), "C6")["C6"]
    assert found.verdict == "moot"
    assert found.reason == "no contrast of steadiness is left: more than a fifth of an arm's episodes were cut"


def test_lengths_of_diverged_rounds_are_the_longest() -> None:
    made = lengths()
    made[OURS] = values(200.0, 3.0, 7, lost=20)
    found = verdicts(world(lengths=made), "C6")["C6"]
    longest = max(np.nanmax(made[name].windows.mean(1)) for name in (*PAPER, "sgd-inner", "sgd-inner-adam"))
    longest = max(longest, made["random"].windows.mean())
    ours = np.where(made[OURS].diverged, longest, made[OURS].windows.mean(1)).mean()
    contrast = next(each for each in found.contrasts if each.label == "shorter episodes than svr-dqn")
    assert contrast.interval.estimate == pytest.approx(np.log(made["svr-dqn"].windows.mean() / ours))


def test_c5_is_judged_task_by_task() -> None:
    """Where the same updates along plain gradients do as well, variance reduction adds nothing."""
    equal = arms(MARGINS["Pendulum"] * 10)
    equal["sgd-inner-adam"] = equal[OURS]
    found = verdicts(world(final={**world().final, "Pendulum": equal}), "C5")
    assert [found[f"C5{letter}"].verdict for letter in "abc"] == ["holds", "fails", "holds"]


def test_c7_needs_rounds_that_finished_in_both_runs() -> None:
    nothing = {name: np.zeros(0) for name in ("own", "present", "estimate")}
    found = verdicts(world(distances=Distances(nothing, {"svr-dqn": 0.2, OURS: 1.0})), "C7")
    assert found["C7a"].verdict == "moot"
    assert found["C7a"].reason.endswith("no round finished in both runs")
    most = Distances({name: np.full(5, -1.0) for name in nothing}, {"svr-dqn": 0.6, OURS: 0.7})
    assert "60% and 70% of the rounds diverged" in verdicts(world(distances=most), "C7")["C7b"].reason


@pytest.mark.parametrize("definition", ["across", "window", "frozen"])
def test_spreads_of_resampled_rounds_are_those_of_the_rounds_drawn(definition: str) -> None:
    planted, rng = spreads(0.7, rounds=9), np.random.default_rng(0)
    for _ in range(20):
        picks = rng.integers(0, 9, 9)
        weights = np.bincount(picks, minlength=9).astype(float)[None]
        for name in ("svr-dqn", OURS):
            expected = {
                "across": planted.vectors[name][picks].std(0, ddof=1).sum(-1),
                "window": planted.windows[name][picks].mean(0),
                "frozen": planted.frozen[name][:, picks].mean((0, 1)),
            }[definition]
            np.testing.assert_allclose(spread_at(planted, definition, name, weights)[0], expected, rtol=1e-12)


def test_c8_leaves_out_steps_without_a_window() -> None:
    planted = spreads(0.5)
    planted.vectors["srg-dqn"][:, 0] *= 1e9  # at the first step, which has no window
    planted.frozen["srg-dqn"][:, :, 0] *= 1e9
    found = verdicts(world(spreads=planted), "C8")
    assert [found[f"C8{letter}"].verdict for letter in "abc"] == ["holds"] * 3
    windows = {name: each[:, 1:].mean(0) for name, each in planted.windows.items()}
    expected = -np.log(windows[OURS] / windows["svr-dqn"]).mean()
    assert found["C8b"].contrasts[0].interval.estimate == pytest.approx(expected)


def test_c8_is_moot_beyond_a_tenth_diverged() -> None:
    for share, verdict in ((0.1, "holds"), (0.11, "moot")):
        found = verdicts(world(spreads=spreads(0.5)._replace(diverged={"svr-dqn": share, OURS: 0.0})), "C8")
        assert found["C8a"].verdict == verdict


def test_c9_fails_if_the_inequality_is_violated_and_is_the_same_in_all_sets() -> None:
    good = world().theorem
    assert good is not None
    found = verdicts(world(theorem=good._replace(violated=2)), "C9")["C9"]
    assert found.verdict == "fails"
    assert found.deciding is not None
    assert found.deciding.label == "the inequality is violated in 2 of 12 settings"
    assert verdicts(world(), "C9", readings="mnih") == verdicts(world(), "C9", readings="printed")
    neither = verdicts(world(theorem=good._replace(ratios={("convex", "theory"): np.zeros(0)})), "C9")["C9"]
    assert (neither.verdict, neither.reason.partition(": ")[2]) == (
        "moot",
        "neither reaches the precision in any replication",
    )


def test_a_task_counts_for_c10_if_somebody_learned_and_gets_there() -> None:
    one = reaching()
    for arm in one["Pendulum"]:
        one["Pendulum"][arm] = one["Pendulum"][arm]._replace(reached=np.arange(ROUNDS) < ROUNDS // 5 - 1)
    found = verdicts(world(reaching=one), "C10")["C10"]
    assert found.verdict == "holds"
    reasons = {each.label.rpartition(", ")[2]: each.void for each in found.contrasts}
    assert reasons == {
        "MountainCar": "",
        "Pendulum": "fewer than a fifth of any arm's rounds reach the threshold",
        "CartPole": "",
    }
    for task in TASKS:
        for arm in one[task]:
            one[task][arm] = one[task][arm]._replace(reached=np.zeros(ROUNDS, bool))
    assert verdicts(world(reaching=one), "C10")["C10"].verdict == "moot"


def test_c10_needs_every_task_that_counts() -> None:
    mixed = {**reaching(), "CartPole": reaching("dqn-sgd")["CartPole"]}
    assert verdicts(world(reaching=mixed), "C10")["C10"].verdict == "fails"


def test_c11_asks_for_a_twentieth_of_each_reason() -> None:
    for share, verdict in ((0.02, "fails"), (0.08, "holds")):
        drift = np.random.default_rng(1).normal(share, 0.005, 40)
        assert verdicts(world(shares={"unseen": np.full(40, 0.5), "drift": drift}), "C11")["C11"].verdict == verdict


def test_the_slope_of_c12_is_that_of_a_straight_line_through_the_doses() -> None:
    planted = doses()
    found = verdicts(world(doses=planted), "C12")["C12"].contrasts[0]
    x = np.log([planted.errors[dose] for dose in planted.rewards])
    y = [each.windows.mean() for each in planted.rewards.values()]
    assert found.interval.estimate == pytest.approx(-np.polyfit(x, y, 1)[0] * np.ptp(x))


def test_doses_that_mostly_diverged_are_left_out_of_the_slope() -> None:
    planted = doses()
    lost = dict(planted.rewards)
    for dose in DOSES[:4]:
        lost[dose] = values(-100.0, 1.0, 3, lost=ROUNDS // 2 + 1)
    found = verdicts(world(doses=planted._replace(rewards=lost)), "C12")["C12"]
    used = DOSES[4:]
    x = np.log([planted.errors[dose] for dose in used])
    y = [planted.rewards[dose].windows.mean() for dose in used]
    assert found.contrasts[0].interval.estimate == pytest.approx(-np.polyfit(x, y, 1)[0] * np.ptp(x))
    lost[DOSES[4]] = values(-100.0, 1.0, 3, lost=ROUNDS // 2 + 1)
    found = verdicts(world(doses=planted._replace(rewards=lost)), "C12")["C12"]
    assert found.contrasts[0].void == "more than half of the rounds diverged in all but 4 doses"


def test_diverged_rounds_of_a_dose_score_as_on_mountain_car() -> None:
    planted, final = doses(), world().final["MountainCar"]
    lost = {**planted.rewards, (1.0, 1): values(2.0, 0.0, 3, lost=30)}
    found = verdicts(world(doses=planted._replace(rewards=lost)), "C12")["C12"].contrasts[1]
    reference = (*PAPER, "sgd-inner", "sgd-inner-adam")
    floor = min(final["random"].windows.mean(), *(final[name].windows.mean(1).min() for name in reference))
    expected = (2.0 + floor) / 2 - planted.rewards[0.0, 1].windows.mean()
    assert found.interval.estimate == pytest.approx(expected)


def test_claims_of_which_nothing_was_measured_are_not_judged_but_count() -> None:
    """With the period of 20 only C2 to C6 are; the correction is that of all seventeen."""
    some = Gathered(final=world().final, first_half=world().first_half, lengths=lengths())
    assert set(verdicts(some)) == {"C2", "C3", "C4", "C5a", "C5b", "C5c", "C6"}


def test_doses_have_names() -> None:
    assert dose_name((1.0, 16)) == "c = 1, b = 16"
