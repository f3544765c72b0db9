"""Scores and curves at equal cost, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from srgdqn.paper.equal_cost import POINTS, Round, curve_rows, rounds_of, scores_after, total_cost
from srgdqn.session.prepare import prepare
from synthetic_outcomes import WINDOW, WINDOWS, planted_run
from tiny import tiny


def made(values: list[float], queries: list[float], *, diverged: bool = False) -> Round:
    spent = np.asarray(queries, float)
    return Round(np.asarray(values, float), {"steps": spent * 10, "queries": spent, "seconds": spent / 100}, diverged)


ROUND = made([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], list(range(100, 1_001, 100)))


@pytest.mark.parametrize(
    ("spent", "score"),
    [
        (1_000.0, 9.5),  # windows that end after 900 and 1,000 queries, but not after 800
        (500.0, 5.0),
        (520.0, 5.0),
        (550.0, 5.0),
        (5_000.0, 9.5),  # more than it has: its own last fifth
        (float("nan"), 9.5),
        (130.0, 1.0),  # the fifth from 104 to 130 has no window's end: the last one before it
        (50.0, 1.0),  # not even the first is over
    ],
)
def test_the_last_fifth_of_what_may_be_spent(spent: float, score: float) -> None:
    assert scores_after([ROUND], "queries", spent, -1.0) == [score]
    assert scores_after([ROUND], "steps", 10 * spent, -1.0) == [score]


def test_a_diverged_round_scores_the_floor_at_any_cost() -> None:
    lost = made([1, 2], [100, 200], diverged=True)
    np.testing.assert_array_equal(scores_after([ROUND, lost], "queries", 100.0, -1.0), [1.0, -1.0])
    nothing = made([], [], diverged=True)
    np.testing.assert_array_equal(scores_after([nothing], "seconds", 1.0, -1.0), [-1.0])


def test_totals_are_of_rounds_that_finished() -> None:
    half, lost = made([1, 2], [100, 500]), made([1], [9_000], diverged=True)
    assert total_cost([ROUND, half, lost], "queries") == 750.0
    assert np.isnan(total_cost([lost], "queries"))


def test_curves_are_means_over_twentieths() -> None:
    first = made(list(range(40)), list(range(10, 401, 10)))
    second = made([2 * each for each in range(40)], list(range(20, 801, 20)))
    rows = curve_rows([first, second])
    assert len(rows) == POINTS
    # A point has two windows: the means of 0 and 1, and of 0 and 2; after 20 and 40 queries.
    assert (rows[0]["mean"], rows[0]["queries"], rows[0]["steps"], rows[0]["rounds"]) == (0.75, 30.0, 300.0, 2.0)
    assert (rows[-1]["mean"], rows[-1]["queries"]) == ((38.5 + 77.0) / 2, 600.0)
    assert rows[-1]["low"] == 38.5  # of two rounds, the interval reaches from one to the other
    assert rows[-1]["high"] == 77.0


def test_a_diverged_round_is_missing_from_there_on() -> None:
    rows = curve_rows([made([1.0] * 40, list(range(40))), made([3.0] * 21, list(range(21)), diverged=True)])
    assert [row["rounds"] for row in rows] == [2.0] * 10 + [1.0] * 10
    assert [row["mean"] for row in rows] == [2.0] * 10 + [1.0] * 10
    assert rows[-1]["low"] is None  # a single round has no interval


def test_few_windows_have_as_many_points() -> None:
    assert [row["mean"] for row in curve_rows([made([1, 2, 3], [1, 2, 3])])] == [1.0, 2.0, 3.0]
    assert curve_rows([made([], [], diverged=True)]) == []


def test_rounds_of_windows_and_of_episodes() -> None:
    car = rounds_of(planted_run("MountainCar", "srg-dqn", [1.0, 2.0, 3.0], earlies=[0.0] * 3, diverged={2: 4_500}), 0.5)
    assert [each.diverged for each in car] == [False, False, True]
    np.testing.assert_array_equal(car[1].values, [0.0] * 5 + [2.0] * 5)
    np.testing.assert_array_equal(car[1].spent["steps"], WINDOW * np.arange(1, WINDOWS + 1))
    np.testing.assert_array_equal(car[1].spent["queries"], 6 * car[1].spent["steps"])
    np.testing.assert_array_equal(car[1].spent["seconds"], car[1].spent["steps"] / 2)
    assert car[2].spent["steps"][-1] == 4_500
    pole = rounds_of(planted_run("CartPole", "srg-dqn", [4.0], lengths=[30.0]), 0.5)[0]
    np.testing.assert_array_equal(pole.values, 4.0)
    np.testing.assert_array_equal(pole.spent["steps"], 30 * np.arange(1, 121))
    np.testing.assert_allclose(pole.spent["queries"], 180 * np.arange(1, 121))


def test_a_real_run_spends_what_its_tables_say() -> None:
    result = prepare(tiny("srg-adam-steps", rounds=2, episodes=30)[0]).train()
    for number, each in enumerate(rounds_of(result, 0.25)):
        mine = result.episodes.filter(round=number)
        np.testing.assert_array_equal(each.values, mine["return"].to_numpy())
        steps = mine["step"].to_numpy()
        np.testing.assert_array_equal(each.spent["seconds"], steps / 4)
        assert each.spent["queries"][-1] <= result.rounds.filter(round=number)["queries"][0]
        assert (np.diff(each.spent["queries"]) >= 0).all()
