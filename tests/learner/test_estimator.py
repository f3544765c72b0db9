"""What an estimator is given, and what is done with what it gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
from outer_iterations import INNER, PICKED, ROWS, SIZES, configure, story
from srgdqn.config import Configuration
from srgdqn.errors import InputError
from srgdqn.learner.estimator import Clock, Origin
from srgdqn.learner.estimators import ESTIMATORS, Direction, Estimator, Query, register_estimator
from srgdqn.learner.networks import make_network
from srgdqn.learner.outer_iteration import (
    LearnerState,
    Trace,
    init_learner,
    outer_iteration,
    queries_per_iteration,
)
from translation import CLOSE, QUICK, distance, flat, mean_gradient, options_of, to_parameters, to_transitions


@pytest.fixture
def registry() -> Iterator[dict[str, Estimator]]:
    before = dict(ESTIMATORS)
    yield ESTIMATORS
    ESTIMATORS.clear()
    ESTIMATORS.update(before)


def nothing(work: Any) -> int:
    return 0


def run(configuration: Configuration, seed: int, count: int, **given: Any) -> Iterator[tuple[LearnerState, Trace, Any]]:
    """Some outer iterations in double precision, nothing of which is kept for tests alone."""
    network = make_network(configuration.network, SIZES[0], SIZES[-1])
    theta, every, slots = story(seed, 0, count)
    state = init_learner(configuration, to_parameters(theta, SIZES, "tanh"))

    def iterate(state: LearnerState, data: Any, picks: Any, origin: Any, progress: Any) -> tuple[LearnerState, Trace]:
        how: dict[str, Any] = {"origin": origin, "progress": progress, **given}
        return outer_iteration(configuration, network, state, data, picks, **how)

    compiled = jax.jit(iterate, compiler_options=QUICK)
    for each, places in zip(every, slots, strict=True):
        origin = Origin(*map(jnp.asarray, (places, each.made_at, each.written, each.written)))
        picks = jnp.asarray(each.picks, jnp.int32)
        state, trace = compiled(state, to_transitions(each.data), picks, origin, each.progress)
        yield state, trace, each


# Δ_0


@pytest.mark.parametrize(
    ("name", "options", "queries"),
    [
        ("sgd", dict(anchor_step=False), PICKED * INNER),
        ("sgd", dict(anchor_step=True), ROWS + PICKED * INNER),
        ("full", dict(anchor_step=False), ROWS * INNER),
        ("svrg", dict(anchor_step=False), ROWS + 2 * PICKED * INNER),
        ("storm", dict(anchor_step=True), 2 * ROWS),
        ("saga_replay", dict(anchor_step=True), ROWS),
    ],
)
def test_loss_and_q_are_those_at_the_start_whether_or_not_the_anchor_is_used(
    name: str, options: dict[str, Any], queries: int
) -> None:
    configuration = configure(name, **options, target="outer")
    o = options_of(configuration, SIZES)
    assert queries_per_iteration(configuration) == queries
    with jax.enable_x64(True):
        theta = story(6, 0, 3)[0]
        for state, trace, given in run(configuration, 6, 3):
            targets = [reference.bellman_target(o, theta, x) for x in given.data]
            losses = [reference.loss(o, theta, x, y) for x, y in zip(given.data, targets, strict=True)]
            best = [max(reference.q_values(o, theta, x.s)) for x in given.data]
            assert float(trace.loss) == pytest.approx(np.mean(losses), rel=CLOSE)
            assert float(trace.max_q) == pytest.approx(np.mean(best), rel=CLOSE)
            assert int(trace.queries) == queries
            theta = flat(state.parameters)


# What it is given


def test_the_clock(registry: dict[str, Estimator]) -> None:
    """A hard target network is new in the first iteration and after every third; any other only in the first."""

    def direction(state: Any, theta: Any, previous: Any, query: Query) -> Direction:
        gradient = query.on_batch(theta)
        return Direction(gradient, gradient, query.clock)

    clock = Clock(jnp.asarray(-1), jnp.asarray(0.0), jnp.asarray(False))
    registry["clock"] = Estimator(direction, nothing, nothing, init=lambda theta, work: clock, per="batch")
    for target, expected in (("hard", [0, 3, 6]), ("polyak", [0]), ("current", [0])):
        configuration = configure("clock", target=target, target_period=3, anchor_step=True)
        seen, targets = [], []
        for state, _, _ in run(configuration, 7, 8):
            seen.append(state.memory)
            targets.append(None if state.target is None else flat(state.target))
        assert [int(each.iteration) for each in seen] == list(range(8))
        assert [float(each.progress) for each in seen] == pytest.approx([s / 8 for s in range(8)])
        assert [s for s, each in enumerate(seen) if bool(each.synchronised)] == expected
        if target == "hard":  # and there it really is
            assert [s + 1 for s in range(1, 7) if (targets[s] != targets[s - 1]).any()] == [3, 6]


def test_what_it_did_not_ask_for_is_not_there(registry: dict[str, Estimator]) -> None:
    def asking(ask: Any, **how: Any) -> Estimator:
        def direction(state: Any, theta: Any, previous: Any, query: Query) -> Direction:
            ask(query, theta)
            return Direction(theta, theta, state)

        return Estimator(direction, nothing, nothing, **how)

    for ask, how, says in (
        (lambda query, theta: query.on_replay(theta), dict(per="batch"), "this estimator has no replay_rows"),
        (lambda query, theta: query.target, dict(), "no target network to ask about; give target = 'hard' or 'polyak'"),
        (lambda query, theta: query.coin, dict(), r"asks for a coin\. Give it coins=True"),
        (lambda query, theta: query.on_present(theta), dict(per="batch"), "an estimator per batch has no picks"),
        (lambda query, theta: query.on_each_present(theta), dict(per="batch"), "an estimator per batch has no picks"),
    ):
        registry["asking"] = asking(ask, **how)
        with pytest.raises(ValueError, match=says):
            next(run(configure("asking"), 0, 1))


@pytest.mark.parametrize("target", ["hard", "polyak"])
def test_the_targets_parameters(registry: dict[str, Estimator], target: str) -> None:
    """Those behind y: a copy of θ made every third iteration, or followed by τ of the way."""

    def direction(state: Any, theta: Any, previous: Any, query: Query) -> Direction:
        return Direction(query.target, query.on_batch(theta), query.target)

    registry["asking"] = Estimator(direction, nothing, nothing, init=lambda theta, work: theta, per="batch")
    configuration = configure("asking", target=target, target_period=3, target_tau=0.25, step="sgd", eta=0.1)
    configuration = configuration.with_options(dict(adam_process=False, clip_norm=None))
    with jax.enable_x64(True):
        theta = behind = story(5, 0, 7)[0]
        for s, (state, _, _) in enumerate(run(configuration, 5, 7), start=1):
            assert distance(flat(state.memory), behind) < CLOSE
            theta = theta - 0.1 * behind
            assert distance(flat(state.parameters), theta) < CLOSE
            if target == "polyak":
                behind = 0.75 * behind + 0.25 * theta
            elif s % 3 == 0:
                behind = theta


def test_rows_and_picks_are_those_of_d(registry: dict[str, Estimator]) -> None:
    """Every gradient that can be asked for within D, beside the reference's of those rows."""
    found: dict[str, Any] = {}

    def direction(state: Any, theta: Any, previous: Any, query: Query) -> Direction:
        each = jax.vmap(query.dense)
        asked = {
            "present": query.dense(query.on_present(theta)),
            "next": query.dense(query.on_next(theta)),
            "pair": tuple(map(query.dense, query.on_present_and_next(theta))),
            "present of every": query.dense(query.present_of(query.on_every_pick(theta))),
            "each present": each(query.on_each_present(theta)),
            "rows": each(query.on_rows(theta)),
            "batch": query.on_batch(theta),
        }
        jax.debug.callback(
            lambda m, rows, asked: found.update({int(m): (rows, asked)}), query.m, query.present_rows, asked
        )
        return Direction(query.on_batch(theta), query.on_batch(theta), state)

    registry["asking"] = Estimator(direction, nothing, nothing)
    configuration = configure("asking", eta=0.0, alpha=0.0, target="outer")
    o = options_of(configuration, SIZES)
    with jax.enable_x64(True):
        theta = story(8, 0, 1)[0]
        [(_, _, given)] = run(configuration, 8, 1)
        jax.effects_barrier()

    def g(rows: Any) -> np.ndarray:
        return mean_gradient(o, theta, [given.data[i] for i in rows])

    for m in range(1, INNER + 1):
        rows, asked = found[m]
        present = given.picks[m - 1]
        upcoming = given.picks[min(m, INNER - 1)]
        assert rows.tolist() == present
        assert distance(flat(asked["present"]), g(present)) < CLOSE
        assert distance(flat(asked["next"]), g(upcoming)) < CLOSE
        assert distance(np.stack([flat(one) for one in asked["pair"]]), [g(present), g(upcoming)]) < CLOSE
        assert distance(flat(asked["present of every"]), g(present)) < CLOSE
        assert distance(flat(asked["each present"], axes=1), [g([i]) for i in present]) < CLOSE
        assert distance(flat(asked["rows"], axes=1), [g([i]) for i in range(ROWS)]) < CLOSE
        assert distance(flat(asked["batch"]), g(range(ROWS))) < CLOSE


