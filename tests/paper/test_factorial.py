"""The factorial of all readings: its design, its statistics beside plain NumPy, its section, and a tiny real run."""

import functools
import itertools
import math
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import polars as pl
import pytest

from srgdqn.config.algorithms import READINGS
from srgdqn.config.configure import configure
from srgdqn.figures.images import draw_chart
from srgdqn.kernel.support import KernelConditions, resolved
from srgdqn.paper import factorial
from srgdqn.paper.cells import Console
from srgdqn.paper.claims.evidence import Evidence, evidence_of, find_evidence, write_evidence
from srgdqn.paper.claims.verdicts import arms_above
from srgdqn.paper.experiment import RANDOM, UNTRAINED
from srgdqn.paper.factorial import arms as what_is_run
from srgdqn.paper.factorial.arms import ARMS, LEARNING, OURS, Extent, cells, configurations, rounds_table
from srgdqn.paper.factorial.design import (
    ALL_READINGS,
    FACTORS,
    Reading,
    code_of,
    on_task,
    options_of,
    reading_of,
    readings_of,
)
from srgdqn.paper.factorial.statistics import (
    above,
    best,
    effects,
    finished_means,
    intervals,
    is_void,
    scored,
    shares_best,
    weights_of,
)
from srgdqn.paper.factorial.tables import analysed
from srgdqn.paper.report.page import plot_data
from srgdqn.paper.scores import Scores
from synthetic_outcomes import planted_run

TASKS = ("MountainCar", "Pendulum", "CartPole")
POINTS = {"corrected": "00000000", "printed": "00000100", "mnih": "31000000"}


# The design


def test_the_factorial_has_512_readings_and_256_on_cartpole() -> None:
    assert [len(factor.levels) for factor in FACTORS] == [4, 2, 2, 2, 2, 2, 2, 2]
    assert {task: len(readings_of(task)) for task in TASKS} == {"MountainCar": 512, "Pendulum": 512, "CartPole": 256}
    assert len(ALL_READINGS) == len(set(ALL_READINGS)) == 512


@pytest.mark.parametrize("task", TASKS)
def test_no_two_readings_of_a_task_have_the_same_options(task: str) -> None:
    found = {repr(sorted(options_of(task, reading).items())) for reading in readings_of(task)}
    assert len(found) == len(readings_of(task))


def test_every_reading_of_cartpole_stands_for_both_time_limits() -> None:
    counts = Counter(on_task("CartPole", reading) for reading in ALL_READINGS)
    assert set(counts.values()) == {2}
    assert {options_of("CartPole", reading)["time_limit"] for reading in ALL_READINGS} == {500}
    for task in ("MountainCar", "Pendulum"):
        assert {options_of(task, reading)["time_limit"] for reading in ALL_READINGS} == {None, 200}


@pytest.mark.parametrize(("task", "name"), list(itertools.product(TASKS, READINGS)))
def test_the_named_sets_are_points_of_the_factorial(task: str, name: str) -> None:
    point = configurations(task, reading_of(POINTS[name]))
    for arm in LEARNING:
        own = configure(task, arm, readings=name, seed=42_001, rounds=50, evaluation_interval=None)
        assert point[arm].options() == own.options()
        assert point[arm].algorithm == own.algorithm


def test_the_other_levels_are_those_of_the_table_of_readings() -> None:
    last = reading_of("31111111")
    shared = {"target": "hard", "target_period": 100, "loss": "huber", "huber_delta": 1.0, "initialisation": "normal"}
    own: dict[str, dict[str, Any]] = {
        "MountainCar": {"hidden": (20, 20), "reward": "distance", "time_limit": 200, "learning_starts": 64},
        "Pendulum": {"hidden": (20, 20), "reward_scale": 0.1, "time_limit": 200, "learning_starts": 32},
        "CartPole": {"hidden": (8, 8), "reward": "upright-cosine", "time_limit": 500, "learning_starts": 64},
    }
    for task in TASKS:
        assert options_of(task, last) == {**shared, **READINGS["printed"], **own[task]}
    assert options_of("Pendulum", reading_of("20000000"))["target_period"] == 20
    assert options_of("Pendulum", reading_of("10000000"))["target"] == "outer"


