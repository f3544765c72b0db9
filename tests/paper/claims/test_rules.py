"""The rules by hand, and contrasts against plain resampling in NumPy and effects that were planted."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srgdqn.paper.claims import rules
from srgdqn.paper.claims.rules import (
    LOG_MARGIN,
    Contrast,
    Judgement,
    MeasuredContrast,
    higher,
    level_for,
    not_worse,
    positive,
    resampled,
    shorter,
    steadier,
    verdict_on,
)
from srgdqn.results.statistics import Interval

BOUNDS = st.one_of(st.floats(-5, 5), st.sampled_from([math.nan, math.inf, -math.inf, 0.0]))


@st.composite
def measured(draw: st.DrawFn) -> MeasuredContrast:
    """An interval in order, or without any bounds; its margin may be 0, as that of an inequality is."""
    low, high = draw(BOUNDS), draw(BOUNDS)
    if math.isnan(low) or math.isnan(high):
        low = high = math.nan
    low, high = min(low, high), max(low, high)
    return MeasuredContrast(
        "a contrast",
        Interval(0.0, low, high),
        draw(st.sampled_from([0.0, LOG_MARGIN, 1.0])),
        draw(st.sampled_from([0.0, LOG_MARGIN, 1.0])),
    )


def deciding(contrasts: list[MeasuredContrast]) -> MeasuredContrast:
    return Judgement("", verdict_on(contrasts), tuple(contrasts)).deciding


@given(st.lists(measured(), min_size=1, max_size=6))
def test_a_claim_holds_or_else_fails_or_else_is_undecided(contrasts: list[MeasuredContrast]) -> None:
    """The rule as the readings put it, each word by itself."""
    every_lower_bound_above_0 = not any(not c.interval.low > 0 for c in contrasts)
    some_upper_bound_below_the_margin = len([c for c in contrasts if c.interval.high < c.margin]) >= 1
    verdict = verdict_on(contrasts)
    assert (verdict == "holds") == every_lower_bound_above_0
    assert (verdict == "fails") == (some_upper_bound_below_the_margin and not every_lower_bound_above_0)
    assert verdict in ("holds", "fails", "undecided")


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.1, 9.0, "holds"),
        (0.01, 0.02, "holds"),  # small, but there beyond doubt
        (0.0, 9.0, "undecided"),
        (-0.1, 0.9, "undecided"),
        (-0.1, 1.0, "undecided"),  # δ itself would matter
        (-0.1, 0.99, "fails"),
        (-9.0, -8.0, "fails"),
        (-math.inf, math.inf, "undecided"),
    ],
)
def test_by_hand(low: float, high: float, verdict: str) -> None:
    margin = 1.0 if high != 0.9 else 0.5
    assert verdict_on([MeasuredContrast("", Interval(0.0, low, high), margin, margin)]) == verdict


@given(st.lists(measured(), min_size=1, max_size=6))
def test_the_contrast_shown_is_one_that_decided(contrasts: list[MeasuredContrast]) -> None:
    shown = deciding(contrasts)
    assert shown in contrasts
    verdict = verdict_on(contrasts)
    if verdict == "holds":
        assert shown.holds
    else:
        assert not shown.holds
        if any(other.fails and not other.holds for other in contrasts):
            assert shown.fails


def test_the_furthest_from_holding_comes_first_in_units_of_what_would_matter() -> None:
    def with_bounds(low: float, high: float, unit: float) -> MeasuredContrast:
        return MeasuredContrast(f"{high} / {unit}", Interval(0.0, low, high), unit, unit)

    near, far = with_bounds(-1.0, 0.5, 1.0), with_bounds(-0.2, 0.04, 0.1)  # half of δ, and two fifths
    assert deciding([near, far]) is far
    assert deciding([far, near]) is far
    holds, unknown = with_bounds(0.1, 0.2, 1.0), with_bounds(math.nan, math.nan, 1.0)
    assert deciding([holds, unknown]) is unknown
    assert deciding([holds, unknown, with_bounds(-1.0, 3.0, 1.0)]).interval.high == 3.0
    # A margin of 0 has a unit as well: ten of it are further away from failing than four of another.
    wide = MeasuredContrast("not worse", Interval(0.5, -0.1, 1.0), 0.0, 0.1)
    assert deciding([wide, with_bounds(-0.1, 0.2, 0.05)]).interval.high == 0.2


def test_all_intervals_together_err_in_one_case_of_twenty() -> None:
    assert level_for(1) == 0.95
    assert level_for(50) == pytest.approx(0.999)
    assert math.log(1.05) == LOG_MARGIN


# Kinds of contrast

LEVEL = 0.99


def rounds(count: int, *, shift: float = 0.0, deviation: float = 1.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Ours and theirs, with a luck in common; sample moments are those asked for."""
    rng = np.random.default_rng(seed)
    columns = rng.normal(size=(3, count))
    columns = np.linalg.qr((columns - columns.mean(1, keepdims=True)).T)[0].T * math.sqrt(count - 1)
    luck, ours, theirs = columns
    return 10 + shift + deviation * (luck + ours) / math.sqrt(2), 10 + (luck + theirs) / math.sqrt(2)