# What is done with what it gives


@pytest.mark.parametrize("both", [False, True])
def test_what_enters_adam(registry: dict[str, Estimator], both: bool) -> None:
    """Half of Δ enters m, and, where that is said too, twice Δ enters v; each is shortened by itself."""

    def times(factor: float, tree: Any) -> Any:
        return jax.tree.map(lambda leaf: factor * leaf, tree)

    def direction(state: Any, theta: Any, previous: Any, query: Query) -> Direction:
        g = query.on_batch(theta)
        return Direction(g, g, state, first=times(0.5, g), second=times(2.0, g) if both else None)

    registry["halved"] = Estimator(direction, nothing, nothing, per="batch")
    configuration = configure("halved", clip_norm=0.1, step="adam", adam_process=False)
    o = options_of(configuration, SIZES)
    with jax.enable_x64(True):
        theta, m, v = story(9, 0, 3)[0], 0.0, 0.0
        for s, (state, trace, given) in enumerate(run(configuration, 9, 3, keep_last=True), start=1):
            g = mean_gradient(o, theta, given.data)
            assert distance(flat(trace.last_delta), g) < CLOSE
            assert distance(flat(trace.entered), 0.5 * g) < CLOSE
            first, second = reference.clip(o, 0.5 * g), reference.clip(o, (2.0 if both else 1.0) * g)
            m, v = o.beta1 * m + (1 - o.beta1) * first, o.beta2 * v + (1 - o.beta2) * second**2
            m_hat, v_hat = m / (1 - o.beta1**s), v / (1 - o.beta2**s)
            theta = theta - o.alpha * m_hat / (np.sqrt(v_hat) + o.adam_epsilon)
            assert distance(flat(state.parameters), theta) < CLOSE