def test_the_arms_share_everything_but_the_algorithm() -> None:
    arms = configurations("CartPole", reading_of("21101101"))
    assert tuple(arms) == ARMS == (*LEARNING, "random", "untrained")
    assert set(LEARNING) == {
        *("dqn-sgd", "svr-dqn", "srg-dqn-no-adam", "srg-dqn", "sgd-inner-adam", "svr-dqn-no-adam"),
    }
    may_differ = {"estimator", "adam_process", "eta", "alpha", "epsilon_start", "epsilon_end"}
    first = arms[OURS].options()
    for other in arms.values():
        assert {name for name, value in other.options().items() if value != first[name]} <= may_differ
    assert {(each.training.seed, each.training.rounds) for each in arms.values()} == {(42_001, 50)}


@pytest.mark.parametrize("task", TASKS)
def test_the_kernel_can_run_every_reading(task: str) -> None:
    """Otherwise all of it takes many times as long."""
    surroundings = KernelConditions(own_environment=False, double=False, on_cpu=True)
    for reading in readings_of(task):
        # Asked for the kernel, an obstacle in the configuration is an error.
        asked = configure(task, OURS, kernel="native", **options_of(task, reading))
        assert resolved(asked, surroundings).training.kernel == "native"


def test_readings_are_written_and_read() -> None:
    for reading in ALL_READINGS:
        assert reading_of(code_of(reading)) == reading


# Statistics beside plain NumPy


ROUNDS, RESAMPLES = 9, 400


@pytest.fixture(scope="module")
def weights() -> np.ndarray:
    return weights_of(ROUNDS, RESAMPLES, seed=5)


def picks_of(weights: np.ndarray) -> list[np.ndarray]:
    """The rounds that each resample has drawn, one by one."""
    return [np.repeat(np.arange(weights.shape[1]), row.astype(int)) for row in weights]


def test_resamples_draw_as_many_rounds_as_there_are(weights: np.ndarray) -> None:
    assert weights.shape == (RESAMPLES, ROUNDS)
    assert (weights.sum(1) == ROUNDS).all()
    np.testing.assert_allclose(weights.mean(0), 1.0, atol=0.2)


def means_of(by_arm: Mapping[str, Sequence[float] | np.ndarray]) -> np.ndarray:
    return np.array([[by_arm[arm] for arm in ARMS]], float)


NAN = math.nan


@pytest.mark.parametrize(
    ("special", "floor"),
    [
        ({"srg-dqn": [NAN, 4.0], "svr-dqn-no-adam": [-3.0, NAN]}, -3.0),
        ({"srg-dqn": [NAN, 4.0], RANDOM: [-9.0, 1.0]}, -9.0),  # a round of a yardstick may be the worst
        ({"srg-dqn": [NAN, 4.0], UNTRAINED: [0.0, -8.0]}, -8.0),
        ({arm: [NAN, NAN] for arm in LEARNING}, 0.0),  # only the yardsticks finished
    ],
)
def test_a_diverged_round_scores_the_worst(special: dict[str, list[float]], floor: float) -> None:
    usual = {arm: [2.0, 2.0] for arm in LEARNING} | {RANDOM: [1.0, 1.0], UNTRAINED: [0.0, 1.0]}
    means = means_of({**usual, **special})
    found = scored(means, ARMS)
    np.testing.assert_array_equal(found.diverged, np.isnan(means))
    np.testing.assert_array_equal(found.values, np.where(np.isnan(means), floor, means))


