"""The rules, on made-up outcomes: every branch, and p-values against plain resampling."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srgdqn.paper.claims import verdicts
from srgdqn.paper.claims.verdicts import (
    LOG_MARGIN,
    REWARDS,
    Case,
    Contrast,
    Measured,
    Unit,
    Windows,
    arms_above,
    difference,
    draws,
    higher,
    holm,
    judge,
    measure,
    not_worse,
    shorter,
    steadier,
)
from srgdqn.paper.scores import Scores
from srgdqn.results.statistics import Interval

UNIT = Unit("points")
COUNT = 4_000


def finished(values: np.ndarray) -> Scores:
    return Scores(np.asarray(values, float), np.zeros(len(values), bool))


def test_every_resample_has_as_many_rounds_as_there_are_and_is_the_same_for_the_same_seed() -> None:
    first, second = (np.concatenate([weights for _, weights in draws(7, 999, 3)]) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert first.shape == (999, 7)
    np.testing.assert_array_equal(first.sum(1), 7)
    # Each count is binomial: its mean is 1 and its variance 6/7.
    assert first.mean() == 1
    assert first.var() == pytest.approx(6 / 7, rel=0.05)


@pytest.mark.parametrize("margin", [0.0, 0.3])
def test_p_values_and_intervals_are_those_of_plain_resampling(margin: float) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(0.2, 1.0, 25)
    [found] = measure([difference("", values, margin, UNIT)], seed=5, resamples=COUNT)
    plain = np.array([rng.choice(values, 25).mean() for _ in range(40_000)])
    assert found.interval.estimate == pytest.approx(values.mean(), rel=1e-12)
    assert found.interval.low == pytest.approx(np.quantile(plain, 0.025), abs=0.03)
    assert found.interval.high == pytest.approx(np.quantile(plain, 0.975), abs=0.03)
    assert found.p_holds == pytest.approx((plain <= 0).mean(), abs=0.02)
    assert found.p_fails == pytest.approx((plain >= margin).mean(), abs=0.02)


def test_p_values_are_never_0() -> None:
    [found] = measure([difference("", np.ones(5), 0.0, UNIT)], seed=0, resamples=99)
    assert found.p_holds == 1 / 100
    assert found.p_fails == 1


def test_a_resample_without_a_value_speaks_for_neither_side() -> None:
    def statistic(weights: np.ndarray) -> np.ndarray:
        return np.where(weights[:, 0] == 0, np.nan, 1.0)

    [found] = measure([Contrast("", 10, statistic, 0.5, UNIT)], seed=1, resamples=COUNT)
    without = 0.9**10
    assert found.p_holds == pytest.approx(without, abs=0.03)
    assert found.p_fails == pytest.approx(1, abs=1e-3)
    assert found.interval == Interval(1.0, 1.0, 1.0)


def test_log_ratios_of_means_and_margins_that_are_added() -> None:
    ours, theirs = finished(np.array([1.0, 2.0, 3.0])), finished(np.array([2.0, 4.0, 6.0]))
    found = measure(
        [shorter("", ours, theirs, UNIT), not_worse("", ours, theirs, 2.5, UNIT), higher("", theirs, ours, 1.0, UNIT)],
        seed=0,
        resamples=COUNT,
    )
    assert [each.interval.estimate for each in found] == pytest.approx([math.log(2), 0.5, 2.0])
    assert [each.margin for each in found] == [LOG_MARGIN, 0.0, 1.0]
    assert found[0].interval == pytest.approx((math.log(2),) * 3)  # the ratio is the same in every resample


@pytest.mark.parametrize(("ours", "theirs", "void"), [(6, 6, True), (6, 5, False), (5, 6, False), (0, 10, False)])
def test_a_contrast_of_means_is_void_if_more_than_half_of_each_arm_diverged(ours: int, theirs: int, void: bool) -> None:
    arms = [Scores(np.arange(10.0), np.arange(10) < count) for count in (ours, theirs)]
    for kind in (higher, not_worse):
        assert bool(kind("", *arms, 0.1, UNIT).void) == void
    assert bool(shorter("", *arms, UNIT).void) == void


# Steadiness


def windows(values: np.ndarray, lost: int = 0, *, learned: bool = True, cut: float = 0.0) -> Windows:
    return Windows(values, np.arange(len(values)) < lost, learned, cut)


NOISE = np.random.default_rng(8).normal(size=(100, 4))


def test_steadiness_is_the_ratio_of_mean_standard_deviations_over_the_common_rounds() -> None:
    scales = np.array([1.0, 2.0, 3.0, 4.0])
    ours, theirs = NOISE * scales, NOISE[::-1] * scales * 3
    ours[:4], theirs[:4] = 1e6, -1e6
    contrast = steadier("", windows(ours, 4), windows(theirs, 2), seed=0, resamples=COUNT)
    [found] = measure([contrast], seed=3, resamples=COUNT)
    expected = theirs[4:].std(0, ddof=1).mean() / ours[4:].std(0, ddof=1).mean()
    assert contrast.rounds == 96
    assert math.exp(found.interval.estimate) == pytest.approx(expected, rel=1e-9)
    rng = np.random.default_rng(1)
    plain = []
    for _ in range(4_000):
        picks = 4 + rng.integers(0, 96, 96)
        plain.append(np.log(theirs[picks].std(0, ddof=1).mean() / ours[picks].std(0, ddof=1).mean()))
    assert found.interval.low == pytest.approx(np.quantile(plain, 0.025), abs=0.02)
    assert found.interval.high == pytest.approx(np.quantile(plain, 0.975), abs=0.02)


@pytest.mark.parametrize(
    ("ours", "theirs", "reason"),
    [
        (windows(NOISE, learned=False), windows(NOISE), "has not learned"),
        (windows(NOISE), windows(NOISE, 11), "a tenth"),
        (windows(NOISE[:29]), windows(NOISE[:29]), "fewer than 30"),
        (windows(NOISE, cut=0.21), windows(NOISE), "a fifth"),
        (windows(NOISE), windows(np.ones((100, 4))), "no spread"),
        (windows(NOISE, 10), windows(NOISE, 10, cut=0.2), ""),
        (windows(NOISE[:30]), windows(NOISE[:30]), ""),
    ],
)
def test_steadiness_is_void_where_it_says_nothing(ours: Windows, theirs: Windows, reason: str) -> None:
    void = steadier("", ours, theirs, seed=0, resamples=COUNT).void
    assert reason in void if reason else void == ""


def test_an_arm_that_diverges_more_often_is_not_the_steadier_one() -> None:
    contrast = steadier("", windows(NOISE, 30, learned=False), windows(NOISE * 9), seed=0, resamples=COUNT)
    [found] = measure([contrast], seed=0, resamples=COUNT)
    assert not contrast.void
    assert found.p_holds == 1
    assert found.p_fails == 1 / (COUNT + 1)
    assert found.interval.estimate == 0.3
    assert found.may_fail
    # Five points are not more than five, and twelve of twenty against seven may be chance.
    assert not steadier("", windows(NOISE, 5), windows(NOISE), seed=0, resamples=COUNT).against
    few = windows(NOISE[:20], 12), Windows(NOISE[:20], np.arange(20) >= 13, learned=True)
    assert not steadier("", *few, seed=0, resamples=COUNT).against
    # Where the other one diverges more often, the usual rules hold.
    assert steadier("", windows(NOISE), windows(NOISE, 30), seed=0, resamples=COUNT).void


# Verdicts


def measured(
    low: float = 0.1, p_holds: float = 1e-5, p_fails: float = 1.0, *, part: str = "", void: str = "", **more: float
) -> Measured:
    interval = Interval(more.get("estimate", low + 0.1), low, low + 0.2)
    return Measured("", interval, p_holds, p_fails, more.get("margin", 0.05), UNIT, part, void)


GOOD, BAD, OPEN = measured(), measured(-1.0, 1.0, 1e-5), measured(-0.1, 0.3, 0.3)
VOID = measured(math.nan, 1.0, 1.0, void="all rounds diverged")


def verdict(*contrasts: Measured, **case: object) -> verdicts.Judgement:
    [judgement] = judge([Case("C", contrasts, **case)])  # type: ignore[arg-type]
    return judgement


def test_the_verdicts_in_their_order() -> None:
    assert verdict(GOOD, GOOD).verdict == "holds"
    assert verdict(GOOD, OPEN).verdict == "undecided"
    assert verdict(GOOD, BAD).verdict == "fails"
    assert verdict(GOOD, VOID).verdict == "holds"
    assert verdict(VOID, VOID).verdict == "moot"
    assert verdict().verdict == "moot"
    learned, not_learned = {"a": False, "b": True}, {"a": False, "b": False}
    assert verdict(GOOD, learned=learned).verdict == "holds"
    moot = verdict(BAD, learned=not_learned)
    assert (moot.verdict, moot.p_holds, moot.p_fails) == ("moot", 1.0, 1.0)


def test_each_part_of_a_claim_needs_a_contrast_unless_it_fails() -> None:
    reward, spread = replace(GOOD, part="reward"), replace(VOID, part="steadiness")
    parts = ("reward", "steadiness")
    found = verdict(reward, spread, parts=parts)
    assert found.verdict == "moot"
    assert "steadiness" in found.reason
    assert found.p_holds == 1
    assert verdict(replace(BAD, part="reward"), spread, parts=parts).verdict == "fails"
    assert verdict(reward, replace(GOOD, part="steadiness"), parts=parts).verdict == "holds"


def test_a_contrast_above_0_does_not_speak_against_a_claim_though_it_is_below_the_margin() -> None:
    small = measured(0.001, 1e-5, 1e-5, estimate=0.002)
    found = verdict(small)
    assert (found.verdict, found.marks) == ("holds", ("small",))
    assert verdict(measured(0.2)).marks == ()


def test_failing_is_corrected_for_the_contrasts_that_are_left() -> None:
    doubtful = measured(-0.2, 1.0, 0.009)
    assert verdict(doubtful, GOOD).verdict == "fails"
    assert verdict(doubtful, GOOD, GOOD).verdict == "undecided"
    assert verdict(doubtful, GOOD, VOID).verdict == "fails"


def test_claims_are_corrected_together_and_moot_ones_count() -> None:
    weak = measured(p_holds=0.02)
    assert verdict(weak).verdict == "holds"
    moot = Case("moot", (VOID,))
    assert judge([Case("C", (weak,)), moot])[0].verdict == "undecided"
    assert judge([Case("C", (weak,)), replace(moot, family="alone")])[0].verdict == "holds"
    first, second = judge([Case("A", (measured(p_holds=0.0125),)), Case("B", (weak,))])
    assert (first.verdict, second.verdict) == ("holds", "holds")


def test_performance_that_no_better_than_chance_is_marked() -> None:
    learned, none = {"a": True}, {"a": False}
    assert verdict(GOOD, learned=learned, beats_random=none).marks == ("below random",)
    assert verdict(BAD, learned=none, beats_random=none).marks == ("below random",)
    assert verdict(GOOD, learned=learned, beats_random=learned).marks == ()
    assert verdict(GOOD).marks == ()


def test_the_contrast_shown_first_is_the_one_that_decides() -> None:
    assert verdict(GOOD, BAD, OPEN).deciding == BAD
    assert verdict(GOOD, OPEN).deciding == OPEN
    assert verdict(GOOD, VOID).deciding == GOOD
    assert verdict(VOID).deciding is None


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(0, 0.2), min_size=1, max_size=5))
def test_holm_rejects_what_is_rejected_by_bonferroni_in_every_family_it_belongs_to(p_values: list[float]) -> None:
    indices = range(len(p_values))
    families = [f for size in range(1, len(p_values) + 1) for f in itertools.combinations(indices, size)]
    closed = [
        all(min(p_values[other] for other in family) <= 0.05 / len(family) for family in families if index in family)
        for index in indices
    ]
    assert holm(p_values, 0.05) == closed


def test_an_arm_has_learned_if_it_is_above_the_untrained_agent_beyond_doubt_among_all_arms() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(size=400)
    arms = {"better": finished(base + 0.5 + rng.normal(size=400)), "same": finished(base + rng.normal(size=400))}
    assert arms_above(arms, base, seed=0, resamples=COUNT) == {"better": True, "same": False}
    # An effect at p ≈ 0.0125 to 0.025 counts for one arm alone, and not for one of two.
    values = rng.normal(size=400)
    values = values - values.mean() + 2.1 * values.std(ddof=1) / 20
    alone, two = ({"a": finished(values)}, {"a": finished(values), "b": finished(-values)})
    assert arms_above(alone, np.zeros(400), seed=0, resamples=COUNT)["a"]
    assert not arms_above(two, np.zeros(400), seed=0, resamples=COUNT)["a"]


def test_effects_are_told_in_units() -> None:
    text = replace(GOOD, label="SRG-DQN over SVR-DQN", unit=REWARDS["MountainCar"]).text()
    assert text == "SRG-DQN over SVR-DQN: +0.2 reward per action [+0.1, +0.3]"
    assert replace(VOID, label="x").text() == "x: not compared, as all rounds diverged"
    assert "cannot be computed" in measured(math.nan).text()