@pytest.mark.parametrize("adam_process", [False, True])
def test_what_enters_adam_is_refused_where_steps_are_not_adams(
    registry: dict[str, Estimator], adam_process: bool
) -> None:
    def direction(state: Any, theta: Any, previous: Any, query: Query) -> Direction:
        g = query.on_batch(theta)
        return Direction(g, g, state, second=g)

    registry["halved"] = Estimator(direction, nothing, nothing, per="batch")
    with pytest.raises(InputError, match=r"enters Adam's moments, but steps are -ηΔ[.] Give step = 'adam'"):
        next(iter(run(configure("halved", step="gradient", adam_process=adam_process), 9, 1)))


def test_a_reference_per_batch_is_refused() -> None:
    with pytest.raises(InputError, match=r"'mine' has a direction per batch.*Leave reference out[.]"):
        register_estimator("mine", Estimator(nothing, nothing, nothing, per="batch", reference="previous"))


def test_a_memory_per_batch_is_the_state_unless_it_is_finished(registry: dict[str, Estimator]) -> None:
    def direction(state: Any, theta: Any, previous: Any, query: Query) -> Direction:
        g = query.on_batch(theta)
        return Direction(g, g, state + 1)

    def memories(**how: Any) -> list[float]:
        start = dict(init=lambda theta, work: jnp.asarray(0.0), per="batch")
        registry["counting"] = Estimator(direction, nothing, nothing, **{**start, **how})
        configuration = configure("counting", adam_process=False)
        return [float(state.memory) for state, _, _ in run(configuration, 0, 3)]

    assert memories() == [1, 2, 3]
    assert memories(finish=lambda state, theta: 10 * state) == [10, 110, 1110]
    assert memories(begin=lambda memory, theta, anchor, query: memory + 1) == [2, 4, 6]
    assert memories(per="pick") == [0, 0, 0]
    assert memories(per="pick", finish=lambda state, theta: state) == [INNER, 2 * INNER, 3 * INNER]