def test_the_floor_is_that_of_the_reading() -> None:
    one = means_of({**{arm: [1.0, 2.0] for arm in ARMS}, OURS: [NAN, 7.0]})
    found = scored(np.concatenate([one, 10 * one]), ARMS).values[:, ARMS.index(OURS)]
    np.testing.assert_array_equal(found, [[1.0, 7.0], [10.0, 70.0]])


def test_intervals_are_quantiles_of_resampled_means(weights: np.ndarray) -> None:
    values = np.random.default_rng(0).normal(size=(100, ROUNDS))
    values[3] = 2.5
    found = intervals(values, weights)
    drawn = np.array([values[:, picks].mean(1) for picks in picks_of(weights)])
    np.testing.assert_allclose(found[:, 0], values.mean(1))
    np.testing.assert_allclose(found[:, 1:], np.quantile(drawn, (0.025, 0.975), axis=0).T)
    np.testing.assert_allclose(found[3], 2.5)


def test_effects_are_differences_of_means_over_readings(weights: np.ndarray) -> None:
    rng = np.random.default_rng(1)
    levels = np.array([0, 1, 2, 3] * 3)
    values = rng.normal(size=(12, ROUNDS)) + levels[:, None]
    found = effects(values, levels, weights)
    assert list(found) == [1, 2, 3]
    for level, effect in found.items():
        drawn = [
            values[levels == level][:, picks].mean() - values[levels == 0][:, picks].mean()
            for picks in picks_of(weights)
        ]
        estimate = values[levels == level].mean() - values[levels == 0].mean()
        np.testing.assert_allclose(effect, [estimate, *np.quantile(drawn, (0.025, 0.975))])
    assert effects(values, np.zeros(12), weights) == {}


def test_planted_effects_of_a_factorial_are_recovered(weights: np.ndarray) -> None:
    """Every level has an effect of its own, and they add up, whatever the noise of rounds that all readings share."""
    planted = [{level: (place + 1) * level for level in range(4)} for place in range(len(FACTORS))]
    noise = np.random.default_rng(2).normal(size=ROUNDS)
    values = np.array([sum(planted[place][level] for place, level in enumerate(each)) for each in ALL_READINGS])
    for place in range(len(FACTORS)):
        levels = np.array([reading[place] for reading in ALL_READINGS])
        for level, effect in effects(values[:, None] + noise, levels, weights).items():
            np.testing.assert_allclose(effect, planted[place][level], atol=1e-9)


def test_contrasts_are_void_where_both_arms_mostly_diverged() -> None:
    lost = np.array([[True, True, False], [True, False, False], [True, True, True]])
    np.testing.assert_array_equal(is_void(lost, lost), [True, False, True])
    np.testing.assert_array_equal(is_void(lost, ~lost), [False, False, False])
    half = np.array([[True, False]])
    assert not is_void(half, half)[0]


def test_means_over_finished_rounds() -> None:
    values = np.array([[1.0, 2.0, 30.0], [4.0, 5.0, 6.0]])
    finished = np.array([[True, True, False], [False, False, False]])
    np.testing.assert_array_equal(finished_means(values, finished), [1.5, NAN])


def by_hand(values: np.ndarray, yardstick: np.ndarray, level: float) -> np.ndarray:
    """The normal form of the test on one set of rounds: (readings, arms)."""
    ahead = values - yardstick[:, None]
    error = ahead.std(2) / math.sqrt(values.shape[2])
    return np.asarray(ahead.mean(2) > NormalDist().inv_cdf(1 - level) * error)


def moved(drawn: Any, estimates: Any) -> np.ndarray:
    """The bounds of shares: of resamples that have the estimate as their mean, and are shares."""
    return np.quantile(np.asarray(drawn) - np.mean(drawn, axis=0) + estimates, (0.025, 0.975), axis=0).clip(0, 1)


