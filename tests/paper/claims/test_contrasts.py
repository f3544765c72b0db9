"""Contrasts against plain resampling in NumPy, closed forms, and effects that were planted."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from srgdqn.paper.claims import contrasts
from srgdqn.paper.claims.contrasts import (
    higher,
    not_worse,
    positive,
    resampled,
    shorter,
    steadier,
)
from srgdqn.paper.claims.rules import LOG_MARGIN, Contrast, MeasuredContrast, verdict_on

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
    return verdict_on([MeasuredContrast(contrast.label, contrast.interval_at(level), contrast.margin, contrast.unit)])


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


def test_a_mean_has_the_interval_of_the_normal_law() -> None:
    ours, theirs = rounds(400, shift=0.5)
    told = higher("", ours, theirs, 0.1).interval_at(LEVEL)
    half = special.ndtri((1 + LEVEL) / 2) * (ours - theirs).std() / 20
    assert told.estimate == pytest.approx(0.5)
    assert told.low == pytest.approx(0.5 - half, abs=0.06 * half)
    assert told.high == pytest.approx(0.5 + half, abs=0.06 * half)


def test_resampling_by_positions_is_the_same_as_resampling_values() -> None:
    values = np.random.default_rng(1).gamma(2.0, size=30) - 1.5
    mine = resampled("", 30, lambda picks: float(values[slice(None) if picks is None else picks].mean()), 0.1)
    theirs = positive("", values, 0.1)
    assert mine.margin == theirs.margin == 0.1
    a, b = mine.interval_at(0.999), theirs.interval_at(0.999)
    assert a.estimate == b.estimate
    np.testing.assert_allclose(a, b, atol=0.05 * (b.high - b.low))


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
    monkeypatch.setattr(contrasts, "RESAMPLES", 400)
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


def test_intervals_cover_what_was_planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contrasts, "RESAMPLES", 400)
    rng = np.random.default_rng(4)
    covered = {"higher": 0, "steadier": 0, "resampled": 0}
    for _ in range(150):
        luck, a, b = rng.normal(size=(3, 80))
        ours, theirs = 0.5 + luck + 0.5 * a, luck + b
        found = {
            "higher": (higher("", ours, theirs, 0.1), 0.5),
            "steadier": (steadier("", ours, theirs), 0.5 * math.log(2 / 1.25)),
            "resampled": (resampled("", 80, lambda i, x=ours: float(x[slice(None) if i is None else i].mean())), 0.5),
        }
        for name, (contrast, truth) in found.items():
            interval = contrast.interval_at(0.9)
            covered[name] += interval.low <= truth <= interval.high
    assert all(0.82 <= count / 150 <= 0.97 for count in covered.values()), covered


@settings(max_examples=60, deadline=None)
@given(st.floats(-1.0, 1.0), st.floats(1e-3, 1.0), st.integers(2, 60))
def test_not_being_worse_never_holds_and_fails_at_once(ahead: float, spread: float, count: int) -> None:
    rng = np.random.default_rng(count)
    ours, theirs = ahead + spread * rng.normal(size=count), np.zeros(count)
    contrast = not_worse("", ours, theirs, 0.1)
    told = MeasuredContrast("", contrast.interval_at(LEVEL), contrast.margin, contrast.unit)
    assert not (told.holds and told.fails)
    if spread < 0.01 and count > 20:
        assert (told.holds, told.fails) == (ahead > -0.09, ahead < -0.11) or -0.11 <= ahead <= -0.09


def test_margins_of_ratios_are_five_per_cent() -> None:
    ours, theirs = rounds(10)
    assert {steadier("", ours, theirs).margin, shorter("", ours, theirs).margin, positive("", ours).margin} == {
        math.log(1.05)
    }
    assert resampled("", 3, lambda picks: 0.0).margin == LOG_MARGIN


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


def test_the_same_question_has_the_same_answer() -> None:
    ours, theirs = rounds(20)
    for kind in KINDS.values():
        assert kind(ours, theirs).interval_at(0.99) == kind(ours, theirs).interval_at(0.99)
