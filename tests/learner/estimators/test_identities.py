"""What estimators are at the ends of their numbers, on average over all picks, and where nothing moves."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import family
import reference
from outer_iterations import INNER, ROWS, SIZES, compiled, configure, iterate, story
from srgdqn.config import Configuration
from srgdqn.learner.outer_iteration import init_learner, replay_rows
from translation import CLOSE, distance, flat, mean_gradient, options_of, to_parameters, to_transitions


def traced(configuration: Configuration, seed: int = 0, iterations: int = 2, **changes: Any) -> tuple[Any, ...]:
    """Δ and θ of every outer iteration, and what they were made on; `changes` are to that."""
    theta, every, slots = story(seed, replay_rows(configuration), iterations)
    every = [given._replace(**changes) for given in every]
    deltas, iterates = [], []
    with jax.enable_x64(True):
        state = init_learner(configuration, to_parameters(theta, SIZES, "tanh"))
        for given, places in zip(every, slots, strict=True):
            state, trace = iterate(configuration, state, given, places)
            deltas.append(flat(trace.deltas, axes=1))
            iterates.append(flat(trace.iterates, axes=1))
    return np.array(deltas), np.array(iterates), every


# The ends of their numbers


@pytest.mark.parametrize(
    ("name", "numbers", "other"),
    [
        ("alpha_svrg", dict(svrg_start=1.0, svrg_end=1.0), "svrg"),
        ("alpha_svrg", dict(svrg_start=0.0, svrg_end=0.0), "sgd"),
        ("loopless_svrg", dict(refresh=0.0), "svrg"),
        ("loopless_sarah", dict(refresh=0.0), "srg"),
        ("loopless_sarah", dict(refresh=1.0), "full"),
        ("sarah_plus", dict(shortest=0.0), "srg"),
        ("storm_inner", dict(a=0.0), "srg"),
        ("storm_inner", dict(a=1.0), "sgd"),
    ],
)
def test_at_the_ends_of_its_numbers_it_is_another(name: str, numbers: dict[str, float], other: str) -> None:
    deltas, iterates, _ = traced(configure(name, **numbers, coefficient=1.0))
    of_other, iterates_of_other, _ = traced(configure(other, coefficient=1.0))
    assert distance(deltas, of_other) < CLOSE
    assert distance(iterates, iterates_of_other) < CLOSE


def test_an_anchor_that_is_always_renewed_is_the_full_gradient_one_step_ago() -> None:
    configuration = configure("loopless_svrg", refresh=1.0, coefficient=1.0)
    o = options_of(configuration, SIZES)
    deltas, iterates, (given, _) = traced(configuration)
    for m in range(2, INNER + 1):
        rows = [given.data[i] for i in given.picks[m - 1]]
        at, before = iterates[0][m], iterates[0][m - 1]
        change = mean_gradient(o, at, rows) - mean_gradient(o, before, rows)
        assert distance(deltas[0][m], change + mean_gradient(o, before, given.data)) < CLOSE


@pytest.mark.parametrize(
    ("name", "numbers"),
    [("storm", dict(a=1.0)), ("mars", dict(weight=0.0, longest=1e9)), ("saga_replay", dict(coefficient=0.0))],
)
def test_across_batches_it_can_be_the_plain_gradient_as_in_dqn_adam(name: str, numbers: dict[str, float]) -> None:
    """`dqn-adam` is Adam on the gradient on D."""
    configuration, plain = configure(name, **numbers), configure(name, estimator="none")
    theta, every, slots = story(5, 0)
    with jax.enable_x64(True):
        ours, theirs = (init_learner(each, to_parameters(theta, SIZES, "tanh")) for each in (configuration, plain))
        for given, places in zip(every, slots, strict=True):
            ours, _ = iterate(configuration, ours, given, places)
            theirs, _ = compiled(plain.shape())(
                plain.numbers(), theirs, to_transitions(given.data), jnp.asarray(given.picks), None, None, None, 0.0
            )
    assert distance(flat(ours.parameters), flat(theirs.parameters)) < CLOSE
    assert distance(flat(ours.adam.second), flat(theirs.adam.second)) < CLOSE


@pytest.mark.parametrize(("name", "numbers"), [("page", dict(refresh=1.0)), ("spider", dict(every=1, radius=1e9))])
def test_a_large_sample_every_time_is_its_gradient(name: str, numbers: dict[str, float]) -> None:
    configuration = configure(name, **numbers, anchor_batches=2)
    deltas, iterates, every = traced(configuration)
    for s, given in enumerate(every):
        assert len(given.beyond) == 2 * ROWS
        expected = mean_gradient(options_of(configuration, SIZES), iterates[s][0], given.beyond)
        assert distance(deltas[s][-1], expected) < CLOSE


def test_directions_are_shortened_to_their_length() -> None:
    for name, numbers in (("mars", dict(longest=0.01)), ("spider", dict(radius=0.01, anchor_batches=2))):
        deltas, *_ = traced(configure(name, **numbers))
        assert np.linalg.norm(deltas[:, -1], axis=1) == pytest.approx([0.01, 0.01])


@pytest.mark.parametrize("every", [2, 2.5])
def test_large_samples_come_once_in_so_many_iterations(every: float) -> None:
    """Whether Δ is that of the large sample shows when."""
    configuration = configure("spider", every=every, radius=1e9, anchor_batches=2)
    o = options_of(configuration, SIZES)
    deltas, iterates, all_given = traced(configuration, iterations=5)
    due = [distance(deltas[s][-1], mean_gradient(o, iterates[s][0], g.beyond)) < CLOSE for s, g in enumerate(all_given)]
    assert due == [True, False, every == 2, every == 2.5, every == 2]


@pytest.mark.parametrize("name", ["sag", "saga"])
def test_a_table_that_is_all_new_gives_the_full_gradient(name: str) -> None:
    """With b = N and no row twice."""
    picks = [[4, 2, 0, 1, 3], [0, 1, 2, 3, 4], [1, 0, 3, 2, 4], [2, 4, 0, 1, 3]]
    configuration = configure(name, inner_batch=ROWS, inner_sampling="without-replacement", coefficient=1.0)
    deltas, iterates, (given, _) = traced(configuration, picks=picks)
    for m in range(INNER + 1):
        full = mean_gradient(options_of(configuration, SIZES), iterates[0][m], given.data)
        assert distance(deltas[0][m], full) < CLOSE


# Where nothing moves


@pytest.mark.parametrize("name", ["svrg", "srg", "saga", "sag", "loopless_svrg", "loopless_sarah", "sarah_plus"])
def test_a_pairs_difference_vanishes_as_its_parameters_meet(name: str) -> None:
    """In proportion to their distance: Δ_m goes to Δ_0, though x_m is another."""
    numbers = dict(shortest=0.0) if name == "sarah_plus" else {}

    def difference(eta: float) -> float:
        deltas, *_ = traced(configure(name, **numbers, eta=eta, coefficient=1.0), iterations=1)
        return distance(deltas[0][1:], [deltas[0][0]] * INNER)

    assert 0 < difference(1e-6) < 1e-4
    assert difference(1e-6) == pytest.approx(difference(1e-5) / 10, rel=0.01)
    assert difference(0.0) < 1e-14


def test_storm_is_a_momentum_where_nothing_moves() -> None:
    configuration = configure("storm", a=0.3, alpha=0.0)
    o = options_of(configuration, SIZES)
    deltas, iterates, every = traced(configuration, iterations=3)
    expected = None
    for s, given in enumerate(every):
        gradient = mean_gradient(o, iterates[s][0], given.data)
        expected = gradient if expected is None else 0.3 * gradient + 0.7 * expected
        assert distance(deltas[s][-1], expected) < CLOSE


# On average


UNBIASED = {"svrg": {}, "saga": {}, "alpha_svrg": dict(svrg_start=0.6), "loopless_svrg": dict(refresh=0.5)}


@pytest.mark.parametrize("name", ["sag", "srg", "storm_inner", "loopless_sarah", *UNBIASED])
def test_the_expectation_over_a_pick_is_the_full_gradient(name: str) -> None:
    """θ_m is known before x_m is picked: over its N equally likely values Δ_m averages to ∇F_D(θ_m), whatever was
    picked before, which is more than on average over everything. Not so of the recursions and of SAG.
    """
    rows, inner = 3, 3
    theta, data, _ = reference.random_problem(3, SIZES, rows, 0)
    paths = np.array(list(itertools.product(range(rows), repeat=inner)), np.int32)
    sizes = dict(batch_size=rows, inner_iterations=inner, inner_batch=1)
    configuration = configure(name, **UNBIASED.get(name, {}), **sizes, eta=0.2, coefficient=0.8)
    o = options_of(configuration, SIZES)
    with jax.enable_x64(True):
        state = init_learner(configuration, to_parameters(theta, SIZES, "tanh"))
        coins = jnp.asarray([0.1, 0.9, 0.1])  # renewed after the first and the third
        run = jax.vmap(compiled(configuration.shape()), (None, None, None, 0, None, None, None, None))
        given = (to_transitions(data), jnp.asarray(paths)[:, :, None], None, None, coins, 0.25)
        _, trace = run(configuration.numbers(), state, *given)
    deltas, iterates = flat(trace.deltas, axes=2), flat(trace.iterates, axes=2)  # by path and m
    worst = 0.0
    for m in range(1, inner + 1):
        for before in itertools.product(range(rows), repeat=m - 1):
            same = np.flatnonzero((paths[:, : m - 1] == np.array(before)).all(axis=1))
            full = mean_gradient(o, iterates[same[0], m], data)
            worst = max(worst, distance(deltas[same, m].mean(axis=0), full))
            assert distance(deltas[same[0], m], full) > 1e-3 or name == "loopless_sarah"  # each by itself is not
    assert (worst < 1e-13) == (name in UNBIASED)


def moved(state: Any, by: float) -> Any:
    return state._replace(parameters=jax.tree.map(lambda leaf: leaf + by, state.parameters))


@pytest.mark.parametrize("name", ["window_svrg", "saga_replay", "storm", "page", "sag_replay"])
def test_the_expectation_over_a_batch(name: str) -> None:
    """Over all batches of one row from a replay of three: ∇F of all three, or, of STORM and PAGE, with (1 - a) or c of
    the error that there was before. SAGA's table knows one of the rows, and then two.
    """
    theta, rows, _ = reference.random_problem(4, SIZES, 3, 0)
    numbers: dict[str, Any] = dict(
        storm=dict(a=0.3), window_svrg=dict(anchor_batches=3), page=dict(anchor_batches=3)
    ).get(name, {})
    configuration = configure(name, batch_size=1, **numbers, target="hard", target_period=100)
    o = options_of(configuration, SIZES)

    def made(state: Any, row: int) -> tuple[Any, np.ndarray]:
        given = family.Given(
            [rows[row]], [[0] * 3] * INNER, [0.9], rows if replay_rows(configuration) else (), [row + 1], 3
        )
        state, trace = iterate(configuration, state, given, [row])
        return state, flat(trace.last_delta)

    with jax.enable_x64(True):
        state = init_learner(configuration, to_parameters(theta, SIZES, "tanh"))
        at = theta
        for picked in (0, 2):
            state, delta = made(state, picked)
            error = delta - mean_gradient(o, at, rows, theta)
            state = moved(state, 0.1)
            at = flat(state.parameters)
            mean = np.mean([made(state, row)[1] for row in range(3)], axis=0)
            full = mean_gradient(o, at, rows, theta)
            share = {"storm": 0.7, "page": 0.7}.get(name, 0.0)
            assert (distance(mean, full + share * error) < 1e-13) == (name != "sag_replay")
