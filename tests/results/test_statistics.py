import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srgdqn.errors import InputError
from srgdqn.results.statistics import bootstrap_interval, iqm, log_sd_ratio_interval, paired_bootstrap_difference

SAMPLES = st.lists(st.integers(-1_000, 1_000).map(float), min_size=2, max_size=20)


class TestIqm:
    @given(st.lists(st.integers(-1_000, 1_000), min_size=1, max_size=40))
    def test_it_is_the_mean_of_the_middle_half(self, values: list[int]) -> None:
        cut = len(values) // 4
        middle = sorted(values)[cut : len(values) - cut]
        assert iqm(values) == pytest.approx(sum(middle) / len(middle))


class TestBootstrapInterval:
    def test_against_the_exact_bootstrap_distribution(self) -> None:
        # All 5^5 resamples of five rounds are equally likely: their quantiles are the interval without any chance.
        values = [0.0, 1.0, 2.5, 4.0, 9.0]
        means = np.sort([np.mean(resample) for resample in itertools.product(values, repeat=5)])
        told = bootstrap_interval(values, resamples=100_000, level=0.9)
        assert told.estimate == pytest.approx(3.3)
        share_below, share_above = np.mean(means < told.low), np.mean(means > told.high)
        assert share_below == pytest.approx(0.05, abs=0.01)
        assert share_above == pytest.approx(0.05, abs=0.01)

    def test_for_two_rounds_by_hand(self) -> None:
        # Means 0, 1/2 and 1 with chances 1/4, 1/2 and 1/4.
        assert bootstrap_interval([0.0, 1.0], level=0.9) == (0.5, 0.0, 1.0)
        assert bootstrap_interval([0.0, 1.0], level=0.4) == (0.5, 0.5, 0.5)

    def test_it_covers_the_truth_as_often_as_it_says(self) -> None:
        generator = np.random.default_rng(2)
        covered = 0
        for trial in range(300):
            _, low, high = bootstrap_interval(generator.normal(size=60), level=0.9, resamples=500, seed=trial)
            covered += low <= 0 <= high
        assert 0.85 <= covered / 300 <= 0.94

    @pytest.mark.parametrize("statistic", [np.mean, np.median, iqm])
    @pytest.mark.parametrize("value", [0.0, 0.1, -1e9])
    def test_constant_rounds_leave_no_doubt(self, statistic: object, value: float) -> None:
        told = bootstrap_interval([value] * 7, statistic, resamples=200)  # type: ignore[arg-type]
        assert told.low == told.high == pytest.approx(value)

    @settings(max_examples=30, deadline=None)
    @given(SAMPLES, st.floats(0.5, 0.99))
    def test_its_bounds_are_in_order_and_within_the_rounds(self, values: list[float], level: float) -> None:
        estimate, low, high = bootstrap_interval(values, level=level, resamples=200)
        assert min(values) <= low <= high <= max(values)
        narrow = bootstrap_interval(values, level=level / 2, resamples=200)
        assert low <= narrow.low <= narrow.high <= high
        assert estimate == pytest.approx(math.fsum(values) / len(values))


class TestPairedDifference:
    def test_a_shared_luck_cancels(self) -> None:
        generator = np.random.default_rng(3)
        luck = generator.normal(scale=100.0, size=50)
        gain = generator.normal(1.0, 0.5, size=50)
        told = paired_bootstrap_difference(luck + gain, luck)
        alone = bootstrap_interval(gain)
        assert told.estimate == pytest.approx(gain.mean())
        assert told.low == pytest.approx(alone.low)  # of the mean, it is the interval of the paired differences
        assert told.high == pytest.approx(alone.high)
        assert 0 < told.low < 1 < told.high

    @settings(max_examples=20, deadline=None)
    @given(st.lists(st.tuples(st.integers(-99, 99), st.integers(-99, 99)), min_size=2, max_size=15))
    def test_exchanging_the_two_turns_the_sign(self, pairs: list[tuple[int, int]]) -> None:
        a, b = (np.array(side, dtype=float) for side in zip(*pairs, strict=True))
        forth, back = paired_bootstrap_difference(a, b, resamples=100), paired_bootstrap_difference(b, a, resamples=100)
        np.testing.assert_allclose([back.estimate, back.low, back.high], [-forth.estimate, -forth.high, -forth.low])


