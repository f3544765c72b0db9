import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srgdqn.paper.claims.rules import LOG_MARGIN, MeasuredContrast, deciding, level_for, verdict_on
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


@given(st.lists(measured(), min_size=1, max_size=6))
def test_a_claim_holds_or_else_fails_or_else_is_undecided(contrasts: list[MeasuredContrast]) -> None:
    """The rule as the readings put it, each word by itself."""
    every_lower_bound_above_0 = not any(not c.interval.low > 0 for c in contrasts)
    some_upper_bound_below_the_margin = len([c for c in contrasts if c.interval.high < c.margin]) >= 1
    verdict = verdict_on(contrasts)
    assert (verdict == "holds") == every_lower_bound_above_0
    assert (verdict == "fails") == (some_upper_bound_below_the_margin and not every_lower_bound_above_0)
    assert verdict in ("holds", "fails", "undecided")


@given(st.lists(measured(), max_size=4))
def test_what_cannot_be_told_neither_holds_nor_fails(others: list[MeasuredContrast]) -> None:
    unknown = MeasuredContrast("no spread", Interval(math.inf, math.nan, math.nan), LOG_MARGIN, LOG_MARGIN)
    assert not unknown.holds
    assert not unknown.fails
    assert verdict_on([*others, unknown]) == ("fails" if any(other.fails for other in others) else "undecided")


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


@given(st.integers(1, 1_000))
def test_bonferronis_bound(count: int) -> None:
    assert count * (1 - level_for(count)) == pytest.approx(0.05)