def test_shares_above_a_yardstick(weights: np.ndarray) -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=(20, 6, ROUNDS)) + 2.0 * rng.uniform(size=(20, 6, 1))
    yardstick = rng.normal(size=(20, ROUNDS))
    level = 0.025 / 6
    found = above(values, yardstick, weights)
    drawn = [by_hand(values[..., picks], yardstick[..., picks], level) for picks in picks_of(weights)]
    by_arm = np.array([flags.mean(0) for flags in drawn])
    some = np.array([flags.any(1).mean() for flags in drawn])
    p = np.mean([(values - yardstick[:, None])[..., picks].mean(2) <= 0 for picks in picks_of(weights)], axis=0)
    flags = (p * RESAMPLES + 1) / (RESAMPLES + 1) <= level
    assert 0 < flags.mean() < 1
    np.testing.assert_array_equal(found.flags, flags)
    np.testing.assert_allclose(found.shares[:, 0], [*flags.mean(0), flags.any(1).mean()])
    np.testing.assert_allclose(found.shares[:-1, 1:], moved(by_arm, flags.mean(0)).T)
    np.testing.assert_allclose(found.shares[-1, 1:], moved(some, flags.any(1).mean()))


def test_an_arm_has_learned_where_the_rules_of_verdicts_say_so() -> None:
    rng = np.random.default_rng(4)
    rounds, resamples, seed = 50, 2_000, 8
    values = rng.normal(size=(1, 6, rounds)) + np.linspace(0.0, 1.0, 6)[:, None]
    yardstick = rng.normal(size=(1, rounds))
    scores = {str(arm): Scores(values[0, arm], np.zeros(rounds, bool)) for arm in range(6)}
    expected = arms_above(scores, yardstick[0], seed, resamples)
    found = above(values, yardstick, weights_of(rounds, resamples, seed)).flags[0]
    assert found.tolist() == list(expected.values())
    assert 0 < found.sum() < 6


def test_the_normal_form_agrees_with_p_values() -> None:
    """With 50 rounds they differ only close to the limit: in few of a thousand cases, and never far from it."""
    rng = np.random.default_rng(5)
    rounds, resamples = 50, 4_000
    values = rng.normal(size=(200, 6, rounds)) + rng.uniform(0, 0.8, size=(200, 6, 1))
    yardstick = np.zeros((200, rounds))
    exact = above(values, yardstick, weights_of(rounds, resamples, 1)).flags
    normal = by_hand(values, yardstick, 0.025 / 6)
    assert (exact != normal).mean() < 0.03
    size = values.mean(2) / values.std(2) * math.sqrt(rounds)
    assert (np.abs(size[exact != normal] - 2.64) < 0.6).all()


def test_a_constant_arm_is_above_only_if_its_constant_is(weights: np.ndarray) -> None:
    values = np.stack([np.full((1, ROUNDS), level) for level in (1.0, 0.0, -1.0)], axis=1)
    found = above(values, np.zeros((1, ROUNDS)), weights)
    assert found.flags.tolist() == [[True, False, False]]
    np.testing.assert_array_equal(found.shares, [[1, 1, 1], [0, 0, 0], [0, 0, 0], [1, 1, 1]])


def test_the_best_has_the_highest_mean_and_a_tie_is_nobodys() -> None:
    means = np.array(
        [[3.0, 1.0, 2.0], [3.0, 3.0, 2.0], [0.0, 0.0, 0.0], [-1.0, -2.0, -1.0 - 1e-15], [-1.0, -2.0, -1.1]]
    )
    expected = [[1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], [1, 0, 0]]
    np.testing.assert_array_equal(best(means), np.array(expected, bool))


def best_by_hand(values: np.ndarray) -> np.ndarray:
    flags = np.zeros(values.shape[:2], bool)
    for reading, means in enumerate(values.mean(2)):
        first, second = np.argsort(-means)[:2]
        flags[reading, first] = means[first] > means[second] + 1e-9
    return flags