class TestLogSdRatio:
    def test_the_estimate_is_the_log_ratio_of_sample_deviations(self) -> None:
        # Variances with n - 1: 1 and 4.
        assert log_sd_ratio_interval([1.0, 2.0, 3.0], [0.0, 2.0, 4.0]).estimate == pytest.approx(-math.log(2))

    def test_rounds_are_resampled_together(self) -> None:
        # Equal up to a little noise of their own: resampled apart, the interval would be as wide as above.
        generator = np.random.default_rng(6)
        luck = generator.normal(size=500)
        told = log_sd_ratio_interval(luck + 0.01 * generator.normal(size=500), luck, resamples=1_000)
        assert told.high - told.low < 0.01

    def test_it_covers_the_truth_about_as_often_as_it_says(self) -> None:
        generator = np.random.default_rng(7)
        covered = 0
        for trial in range(200):
            a, b = generator.normal(size=(2, 100))
            _, low, high = log_sd_ratio_interval(a, b, level=0.9, resamples=300, seed=trial)
            covered += low <= 0 <= high
        assert 0.82 <= covered / 200 <= 0.95

    def test_resamples_in_which_one_is_constant_are_infinite(self) -> None:
        # a is constant in (2/3)^3 + (1/3)^3 = 1/3 of resamples. In 1/9 so is b, and that says nothing: 1/4 of the rest
        told = log_sd_ratio_interval([5.0, 5.0, 6.0], [0.0, 1.0, 3.0], level=0.6)
        assert told.low == -math.inf
        assert math.isfinite(log_sd_ratio_interval([5.0, 5.0, 6.0], [0.0, 1.0, 3.0], level=0.4).low)
        assert log_sd_ratio_interval([0.0, 1.0, 3.0], [5.0, 5.0, 6.0], level=0.6).high == math.inf

    def test_constant_samples_tell_no_interval(self) -> None:
        moving, still = [1.0, 2.0, 4.0], [0.1, 0.1, 0.1]
        assert log_sd_ratio_interval(still, moving).estimate == -math.inf
        assert log_sd_ratio_interval(moving, still).estimate == math.inf
        assert math.isnan(log_sd_ratio_interval(still, still).estimate)
        for a, b in [(still, moving), (moving, still), (still, still)]:
            assert np.isnan(log_sd_ratio_interval(a, b)[1:]).all()


def test_a_single_round_tells_no_interval() -> None:
    np.testing.assert_equal(bootstrap_interval([4.0]), (4.0, np.nan, np.nan))
    np.testing.assert_equal(paired_bootstrap_difference([3.0], [1.0]), (2.0, np.nan, np.nan))
    assert np.isnan(log_sd_ratio_interval([1.0], [2.0])).all()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([], "values has shape (0,), but one value per round is expected"),
        ([[1.0, 2.0]], "values has shape (1, 2), but one value per round is expected"),
        (3.0, "values has shape (), but one value per round is expected"),
        ([1.0, math.nan, math.inf], "values has 2 values that are not finite, the first of round 1. Give the round"),
    ],
)
def test_what_is_no_sample_is_refused(values: object, said: str) -> None:
    with pytest.raises(InputError) as caught:
        bootstrap_interval(values)
    assert said in str(caught.value)


def test_wrong_levels_resamples_and_pairs_are_refused() -> None:
    for level in (0.0, 1.0, 95, -0.1, math.nan):
        with pytest.raises(InputError, match=r"level is .* Give 0\.95"):
            bootstrap_interval([1.0, 2.0], level=level)
    with pytest.raises(InputError, match=r"resamples is 0.* Give 10000"):
        bootstrap_interval([1.0, 2.0], resamples=0)
    with pytest.raises(
        InputError, match=r"a has 2 rounds and b has 3, but pairs need the same rounds\. Give one value"
    ):
        paired_bootstrap_difference([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(InputError, match="b has 1 values that are not finite"):
        log_sd_ratio_interval([1.0, 2.0], [1.0, math.nan])
