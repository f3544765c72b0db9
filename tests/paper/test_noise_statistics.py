"""The rules of the noise map on made-up outcomes: every branch, and what is degenerate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
import pytest

from srgdqn.paper.noise.analysis import (
    Learner,
    best_of,
    ceiling,
    contrasts,
    equivalent_batch,
    equivalent_interval,
    error_ratios,
)
from srgdqn.paper.noise.arms import RANDOM, YARDSTICK, Arm, Candidate
from srgdqn.paper.noise.rules import REGIMES
from srgdqn.paper.noise.selection import Choice, Wanted, edges, next_step, scored, trials_of
from srgdqn.paper.noise.stages import ERRORS_SCHEMA, ROUNDS_SCHEMA
from srgdqn.paper.scores import Scores

BATCHES = (8, 32, 128, 512, 2_048)
ROUNDS, RESAMPLES = 100, 2_000


def around(mean: float, seed: int, spread: float = 1.0) -> np.ndarray:
    """One value per round, with exactly this mean and spread."""
    values = np.random.default_rng(seed).normal(size=ROUNDS)
    return mean + spread * (values - values.mean()) / values.std()


def arms(means: Sequence[float], spread: float = 1.0) -> np.ndarray:
    """(rounds, batches)."""
    return np.column_stack([around(mean, seed, spread) for seed, mean in enumerate(means)])


def verdicts(values: np.ndarray, chance: np.ndarray) -> list[str]:
    return [each.verdict for each in ceiling(BATCHES, values, chance, 1, RESAMPLES)]


# Where noise limits


def test_noise_limits_where_more_than_a_twentieth_of_the_gap_is_lost() -> None:
    """Of a gap of 100: 50, 20, 2 and nothing are lost."""
    found = ceiling(BATCHES, arms([50.0, 80.0, 98.0, 100.0, 100.0]), around(0.0, 9), 1, RESAMPLES)
    assert [each.verdict for each in found] == ["limits", "limits", "does not", "", ""]
    assert found[1].loss.estimate == pytest.approx(0.2)
    assert found[1].loss.low < 0.2 < found[1].loss.high
    assert found[1].mean.estimate == pytest.approx(80.0)


def test_a_loss_around_the_margin_is_unclear() -> None:
    assert verdicts(arms([95.0, 95.0, 95.0, 100.0, 100.0], spread=5.0), around(0.0, 9))[:3] == ["unclear"] * 3


def test_the_gap_reaches_to_the_best_batch_size_whichever_it_is() -> None:
    """A loss of 4 against B = 512 is 8 % of a gap of 50, and 4 % of one of 100."""
    assert verdicts(arms([46.0, 50.0, 50.0, 50.0, 50.0], 0.1), around(0.0, 9, 0.1))[0] == "limits"
    assert verdicts(arms([46.0, 50.0, 100.0, 50.0, 50.0], 0.1), around(0.0, 9, 0.1))[0] == "does not"


def test_equal_arms_are_not_limited() -> None:
    same = np.repeat(around(100.0, 0)[:, None], len(BATCHES), axis=1)
    assert verdicts(same, around(0.0, 9)) == ["does not"] * 3 + [""] * 2


def test_a_larger_batch_that_is_worse_is_not_limited_by_noise() -> None:
    assert verdicts(arms([100.0, 200.0, 290.0, 300.0, 250.0]), around(0.0, 9)) == ["limits"] * 2 + ["does not", "", ""]


def test_where_no_arm_beats_the_random_policy_nothing_is_learned() -> None:
    same = np.repeat(around(0.0, 9)[:, None], len(BATCHES), axis=1)
    assert verdicts(same, around(0.0, 9)) == ["nothing learned"] * len(BATCHES)
    assert verdicts(np.zeros((ROUNDS, len(BATCHES))), np.zeros(ROUNDS)) == ["nothing learned"] * len(BATCHES)


def test_rounds_are_paired() -> None:
    """What all arms of a round share does not blur their difference."""
    shared = around(0.0, 7, spread=200.0)[:, None]
    values = arms([50.0, 95.0, 100.0, 100.0, 100.0], spread=0.1) + shared
    assert verdicts(values, shared[:, 0] + around(0.0, 9, 0.1))[:3] == ["limits", "unclear", "does not"]


# Equivalent batch sizes


def test_between_two_batch_sizes_it_is_interpolated_along_the_logarithm() -> None:
    curve = np.array([0.0, 10.0, 20.0, 30.0, 30.0])
    assert equivalent_batch(BATCHES, curve, 15.0) == pytest.approx(64.0)
    assert equivalent_batch(BATCHES, curve, 10.0) == pytest.approx(32.0)


def test_outside_of_the_grid() -> None:
    curve = np.array([0.0, 10.0, 20.0, 30.0, 40.0])
    assert equivalent_batch(BATCHES, curve, -1.0) == -math.inf
    assert equivalent_batch(BATCHES, curve, 41.0) == math.inf
    assert equivalent_batch(BATCHES, curve, 0.0) == 8.0
    assert equivalent_batch(BATCHES, curve, 40.0) == pytest.approx(2_048.0)


def test_where_the_curve_is_flat_the_smallest_batch_counts() -> None:
    assert equivalent_batch(BATCHES, np.array([0.0, 30.0, 30.0, 30.0, 30.0]), 30.0) == pytest.approx(32.0)
    assert equivalent_batch(BATCHES, np.full(5, 30.0), 30.0) == 8.0


def test_a_curve_that_falls_is_made_monotone() -> None:
    """10, 30, 20 becomes 10, 25, 25."""
    curve = np.array([10.0, 30.0, 20.0, 40.0, 40.0])
    assert equivalent_batch(BATCHES, curve, 25.0) == pytest.approx(32.0)
    assert equivalent_batch(BATCHES, curve, 32.5) == pytest.approx(256.0)


def test_its_interval_may_reach_beyond_the_grid() -> None:
    values = arms([0.0, 10.0, 20.0, 30.0, 40.0])
    inside = equivalent_interval(BATCHES, values, around(15.0, 9), 1, RESAMPLES)
    assert inside.estimate == pytest.approx(64.0)
    assert 50 < inside.low < 64 < inside.high < 80
    above = equivalent_interval(BATCHES, values, around(39.9, 9, 20.0), 1, RESAMPLES)
    assert (above.high, above.low > 200) == (math.inf, True)
    below = equivalent_interval(BATCHES, values, around(-90.0, 9), 1, RESAMPLES)
    assert below == (-math.inf, -math.inf, -math.inf)


# Learners against the best tuned Adam


def learner(mean: float, *, name: str = "storm", adam: float = 100.0, lost: int = 0, seed: int = 1) -> Learner:
    none = np.arange(ROUNDS) < lost
    scores, theirs = Scores(around(mean, seed), none), Scores(around(adam, 2), none)
    return Learner("CartPole", name, "area", scores, theirs, around(0.0, 3))


def judged(*learners: Learner) -> list[str]:
    return [each.verdict for each in contrasts(learners, RESAMPLES)]


def test_above_below_and_neither() -> None:
    assert judged(learner(120.0, name="a"), learner(100.0, name="b")) == ["holds", "fails"]
    # 5 below and 5 above: with this spread neither is beyond the margin of 5 nor above 0.
    wide = learner(103.0, name="c")._replace(scores=Scores(around(103.0, 4, 30.0), np.zeros(ROUNDS, bool)))
    assert judged(wide) == ["undecided"]


def test_a_gain_below_the_margin_is_small() -> None:
    for mean in (101.0, 104.9):
        [found] = contrasts([learner(mean)], RESAMPLES)
        assert (found.verdict, found.marks) == ("holds", ("small",))


def test_a_tie_is_no_gain() -> None:
    one = learner(100.0)
    assert judged(one._replace(scores=one.adam)) == ["fails"]


def test_moot_if_neither_beats_the_random_policy_or_both_mostly_diverged() -> None:
    assert judged(learner(0.0, adam=-1.0)) == ["moot"]
    assert judged(learner(120.0, lost=60)) == ["moot"]
    everything_equal = learner(0.0)._replace(
        scores=Scores(np.zeros(ROUNDS), np.zeros(ROUNDS, bool)),
        adam=Scores(np.zeros(ROUNDS), np.zeros(ROUNDS, bool)),
        chance=np.zeros(ROUNDS),
    )
    assert judged(everything_equal) == ["moot"]


def test_the_correction_is_over_all_contrasts() -> None:
    """A difference that is beyond doubt alone is not, as one of forty."""
    apart = around(0.0, 11, spread=1.0)
    weak = learner(100.0)
    weak = weak._replace(scores=Scores(weak.adam.values + apart + 2.4 / math.sqrt(ROUNDS), weak.adam.diverged))
    assert judged(weak)[0] != "undecided"
    others = []
    for number in range(40):
        wide = Scores(weak.adam.values + around(2.5, 20 + number, 100.0), weak.adam.diverged)
        others.append(weak._replace(name=f"{number}", scores=wide))
    beside = contrasts([weak._replace(name="weak"), *others], RESAMPLES)
    assert beside[0].verdict != "holds"
    assert contrasts([], RESAMPLES) == []


def test_the_best_adam_is_that_of_pilots_and_the_smallest_of_equals() -> None:
    assert best_of({8: 1.0, 32: 3.0, 128: 2.0}) == 32
    assert best_of({128: 3.0, 32: 3.0, 8: 1.0}) == 32


# Which candidates run


def grid(*steps: int) -> list[Candidate]:
    return [Candidate(0, step) for step in steps]


def by_step(scores: Mapping[int, float]) -> dict[Candidate, float]:
    return {Candidate(0, step): score for step, score in scores.items()}


def test_all_are_screened_the_best_two_are_pilots_and_these_decide() -> None:
    first = grid(-2, -1, 0, 1, 2)
    assert next_step(first, {}, {}, 2) == Wanted("screening", tuple(first))
    screening = by_step({-2: 1, -1: 2, 0: 5, 1: 4, 2: 3})
    assert next_step(first, screening, {}, 2) == Wanted("pilots", tuple(grid(0, 1)))
    assert next_step(first, screening, by_step({0: 1, 1: 2}), 2) == Choice(Candidate(0, 1), (), 0)


def test_the_grid_is_widened_twice_at_most_and_an_edge_after_that_is_told() -> None:
    first = grid(-2, -1, 0, 1, 2)
    screening = by_step({-2: 1, -1: 2, 0: 3, 1: 4, 2: 5})
    assert next_step(first, screening, {}, 2) == Wanted("screening", (Candidate(0, 3),))
    screening |= by_step({3: 6})
    assert next_step(first, screening, {}, 2) == Wanted("screening", (Candidate(0, 4),))
    screening |= by_step({4: 7})
    assert next_step(first, screening, {}, 2) == Wanted("pilots", tuple(grid(4, 3)))
    pilots = by_step({4: 2, 3: 1})
    assert next_step(first, screening, pilots, 2) == Choice(Candidate(0, 4), ("high",), 2)
    # A widening after which the best lies inside is enough.
    inside = screening | by_step({3: 9})
    assert next_step(first, inside, by_step({3: 2, 4: 1}), 2) == Choice(Candidate(0, 3), (), 2)


def test_learners_are_not_widened_and_one_alpha_has_no_edge() -> None:
    first = grid(-2, -1, 0)
    found = next_step(first, by_step({-2: 3, -1: 2, 0: 1}), by_step({-2: 1, -1: 0}), 0)
    assert found == Choice(Candidate(0, -2), ("low",), 0)
    assert edges(grid(0), Candidate(0, 0)) == ()


def test_of_equals_the_one_nearest_to_the_centre_is_best() -> None:
    first = grid(-2, -1, 0, 1, 2)
    same = dict.fromkeys(first, 1.0)
    assert next_step(first, same, same, 2) == Choice(Candidate(0, 0), (), 0)


def test_variants_are_widened_together() -> None:
    first = [Candidate(variant, step) for variant in (0, 1) for step in (0, 1)]
    found = next_step(first, {each: float(each.alpha_step) for each in first}, {}, 1)
    assert found == Wanted("screening", (Candidate(0, 2), Candidate(1, 2)))


# What rounds score


def rows(arm: str, part: str, values: Sequence[float | None], lost: Sequence[bool]) -> pl.DataFrame:
    count = len(values)
    columns = {
        "task": "CartPole",
        "part": part,
        "arm": arm,
        "batch": 8,
        "variant": 0,
        "alpha_step": 0,
        "alpha": 1e-3,
        "rows": 8,
        "queries": 8.0,
        "stage": "screening",
        "seed": 1,
        "edges": "",
    }
    frame = pl.DataFrame({"round": range(count), "area": values, "final": values, "diverged": lost})
    return frame.with_columns(pl.lit(value).alias(name) for name, value in columns.items()).select(
        pl.col(name).cast(kind) for name, kind in ROUNDS_SCHEMA.items()
    )


def test_a_round_that_diverged_scores_the_lowest_return_there_is() -> None:
    chance = rows(RANDOM, YARDSTICK, [20.0, 30.0], [False, False])
    adam = rows("adam", "updates", [100.0, 9.0, None], [False, False, True])
    found = scored(pl.concat([chance, adam]))
    assert found["final"].to_list() == found["area"].to_list() == [20.0, 30.0, 100.0, 9.0, 1.0]
    assert trials_of(found, Arm("CartPole", "updates", "adam", 8)) == {Candidate(0, 0): pytest.approx(110 / 3)}
    elsewhere = found.with_columns(pl.lit("Acrobot").alias("task"), pl.lit(True).alias("diverged"))
    assert set(scored(elsewhere)["area"]) == {-500.0}


def test_no_episode_is_worse_than_that() -> None:
    """Of an angle of π at full speed and torque, or of no step in time."""
    lowest = {task: regime.lowest for task, regime in REGIMES.items()}
    assert lowest == {
        "CartPole": 1,
        "Pendulum": pytest.approx(-3254.72, abs=0.01),
        "MountainCar": -200,
        "Acrobot": -500,
    }


# Errors of directions


def directions(arm: str, squared: Sequence[float], plain: Sequence[float], queries: float = 64.0) -> pl.DataFrame:
    columns = {"task": "CartPole", "arm": arm, "axis": "own", "variant": 0, "value": 0.5, "rows": 32, "seed": 1}
    columns |= {"queries": queries, "squared_norm": 1.0, "squared_bias": 0.0, "cosine": 0.5}
    frame = pl.DataFrame({"squared_error": squared, "plain_squared_error": plain}).with_row_index("step")
    return frame.with_columns(
        pl.lit(0).alias("round"), *(pl.lit(value).alias(name) for name, value in columns.items())
    ).select(pl.col(name).cast(kind) for name, kind in ERRORS_SCHEMA.items())


def test_errors_are_compared_at_equal_queries() -> None:
    """Half the error of the plain batch of 32, at 64 queries: as good as a plain batch of 64, and no better."""
    [row] = error_ratios(directions("storm", [1.0, 4.0], [2.0, 8.0])).to_dicts()
    assert (row["relative"], row["ratio"], row["equivalent"]) == pytest.approx((0.5, 1.0, 64.0))


def test_over_training_the_geometric_mean_counts() -> None:
    [row] = error_ratios(directions("storm", [1.0, 4.0], [4.0, 1.0])).to_dicts()
    assert row["relative"] == pytest.approx(1.0)


def test_moments_without_an_error_above_zero_are_left_out() -> None:
    [row] = error_ratios(directions("storm", [1.0, -4.0, 1.0, math.nan], [2.0, 1.0, 0.0, 1.0])).to_dicts()
    assert (row["relative"], row["moments"]) == (pytest.approx(0.5), 1)
    assert error_ratios(directions("storm", [-1.0], [1.0])).height == 0
