"""Prioritised replay beside the paper's formulas in plain NumPy and double precision."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import family
import reference
from outer_iterations import BLOCK, CAPACITY, SIZES, SLOTS, configure, iterate, story
from srgdqn.config import Configuration
from srgdqn.config.configure import configure as configured
from srgdqn.errors import InputError
from srgdqn.learner.outer_iteration import LearnerState, init_learner
from srgdqn.learner.prioritised import draw_slots, init_priorities, learned, remember
from srgdqn.training.batches import choose_rows
from srgdqn.training.draws import draw_block
from srgdqn.training.program import programs_for
from tiny import BLOCK as TINY_BLOCK
from tiny import lane_segments, tiny
from translation import flat, options_of, to_parameters

ALPHA, BETA, FLOOR = 0.7, 0.3, 0.01
OPTIONS: dict[str, Any] = dict(
    sampling="prioritised", priority_exponent=ALPHA, importance_exponent=BETA, priority_floor=FLOOR, target="outer"
)


class Plain:
    """p of every transition ever, and the largest so far."""

    def __init__(self) -> None:
        self.p: list[float] = []
        self.largest = 1.0

    def write(self, count: int) -> None:
        self.p += [self.largest] * count

    def weights(self, given: family.Given) -> np.ndarray:
        stored = self.p[-CAPACITY:]
        exponent = BETA + (1 - BETA) * given.progress
        drawn = np.array([self.p[step - 1] for step in given.made_at]) / sum(stored)
        w = (1 / (len(stored) * drawn)) ** exponent
        return np.asarray(w / w.max())

    def learned(self, given: family.Given, errors: list[float]) -> None:
        for step, error in zip(given.made_at, errors, strict=True):
            self.p[step - 1] = (abs(error) + FLOOR) ** ALPHA
        self.largest = max(self.largest, *(self.p[step - 1] for step in given.made_at))

    def in_ring(self) -> np.ndarray:
        ring = np.zeros(SLOTS)
        for number in range(max(0, len(self.p) - CAPACITY), len(self.p)):
            ring[number % SLOTS] = self.p[number]
        return ring


def gradients(o: reference.Options, theta: np.ndarray, data: list[reference.Transition]) -> np.ndarray:
    """On each row, with y by the same θ."""
    return np.array([reference.gradient(o, theta, x, reference.bellman_target(o, theta, x)) for x in data])


def remembered(configuration: Configuration, state: LearnerState, written: int) -> LearnerState:
    assert state.priorities is not None
    return state._replace(priorities=remember(configuration, state.priorities, jnp.asarray(written)))


@pytest.mark.parametrize("name", ["srg", "svrg", "sgd", "storm"])
@pytest.mark.parametrize("still", [False, True])
def test_weights_and_priorities_are_those_of_the_formulas(name: str, still: bool) -> None:
    """D has rows twice, and the ring more slots than are drawn from. With steps of 0, where the two θ of a pair are
    the same, every direction is the weighted gradient on D, or storm's mean of those so far.
    """
    steps: dict[str, Any] = dict(eta=0.0, alpha=0.0, coefficient=1.0) if still else {}
    configuration = configure(name, **OPTIONS, **steps)
    with jax.enable_x64(True):
        theta, given, slots = story(5, 0)
        o = options_of(configuration, SIZES)
        state, plain = init_learner(configuration, to_parameters(theta, SIZES, o.activation)), Plain()
        before = None
        for one, places in zip(given, slots, strict=True):
            state = remembered(configuration, state, one.written)
            plain.write(BLOCK)
            theta_0 = flat(state.parameters)
            weights = plain.weights(one)
            each = gradients(o, theta_0, one.data)
            state, trace = iterate(configuration, state, one, places)
            expected = weights @ each / len(one.data)
            errors = [
                reference.bellman_target(o, theta_0, x) - float(reference.q_values(o, theta_0, x.s)[x.a])
                for x in one.data
            ]
            plain.learned(one, errors)
            np.testing.assert_allclose(trace.batch.weight, weights, rtol=1e-6)  # type: ignore[union-attr]
            if name == "storm" and before is not None and still:
                a = dict(configuration.estimator.own)["a"]
                expected = a * expected + (1 - a) * before
            if name != "storm" or still or before is None:
                first = flat(trace.deltas, 1)[-1 if name == "storm" else 0]
                np.testing.assert_allclose(first, expected, rtol=1e-6, atol=1e-9)
            if still and name in ("srg", "svrg"):
                np.testing.assert_allclose(flat(trace.deltas, 1), np.tile(expected, (5, 1)), rtol=1e-6, atol=1e-9)
            before = expected
            assert state.priorities is not None
            np.testing.assert_allclose(state.priorities.p[:SLOTS], plain.in_ring(), rtol=1e-6)
            np.testing.assert_allclose(state.priorities.largest, plain.largest, rtol=1e-6)


def test_slots_are_drawn_as_often_as_the_formula_says() -> None:
    sizes: dict[str, Any] = dict(replay_capacity=45, learning_frequency=16, batch_size=8, steps=2_000)
    configuration = configured("CartPole", sampling="prioritised", **sizes)
    priorities = init_priorities(configuration)
    assert priorities is not None
    random = np.random.default_rng(2)
    for written in (16, 32, 48, 64):
        priorities = remember(configuration, priorities, jnp.asarray(written))
    errors = random.normal(size=48)
    slots = (64 - 1 - np.arange(45)) % 48
    priorities = learned(configuration.replay, priorities, jnp.asarray(slots), jnp.asarray(errors[slots]))
    keys = jax.random.split(jax.random.key(4), 20_000)
    drawn = np.asarray(jax.jit(jax.vmap(lambda key: draw_slots(priorities, key, 1)))(keys)).ravel()
    p = np.zeros(48)
    p[slots] = (np.abs(errors[slots]) + 1e-6) ** 0.6
    found = np.bincount(drawn, minlength=48)
    assert (found[p == 0] == 0).all()  # the three oldest, which the ring still has
    assert (p == 0).sum() == 3
    assert stats.chisquare(found[p > 0], (len(drawn) * p / p.sum())[p > 0]).pvalue > 1e-3


def test_a_round_draws_by_the_priorities_of_the_iteration_before() -> None:
    """Of a compiled round every leaf is what the newest iteration that drew it, or its writing, made it."""
    configuration, task = tiny(steps=96, sampling="prioritised", kernel="xla", gradient_steps=2)
    programs, _ = programs_for(configuration, task)
    lanes = [
        jax.tree.map(np.asarray, segment.lanes.learner.priorities)
        for segment in lane_segments(configuration, programs, [0, 1], segment_blocks=1)
    ]
    key = programs.init(jnp.uint32(0), jnp.arange(programs.width, dtype=jnp.uint32), jnp.ones(programs.width, bool)).key
    shape = configuration.shape().with_numbers(configuration.numbers())
    for number in (0, 1):
        for block in range(2, 6):
            before = jax.tree.map(lambda leaf, n=number: jnp.asarray(leaf[n]), lanes[block - 1])
            after = jax.tree.map(lambda leaf, n=number: leaf[n], lanes[block])
            written = (block + 1) * TINY_BLOCK
            ready = remember(shape, before, jnp.asarray(written))
            draws = draw_block(shape, key[number], jnp.asarray(block), actions=2, rows=4)
            first = choose_rows(shape, 48, jnp.asarray(block), draws.batch(0), priorities=ready).origin.slots
            changed = np.flatnonzero(after.p != np.asarray(ready.p))
            assert set(np.asarray(first).tolist()) <= set(range(48))
            assert len(changed) <= 8
            assert set(np.asarray(first).tolist()) & set(changed.tolist())
            ages = (written - 1 - np.asarray(first)) % 48
            assert (ages < min(written, 40)).all()


@pytest.mark.parametrize("name", ["page", "spider", "saga_replay", "sag_replay"])
def test_estimators_that_compare_with_the_replay_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"Give sampling = 'with-replacement', or another estimator"):
        configured("CartPole", "dqn-storm", estimator=name, sampling="prioritised", steps=2_000)