def plainly(statistic: Callable[[np.ndarray], float], count: int, level: float = LEVEL) -> tuple[float, float]:
    """Quantiles over 4,000 resamples of rounds, drawn with another generator."""
    rng = np.random.RandomState(7)
    drawn = [statistic(rng.randint(0, count, count)) for _ in range(4_000)]
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def verdict(contrast: Contrast, level: float = LEVEL) -> str:
    return verdict_on([contrast.measured(level)])


def test_each_kind_against_plain_resampling() -> None:
    ours, theirs = rounds(60, shift=0.8, deviation=0.6)
    kinds: dict[str, tuple[Contrast, Callable[[np.ndarray], float]]] = {
        "higher": (higher("", ours, theirs, 0.3), lambda i: ours[i].mean() - theirs[i].mean()),
        "not worse": (not_worse("", ours, theirs, 0.3), lambda i: ours[i].mean() - theirs[i].mean() + 0.3),
        "steadier": (steadier("", ours, theirs), lambda i: np.log(theirs[i].std(ddof=1) / ours[i].std(ddof=1))),
        "shorter": (shorter("", ours, theirs), lambda i: np.log(theirs[i].mean() / ours[i].mean())),
        "positive": (positive("", ours), lambda i: ours[i].mean()),
        "resampled": (
            resampled("", 60, lambda i: float(np.median(ours[slice(None) if i is None else i]))),
            lambda i: float(np.median(ours[i])),
        ),
    }
    for name, (contrast, statistic) in kinds.items():
        told = contrast.interval_at(LEVEL)
        low, high = plainly(statistic, 60)
        assert told.estimate == pytest.approx(statistic(np.arange(60))), name
        assert told.low == pytest.approx(low, abs=0.12 * (high - low)), name
        assert told.high == pytest.approx(high, abs=0.12 * (high - low)), name


KINDS: dict[str, Callable[[np.ndarray, np.ndarray], Contrast]] = {
    "higher": lambda ours, theirs: higher("", ours, theirs, 0.1),
    "not worse": lambda ours, theirs: not_worse("", ours, theirs, 0.1),
    "steadier": lambda ours, theirs: steadier("", ours, theirs),
    "shorter": lambda ours, theirs: shorter("", ours, theirs),
}


@pytest.mark.parametrize(
    ("kind", "advantage"),
    [
        ("higher", {"shift": 2.0}),
        ("not worse", {"shift": 2.0}),
        ("steadier", {"deviation": 0.2}),
        ("shorter", {"shift": -3.0}),
    ],
)
def test_each_points_in_our_favour(kind: str, advantage: dict[str, float]) -> None:
    ours, theirs = rounds(40, **advantage)
    assert verdict(KINDS[kind](ours, theirs)) == "holds"
    assert verdict(KINDS[kind](theirs, ours)) == "fails"


def test_what_is_not_there_does_not_hold_and_with_enough_rounds_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "RESAMPLES", 400)
    rng = np.random.default_rng(3)
    few, many = rng.normal(10.0, 1.0, size=(2, 12)), rng.normal(10.0, 1.0, size=(2, 6_000))
    many -= many.mean(1, keepdims=True) - 10
    many[1] = 10 + (many[1] - 10) * many[0].std() / many[1].std()
    for kind in ("higher", "steadier", "shorter"):
        assert verdict(KINDS[kind](*few)) != "holds"
    assert verdict(higher("", *few, 0.1)) == "undecided"
    assert verdict(steadier("", *few)) == "undecided"
    assert verdict(higher("", *many, 0.1)) == "fails"
    assert verdict(steadier("", *many)) == "fails"
    assert verdict(shorter("", *many)) == "fails"
    assert verdict(not_worse("", *many, 0.1)) == "holds"  # equal is not worse by the margin


@settings(max_examples=60, deadline=None)
@given(st.floats(-1.0, 1.0), st.floats(1e-3, 1.0), st.integers(2, 60))
def test_not_being_worse_never_holds_and_fails_at_once(ahead: float, spread: float, count: int) -> None:
    rng = np.random.default_rng(count)
    ours, theirs = ahead + spread * rng.normal(size=count), np.zeros(count)
    contrast = not_worse("", ours, theirs, 0.1)
    told = contrast.measured(LEVEL)
    assert not (told.holds and told.fails)
    if spread < 0.01 and count > 20:
        assert (told.holds, told.fails) == (ahead > -0.09, ahead < -0.11) or -0.11 <= ahead <= -0.09


def test_a_single_round_and_a_constant_one_tell_no_verdict() -> None:
    for contrast in (
        higher("", np.array([1.0]), np.array([0.0]), 0.1),
        positive("", np.array([1.0])),
        positive("", np.array([])),
        resampled("", 1, lambda picks: 1.0),
        resampled("", 0, lambda picks: 1.0),
        steadier("", np.full(8, 0.25), np.arange(8.0)),  # as where every round diverged
    ):
        told = contrast.interval_at(LEVEL)
        assert np.isnan([told.low, told.high]).all()
        assert verdict(contrast) == "undecided"


def test_resamples_of_which_nothing_can_be_told_are_left_out() -> None:
    def statistic(picks: np.ndarray | None) -> float:
        return 1.0 if picks is None or 0 in picks else math.nan

    assert resampled("", 3, statistic).interval_at(LEVEL) == (1.0, 1.0, 1.0)
    assert np.isnan(resampled("", 3, lambda picks: math.nan).interval_at(LEVEL)).all()