def test_shares_of_the_best(weights: np.ndarray) -> None:
    rng = np.random.default_rng(6)
    values = {task: rng.normal(size=(30, 3, ROUNDS)) + np.array([0.6, 0.0, 0.0])[:, None] for task in TASKS}
    for each in values.values():
        each[0] = 1.0  # all arms alike, as where every round diverged
    found = shares_best(values, weights)
    drawn = [{task: best_by_hand(each[..., picks]) for task, each in values.items()} for picks in picks_of(weights)]
    for task, each in values.items():
        assert not best_by_hand(each)[0].any()
        np.testing.assert_allclose(found.by_task[task][:, 0], best_by_hand(each).mean(0))
        bounds = moved([flags[task].mean(0) for flags in drawn], best_by_hand(each).mean(0))
        np.testing.assert_allclose(found.by_task[task][:, 1:], bounds.T, atol=1e-12)
    everywhere = np.logical_and.reduce([best_by_hand(each) for each in values.values()])
    assert everywhere.any()
    np.testing.assert_allclose(found.everywhere[:, 0], everywhere.mean(0))
    bounds = moved([np.logical_and.reduce(list(flags.values())).mean(0) for flags in drawn], everywhere.mean(0))
    np.testing.assert_allclose(found.everywhere[:, 1:], bounds.T, atol=1e-12)


def test_where_all_rounds_diverged_nobody_has_won_learned_or_beaten_chance(weights: np.ndarray) -> None:
    """Even if the random policy is above the untrained agent, as it may be."""
    chance = np.random.default_rng(7).normal(size=ROUNDS)
    by_arm = {arm: np.full(ROUNDS, NAN) for arm in LEARNING} | {RANDOM: chance, UNTRAINED: chance - 9}
    values = scored(np.repeat(means_of(by_arm), 9, axis=0), ARMS).values
    algorithms = values[:, : len(LEARNING)]
    np.testing.assert_array_equal(algorithms, np.full_like(algorithms, chance.min() - 9))
    found = shares_best({"MountainCar": algorithms}, weights)
    np.testing.assert_array_equal(found.everywhere, np.zeros((6, 3)))
    for yardstick in (RANDOM, UNTRAINED):
        test = above(algorithms, values[:, ARMS.index(yardstick)], weights)
        assert not test.flags.any()
        np.testing.assert_array_equal(test.shares, np.zeros((7, 3)))


def test_intervals_of_shares_cover_what_other_rounds_would_give() -> None:
    """Plain percentiles cover the share of learners in none of these repetitions, and the best's in half of them."""
    rng = np.random.default_rng(10)
    readings, rounds, repetitions = 60, 50, 30
    lead = np.array([0.1, 0, 0, 0, 0, 0])[:, None]
    weights, shares = weights_of(rounds, 300, 1), []
    for _ in range(repetitions):
        values = lead + rng.normal(size=(readings, 6, rounds))
        yardstick = 0.5 * rng.normal(size=(readings, rounds))
        learned, winner = above(values, yardstick, weights).shares[-1], shares_best({"": values}, weights).everywhere[0]
        shares.append((learned, winner))
    for found in np.moveaxis(np.array(shares), 1, 0):
        expected = found[:, 0].mean()
        covered = (found[:, 1] <= expected) & (expected <= found[:, 2])
        assert covered.mean() >= 0.75


# Tables and section, from made-up rounds


def table_of(scores: Mapping[str, np.ndarray], success: float | None = 0.5) -> pl.DataFrame:
    frames = [
        pl.DataFrame(
            {
                "arm": arm,
                "round": pl.Series(range(len(values)), dtype=pl.Int32),
                "score": pl.Series(values, dtype=pl.Float64).fill_nan(None),
                "diverged": np.isnan(values),
                "greedy_return": pl.Series(np.full(len(values), -150.0)),
                "success": pl.Series([success] * len(values), dtype=pl.Float64),
            }
        )
        for arm, values in scores.items()
    ]
    return pl.concat(frames)


