"""Outer iterations of any estimator, one after the other, on batches from a replay that is written meanwhile."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import family
import reference
from srgdqn.config import Configuration
from srgdqn.config.algorithms import algorithm
from srgdqn.learner.estimator import Origin
from srgdqn.learner.estimators import ESTIMATORS
from srgdqn.learner.networks import make_network
from srgdqn.learner.outer_iteration import LearnerState, Trace, outer_iteration
from translation import QUICK, to_transitions

SIZES = (3, 4, 2)
ROWS, INNER, PICKED = 5, 4, 3  # picks of three rows of five, with replacement: rows are in a pick twice
BLOCK, CAPACITY, SLOTS = 4, 6, 8  # the ring is longer than what can be drawn from it
ITERATIONS = 5  # by then every slot has been overwritten


def configure(name: str, **options: Any) -> Configuration:
    """Adam's steps per batch, as `dqn-storm`; steps η and the Adam process within D, as `srg-dqn`."""
    composed = algorithm("dqn-storm" if ESTIMATORS[name].per == "batch" else "srg-dqn").options
    sizes = dict(hidden=SIZES[1:-1], batch_size=ROWS, inner_iterations=INNER, inner_batch=PICKED)
    memory = dict(replay_capacity=CAPACITY, learning_frequency=BLOCK)
    usual = dict(eta=0.05, alpha=0.02, coefficient=0.7, activation="tanh")
    return Configuration().with_options({**composed, **sizes, **memory, **usual, "estimator": name, **options})


def story(seed: int, more: int, count: int = ITERATIONS) -> tuple[np.ndarray, list[family.Given], list[list[int]]]:
    """θ, what each outer iteration is made on, and the slots of D: drawn from a replay that is written meanwhile."""
    rng = np.random.default_rng(seed)
    theta, transitions, _ = reference.random_problem(seed, SIZES, BLOCK * (count + 1), 0)
    given, slots = [], []
    for s in range(count):
        written = BLOCK * (s + 1)
        oldest = max(written - CAPACITY, 0)
        steps = (1 + rng.integers(oldest, written, ROWS)).tolist()
        beyond = rng.integers(oldest, written, more)
        given.append(
            family.Given(
                data=[transitions[step - 1] for step in steps],
                picks=rng.integers(ROWS, size=(INNER, PICKED)).tolist(),
                coins=rng.random(INNER).tolist(),
                beyond=[transitions[i] for i in beyond],
                made_at=steps,
                written=written,
                progress=s / count,
            )
        )
        slots.append([(step - 1) % SLOTS for step in steps])
    return theta, given, slots


@functools.cache
def compiled(shape: Configuration) -> Any:
    network = make_network(shape.network, SIZES[0], SIZES[-1])

    def run(
        numbers: Any, state: Any, data: Any, picks: Any, origin: Any, beyond: Any, coins: Any, progress: Any
    ) -> Any:
        return outer_iteration(
            shape.with_numbers(numbers),
            network,
            state,
            data,
            picks,
            origin=origin,
            replay=None if beyond is None else lambda: beyond,
            coins=coins,
            progress=progress,
            keep_iterates=True,
        )

    return jax.jit(run, compiler_options=QUICK)


def iterate(
    configuration: Configuration, state: LearnerState, given: family.Given, slots: list[int]
) -> tuple[LearnerState, Trace]:
    """One outer iteration in double precision."""
    origin = Origin(*map(jnp.asarray, (slots, given.made_at, given.written, min(given.written, CAPACITY))))
    beyond = to_transitions(given.beyond) if given.beyond else None
    coins = jnp.asarray(given.coins[: 1 if ESTIMATORS[configuration.estimator.estimator].per == "batch" else None])
    picks = jnp.asarray(given.picks, jnp.int32)
    done: tuple[LearnerState, Trace] = compiled(configuration.shape())(
        configuration.numbers(), state, to_transitions(given.data), picks, origin, beyond, coins, given.progress
    )
    return done
