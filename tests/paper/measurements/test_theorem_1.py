"""Theorem 1's measurement against a plain NumPy loop, counts made by hand, and step sizes that violate the theorem."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import threading
from typing import Any

import hypothesis.strategies as st
import jax
import numpy as np
import polars as pl
import pytest
from hypothesis import given

import reference
from srgdqn.errors import InputError
from srgdqn.paper.measurements.smoothness import theory_step_size
from srgdqn.paper.measurements.theorem_1 import (
    ESTIMATORS,
    Setting,
    TheoremPlan,
    best_step_size,
    first_below,
    inequality_rows,
    loop_length_needed,
    make_descent,
    make_loop,
    mean_interval,
    measure,
    query_rows,
    start_of,
    step_size_grid,
    theory_step_sizes,
    with_verdicts,
)
from srgdqn.paper.measurements.theorem_problems import PROBLEMS, Problem, at, first_terms, make_problem, term_losses
from translation import flat, from_transitions

N, M, LANES = 5, 3, 2


@functools.cache
def problem(name: str) -> Problem:
    with jax.enable_x64(True):
        return first_terms(make_problem(name, 16, 3), N)


# The same in plain NumPy


def options(p: Problem, eta: float, loop_length: int, sizes: tuple[int, ...]) -> reference.Options:
    activation = p.configuration.network.activation
    return reference.Options(sizes, activation=activation, gamma=0.0, eta=eta, inner_iterations=loop_length)


def sizes_of(p: Problem) -> tuple[int, ...]:
    return (p.start.layers[0].weight.shape[0], *(layer.bias.shape[0] for layer in p.start.layers))


def full_gradient(o: reference.Options, theta: np.ndarray, data: list[reference.Transition]) -> np.ndarray:
    return sum(reference.gradient(o, theta, x, x.r) for x in data) / len(data)


def mean_loss(o: reference.Options, theta: np.ndarray, data: list[reference.Transition]) -> float:
    return sum(reference.loss(o, theta, x, x.r) for x in data) / len(data)


@pytest.mark.parametrize("name", PROBLEMS)
def test_both_sides_are_those_of_a_numpy_loop(name: str) -> None:
    """Two outer loops, the second from where the first arrived, on the picks that the measurement drew."""
    p = problem(name)
    eta = 3 * theory_step_size(p.constants, M)
    with jax.enable_x64(True):
        rows = inequality_rows(p, make_loop(p, M), Setting(N, M, 2), 3.0, LANES, np.random.default_rng(8))
    table = with_verdicts([{**row, "varied": ""} for row in rows])

    o, data, rng = options(p, eta, M, sizes_of(p)), from_transitions(p.transitions), np.random.default_rng(8)
    states = [reference.init(o, flat(p.start))] * LANES
    for row in table.iter_rows(named=True):
        picks = rng.integers(N, size=(LANES, M, 1), dtype=np.int32)
        left, right, largest = [], [], 0.0
        for lane in range(LANES):
            states[lane], record = reference.outer_iteration(
                "srg-dqn-no-adam", o, states[lane], data, picks[lane].tolist()
            )
            squares = [np.sum(full_gradient(o, theta, data) ** 2) for theta in record.theta[: M + 1]]
            left.append(sum(squares) / (M + 1))
            fall = mean_loss(o, record.theta[0], data) - mean_loss(o, record.theta[M + 1], data)
            right.append(2 / (eta * (M + 1)) * fall)
            largest = max(largest, *(reference.loss(o, theta, x, x.r) for theta in record.theta for x in data))
        assert row["left"] == pytest.approx(np.mean(left), rel=1e-9)
        assert row["right"] == pytest.approx(np.mean(right), rel=1e-8)
        assert row["difference"] == pytest.approx(np.mean(left) - np.mean(right), rel=1e-8)
        assert row["paper_right"] == pytest.approx(4 * largest / (eta * (M + 1)), rel=1e-9)
        assert row["above"] == np.mean(np.array(left) > np.array(right))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_descents_are_those_of_a_numpy_loop(estimator: str) -> None:
    """What each does between two looks, and what is looked at."""
    p = problem("network")
    steps = N + 2 * M if estimator == "sgd" else M
    picks = np.random.default_rng(4).integers(N, size=(LANES, 3, steps, 1), dtype=np.int32)
    etas = np.array([0.02, 0.05])
    with jax.enable_x64(True):
        start = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (LANES, *leaf.shape)), p.start)
        theta, squares = make_descent(p, estimator, M)(start, etas, np.array([1, 0], np.int32), picks)
    data = from_transitions(p.transitions)
    names = {"sgd": "sgd-inner", "svrg": "svr-dqn-no-adam", "srg": "srg-dqn-no-adam"}
    for lane, row in enumerate((1, 0)):
        o = dataclasses.replace(options(p, etas[lane], steps, sizes_of(p)), anchor_step=estimator != "sgd")
        state = reference.init(o, flat(p.start))
        for look in range(3):
            assert squares[lane, look] == pytest.approx(np.sum(full_gradient(o, state.theta, data) ** 2), rel=1e-9)
            state, _ = reference.outer_iteration(names[estimator], o, state, data, picks[row, look].tolist())
        arrived = flat([leaf[lane] for leaf in jax.tree.leaves(theta)])
        np.testing.assert_allclose(arrived, state.theta, rtol=1e-9)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_is_what_it_says(name: str) -> None:
    p = problem(name)
    o, data, theta = options(p, 0.0, M, sizes_of(p)), from_transitions(p.transitions), flat(p.start)
    with jax.enable_x64(True):
        here, losses = jax.tree.map(np.asarray, jax.jit(lambda: (at(p, p.start), term_losses(p, p.start)))())
        assert bool(p.inside(p.start))
    gradients = np.stack([reference.gradient(o, theta, x, x.r) for x in data])
    np.testing.assert_allclose(losses, [reference.loss(o, theta, x, x.r) for x in data])
    np.testing.assert_allclose(losses, p.errors**2)
    np.testing.assert_allclose(2 * p.errors[:, None] * p.slopes, gradients, atol=1e-12)
    assert float(here.loss) == pytest.approx(mean_loss(o, theta, data))
    assert float(here.largest) == pytest.approx(float(np.max(losses)))
    assert float(here.square) == pytest.approx(np.sum(gradients.mean(0) ** 2))
    start = start_of(p)
    assert start.square == pytest.approx(np.sum(gradients.mean(0) ** 2))
    assert start.variance == pytest.approx(np.mean(np.sum((gradients - gradients.mean(0)) ** 2, axis=1)))
    assert p.terms == len(p.constants) == p.configuration.replay.batch_size == N


# Where the inequality holds, and where it does not


def test_a_step_size_that_is_too_large_violates_the_inequality() -> None:
    p = problem("convex")
    with jax.enable_x64(True):
        run = make_loop(p, 8)
        rows = [
            {**row, "varied": ""}
            for multiple in (1.0, 10.0, 1e60)
            for row in inequality_rows(p, run, Setting(N, 8, 1), multiple, 200, np.random.default_rng(1))
        ]
    table = with_verdicts(rows)
    assert table["violated"].to_list() == [False, True, True]
    assert table["paper_violated"].to_list()[0] is False
    assert table["diverged"].to_list() == [0, 0, 200]
    assert table["left"].to_list()[2] == math.inf


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=20), st.floats(0.5, 0.999))
def test_interval_is_that_of_a_t_test(values: list[float], level: float) -> None:
    from scipy import stats

    interval = mean_interval(np.array(values), level)
    assert interval.estimate == pytest.approx(np.mean(values), abs=1e-9)
    if np.ptp(values) > 1e-3:
        expected = stats.ttest_1samp(values, 0.0).confidence_interval(level)
        assert (interval.low, interval.high) == pytest.approx(tuple(expected), rel=1e-6, abs=1e-9)
    assert interval.low <= interval.estimate + 1e-9
    assert mean_interval(np.array([*values, np.inf]), level).low == np.inf
    assert np.isfinite(mean_interval(1e300 * np.array(values) / 100, level).estimate)


def test_the_level_is_shared_among_the_rows_at_the_theorys_step_size() -> None:
    differences = np.array([0.0, 1.0, 2.0, 3.0])
    others = ("n", "M", "S", "eta", "outer_loop", "right", "largest_loss", "in_region", "replications")
    row = {"problem": "", "varied": "", "left": 1.0, "paper_right": 2.0, "differences": differences}
    row |= dict.fromkeys(others, 1)
    three = with_verdicts([{**row, "multiple": 1.0}] * 2 + [{**row, "multiple": 10.0}], level=0.9)
    expected = mean_interval(differences, 0.95)
    assert three["low"].to_list() == [expected.low] * 3
    assert three["high"].to_list() == [expected.high] * 3


# Queries


def test_first_passages_by_hand() -> None:
    squares = np.array([[9, 4, 1, 2], [9, 9, 9, 1.5], [9, 8, 7, 6], [9, np.nan, np.inf, np.nan], [9, 1, 9, 9]])
    queries, reached = first_below(squares, 1.5, 10, budget=100)
    assert queries.tolist() == [20, 30, 100, 100, 10]
    assert reached.tolist() == [True, True, False, False, True]


def test_the_best_step_size_by_hand() -> None:
    grid = np.array([0.1, 0.2, 0.3, 0.4])
    queries = np.array([[10, 20, 90], [20, 20, 20], [20, 20, 20], [20, 20, 80]])  # all of the same median
    assert best_step_size(grid, queries) == 0.2
    assert best_step_size(grid, np.array([[9, 9, 99], [8, 10, 10], [10, 10, 10], [10, 10, 10]])) == 0.1


def test_query_rows_of_a_tiny_race() -> None:
    """Counts are whole numbers of the 16 looks, with n + 2M = 9 queries each; what is not reached within the budget is
    the budget and marked.
    """
    p = problem("convex")
    plan = TheoremPlan(precisions=(0.5, 1e-12), query_budget=16 * 9 + 5, query_replications=4, step_sizes=4)
    with jax.enable_x64(True):
        rows = query_rows(plan, p, 2, np.random.default_rng(2))
    table = pl.DataFrame(rows)
    assert table.height == 2 * 2 * len(ESTIMATORS) * 4
    assert table["queries"].is_between(9, 16 * 9).all()
    assert (table["queries"] % 9 == 0).all()
    hopeless = table.filter(relative=1e-12)
    assert not hopeless["reached"].any()
    assert (hopeless["queries"] == 16 * 9).all()
    assert table.filter(relative=0.5, step="tuned")["reached"].all()

    # A full gradient step of SRG at a known η reaches ε when a plain loop says so.
    easy = table.filter(relative=0.5, step="theory", estimator="srg")
    o, data = options(p, easy["eta"][0], 2, sizes_of(p)), from_transitions(p.transitions)
    rng = np.random.default_rng(2)
    rng.integers(N, size=(4, 16, 9, 1), dtype=np.int32)  # the pilots' picks
    picks = rng.integers(N, size=(4, 16, 9, 1), dtype=np.int32)
    for replication, queries in enumerate(easy["queries"]):
        state = reference.init(o, flat(p.start))
        looks = 0
        while np.sum(full_gradient(o, state.theta, data) ** 2) > easy["epsilon"][0]:
            chosen = picks[replication, looks, :2].tolist()
            state, record = reference.outer_iteration("srg-dqn-no-adam", o, state, data, chosen)
            assert record.queries == 9
            looks += 1
        assert queries == 9 * looks


@pytest.mark.parametrize(("terms", "loop_length"), [(16, 16), (64, 4), (64, 64), (256, 16)])
def test_reddis_recursion_allows_svrgs_step_size_at_our_loop_lengths(terms: int, loop_length: int) -> None:
    """Γ_t > 0 for every t of a loop (Reddi et al. 2016, Theorem 2), with L = 1 and their β = n^(-1/3)."""
    eta, beta, c = 1 / (4 * terms ** (2 / 3)), terms ** (-1 / 3), 0.0
    for _ in range(loop_length + 1):
        assert eta - c * eta / beta - eta**2 - 2 * c * eta**2 > 0
        c = c * (1 + eta * beta + 2 * eta**2) + eta**2


def test_theory_step_sizes_by_hand() -> None:
    p = problem("convex")
    start = start_of(p)
    sizes = theory_step_sizes(p, start, 2, 1e-3)
    assert sizes["srg"] == pytest.approx(2 / (math.sqrt(np.mean(p.constants**2)) * (3 + 1)))
    assert sizes["svrg"] == pytest.approx(1 / (4 * max(p.constants) * N ** (2 / 3)))
    assert sizes["sgd"] == pytest.approx(1e-3 / (2 * np.mean(p.constants) * start.variance))
    assert theory_step_sizes(p, start, 2, 1e9)["sgd"] == pytest.approx(1 / np.mean(p.constants))
    grid = step_size_grid(p, start, 2, 5)
    rows = np.asarray(p.transitions.observation)
    design = np.hstack([rows, np.ones((N, 1))])
    assert grid[0] == pytest.approx(min(sizes["srg"], sizes["svrg"]))
    assert grid[-1] == pytest.approx(2 / np.linalg.eigvalsh(2 * design.T @ design / N).max())


# The loop length that the proof asks for


@given(st.floats(1e-6, 1.0), st.floats(0.1, 100), st.floats(0.1, 1000))
def test_the_loop_length_solves_the_proofs_equation(epsilon: float, largest: float, root_mu: float) -> None:
    length = loop_length_needed(epsilon, largest, root_mu)
    if length == 0:
        assert 4 * largest * root_mu <= epsilon
        return
    eta = 2 / (root_mu * (math.sqrt(4 * length + 1) + 1))
    assert 4 * largest / (eta * (length + 1)) == pytest.approx(epsilon, rel=1e-6)


# Everything


@pytest.fixture(scope="module")
def tables() -> dict[str, pl.DataFrame]:
    plan = dataclasses.replace(TheoremPlan.quick(), problems=("convex",))
    return measure(plan, lambda share: None, threading.Event())


def test_at_the_theorys_step_size_nothing_is_violated(tables: dict[str, pl.DataFrame]) -> None:
    inequality = tables["inequality"]
    assert inequality.height == (2 + 1) * 3  # S = 2 at the centre, and S = 1; at three multiples
    at_theory = inequality.filter(multiple=1.0)
    assert not at_theory["violated"].any()
    assert not at_theory["paper_violated"].any()
    assert at_theory["in_region"].all()


def test_loop_length_grows_as_the_inverse_square_of_epsilon(tables: dict[str, pl.DataFrame]) -> None:
    growth = tables["growth"]
    assert growth["exponent"].to_list() == pytest.approx([2.0] * 4, abs=0.02)
    for (a, b), (root_a, root_b) in zip(
        itertools.pairwise(growth["loop_length"]), itertools.pairwise(growth["root_length_by_epsilon"]), strict=True
    ):
        assert b / a == pytest.approx(100, rel=0.05)
        assert root_b / root_a == pytest.approx(100, rel=0.05)


@pytest.mark.parametrize(("changes", "said"), [({"multiples": (10.0,)}, "speaks of 1"), ({"replications": 1}, "is 1")])
def test_plans_that_tell_nothing_are_rejected(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        dataclasses.replace(TheoremPlan.quick(), **changes)