def made_up(lost: bool) -> dict[str, dict[Reading, pl.DataFrame]]:
    """SRG-DQN is ahead by 1 with Huber's loss and behind by 1 without; on CartPole without, it diverges with SVR-DQN.

    With `lost`, all rounds of all algorithms have diverged.
    """
    rng = np.random.default_rng(9)
    found: dict[str, dict[Reading, pl.DataFrame]] = {}
    for task in TASKS:
        found[task] = {}
        for reading in readings_of(task):
            noise = 0.1 * rng.normal(size=(len(ARMS), 6))
            scores = {arm: 5.0 + noise[place] for place, arm in enumerate(ARMS)}
            scores[OURS] = scores[OURS] + (1.0 if reading[1] else -1.0)
            scores[RANDOM], scores[UNTRAINED] = np.full(6, 5.5), np.full(6, 4.5)
            if task == "CartPole" and not reading[1]:
                scores |= {OURS: np.append(np.full(5, NAN), 4.0), "svr-dqn": np.append(np.full(5, NAN), 3.0)}
            if lost:
                scores |= {arm: np.full(6, NAN) for arm in LEARNING}
            found[task][reading] = table_of(scores, None if task == "Pendulum" else 0.5)
    return found


@functools.cache
def evidence_on(lost: bool) -> Evidence:
    """Of as many resamples as it takes for six arms to be above a yardstick beyond doubt."""
    tables = analysed(made_up(lost), resamples=300)
    return evidence_of("factorial", {}, tables, seed=1, rounds="6", seconds=60.0)


@pytest.fixture(scope="module")
def tables() -> dict[str, pl.DataFrame]:
    return {table.name.removeprefix("factorial-"): table.frame for table in evidence_on(False).tables}


def test_every_reading_has_a_row(tables: dict[str, pl.DataFrame]) -> None:
    readings = tables["readings"]
    assert readings["task"].value_counts(sort=True).rows() == [
        ("MountainCar", 512),
        ("Pendulum", 512),
        ("CartPole", 256),
    ]
    [row] = readings.filter(task="MountainCar", reading="31000000").to_dicts()
    assert (row["diverged"], row["learned"], row["beat random"], row["best"]) == (0, 6, 1, OURS)
    assert row["svr low"] <= row["svr"] <= row["svr high"]
    assert row["svr"] == pytest.approx(1.0, abs=0.3) == row["svr finished"]
    assert row["srg-dqn"] - row["svr-dqn"] == pytest.approx(row["svr"], abs=2e-3)
    [row] = readings.filter(task="CartPole", reading="00000000").to_dicts()
    # Of six rounds the one that finished has 4 and 3; what diverged has the worst finished score of all arms, 3.
    assert (row["diverged"], row["svr void"], row["sgd void"]) == (10, True, False)
    assert (row["srg-dqn"], row["svr-dqn"]) == (pytest.approx(19 / 6, rel=1e-3), 3.0)
    assert (row["svr"], row["svr finished"]) == (pytest.approx(1 / 6, rel=1e-3), 1.0)
    # SRG-DQN beats nobody's untrained self in these, and the others do.
    assert row["learned"] == 4


def test_effects_name_what_moves_a_contrast(tables: dict[str, pl.DataFrame]) -> None:
    effects_ = tables["effects"]
    huber = effects_.filter(task="Pendulum", contrast="sgd", option="loss").to_dicts()
    assert [(row["level"], row["first"]) for row in huber] == [("Huber", "squared")]
    assert huber[0]["estimate"] == pytest.approx(2.0, abs=0.05)
    others = effects_.filter(pl.col("option") != "loss", pl.col("task") != "CartPole")
    assert (others["estimate"].abs() < 0.1).all()
    # Three of the target, one of each other option; CartPole has one time limit.
    assert effects_.group_by("task", "contrast").len().sort("task", "contrast")["len"].to_list() == [
        9,
        9,
        10,
        10,
        10,
        10,
    ]


def test_shares_count_readings(tables: dict[str, pl.DataFrame]) -> None:
    shares = {(row["task"], row["what"], row["algorithm"]): row["estimate"] for row in tables["shares"].to_dicts()}
    assert shares["MountainCar", "learned", ""] == 1.0
    assert shares["MountainCar", "beats random", ""] == shares["MountainCar", "beats random", OURS] == 0.5
    assert shares["Pendulum", "best", OURS] == shares["CartPole", "best", OURS] == shares["all", "best", OURS] == 0.5
    for task in TASKS:
        assert sum(shares[task, "best", arm] for arm in LEARNING) == pytest.approx(1.0, abs=1e-3)
    for row in tables["shares"].to_dicts():
        assert 0 <= row["low"] <= row["estimate"] <= row["high"] <= 1


def test_arms_are_counted(tables: dict[str, pl.DataFrame]) -> None:
    [row] = tables["arms"].filter(task="CartPole", algorithm=OURS).to_dicts()
    assert (row["readings"], row["rounds"], row["diverged"]) == (256, 256 * 6, 128 * 5)
    assert row["estimate"] == pytest.approx(5 / 12, rel=1e-3)
    # The sixth round never diverges: a resample has it none to three times, but for one in a hundred.
    assert (row["low"], row["high"]) == (0.25, 0.5)
    assert (row["greedy return"], row["success"]) == (-150.0, 0.5)
    assert tables["arms"].filter(task="Pendulum")["success"].to_list() == [None] * len(ARMS)


@pytest.mark.parametrize("lost", [False, True])
def test_the_section_is_made_from_stored_evidence(lost: bool, tmp_path: Path) -> None:
    file = write_evidence(evidence_on(lost), tmp_path)
    assert file.stat().st_size < 1_000_000
    stored = find_evidence("factorial", tmp_path)
    assert stored is not None
    section = factorial.section(stored)
    learned, second, _ = section.found.split("\n\n")
    count = ("0 of 512", "0 of 256") if lost else ("512 of 512", "256 of 256")
    assert learned.startswith(
        f"Some algorithm has learned anything at all in {count[0]} readings of MountainCar, {count[0]} readings of "
        f"Pendulum and {count[1]} readings of CartPole"
    )
    share = "46,080 (100 %)" if lost else "1,280 (3 %)"
    assert f"Of 46,080 rounds of the six algorithms {share} diverged." in learned
    assert f"on all three tasks at once in {'0.0 %' if lost else '50.0 %'} [" in second
    assert [chart.name for chart in section.charts] == ["factorial-svr", "factorial-sgd"]
    shares, winners, against_svr, _, arms = section.tables
    assert shares.frame["MountainCar"][0].startswith("0.0 %" if lost else "100.0 %")
    assert winners.frame["algorithm"][0] == OURS
    assert against_svr.frame["option"][0] == "target: outer iteration instead of current θ"
    assert against_svr.frame.filter(pl.col("option").str.starts_with("time limit"))["CartPole"].to_list() == ["–"]
    assert arms.frame.height == 3 * len(ARMS)


def test_the_curve_is_sorted_and_has_its_options_below() -> None:
    evidence = evidence_on(False)
    chart, _ = factorial.section(evidence).charts
    curves, options = chart.panels[:3], chart.panels[3:]
    assert [panel.title for panel in curves] == list(TASKS)
    compared, void, _, zero = curves[2].series
    assert (len(compared.y), len(void.y)) == (128, 128)
    assert (np.diff(compared.y) >= 0).all()
    assert not zero.y.any()
    # Below every reading one dot for each factor, in the row of its level.
    (dots,) = options[0].series
    assert len(dots.y) == 512 * len(FACTORS)
    rows = options[0].y_categories
    readings = evidence.tables[0].frame.filter(task="MountainCar").sort("svr", "reading")["reading"].to_list()
    for place in (0, 300, 511):
        shown = {rows[int(y)] for y in dots.y[dots.x["reading"] == place]}
        levels = zip(FACTORS, reading_of(readings[place]), strict=True)
        assert shown == {f"{factor.name}: {factor.levels[level].name}" for factor, level in levels}
    assert len(rows) == 18
    assert [name for name in options[2].y_categories if name.startswith("time limit")] == ["time limit: 500"]
    # Huber's loss is what puts SRG-DQN ahead.
    huber = dots.x["reading"][dots.y == rows.index("loss: Huber")]
    assert huber.min() == 256
    figure = draw_chart(chart)
    assert [text.get_text() for text in figure.axes[3].get_yticklabels()] == list(rows)
    assert plot_data(chart)["panels"][3]["layout"]["yaxis"]["ticktext"][0] == "warm-up: N steps"


# What is run


def test_a_row_for_every_round() -> None:
    result = planted_run("MountainCar", OURS, [1.0, 2.0, 3.0], diverged={1: 4_000})
    table = rounds_table("name", result)
    assert table["arm"].to_list() == ["name"] * 3
    assert table["score"].to_list() == [1.0, None, 3.0]
    assert table["diverged"].to_list() == [False, True, False]
    assert table["greedy_return"].to_list() == [-1.5] * 3
    assert table["success"].to_list() == [1.0, 0.5, 1.0]


SHORT = {
    "MountainCar": {"steps": 1_200, "window": 100},
    "Pendulum": {"steps": 1_200, "window": 100},
    "CartPole": {"episodes": 101},
}
TINY = Extent(10_042, 4, (reading_of("31000000"), reading_of("00000111")), SHORT, resamples=50)


def test_a_tiny_run_end_to_end_is_not_computed_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[str, list[str]]] = []
    console = Console(begin=lambda title, names: begun.append((title, list(names))))
    evidence = factorial.run(tmp_path, console, TINY)
    assert begun[0] == ("all readings", [cell.name for cell in cells(TINY)])
    assert len(begun[0][1]) == 6
    assert evidence.about["seed"] == 10_042
    readings, _, shares, arms = (table.frame for table in evidence.tables)
    assert readings.height == 6
    assert set(arms["rounds"]) == {8}
    assert set(shares["estimate"]) <= {0.0, 0.5, 1.0}
    # The scores are those of an ordinary run.
    [cell] = [each for each in cells(TINY) if each.name == "Pendulum-00000111"]
    folder = tmp_path / "factorial" / "cells" / cell.name
    stored = pl.read_parquet(folder / "rounds.parquet").filter(arm="svr-dqn")
    plan = type(cell.plan)({"svr-dqn": cell.plan.arms["svr-dqn"]})
    alone = what_is_run.measure(plan, lambda share: None, threading.Event())["rounds"]
    assert stored.rows() == alone.rows()
    row = readings.filter(task="Pendulum", reading="00000111").row(0, named=True)
    if not stored["diverged"].any():
        assert row["svr-dqn"] == pytest.approx(stored["score"].mean(), rel=1e-3)

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr(what_is_run, "train_side_by_side", refuse)
    resumed = factorial.run(tmp_path, Console(), TINY)
    for one, other in zip(evidence.tables, resumed.tables, strict=True):
        assert one.frame.equals(other.frame)


def test_the_first_screen_counts_readings_for_and_against() -> None:
    stored = evidence_on(False)
    found = factorial.in_brief(stored)
    rows = next(table.frame for table in stored.tables if table.name == "factorial-readings")
    for task in TASKS:
        own = rows.filter(task=task)
        more = [row for row in own.to_dicts() if not row["sgd void"] and row["sgd low"] > 0]
        assert f"{len(more)} of {own.height} on {task}" in found.answer[0]
    learned = [int((rows.filter(task=task)["learned"] > 0).sum()) for task in TASKS]
    assert f"learned at all in {learned[0]}, {learned[1]} and {learned[2]} of them." in found.answer[0]
    assert found.section == "factorial"
