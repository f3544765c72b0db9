"""Gradient queries per second of each estimator, counted by its formula and as it really evaluates them, and what a
query costs beside SRG's.

    python benchmarks/queries.py [--quick] [--out FILE]

`TIMED` says what is timed.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from measuring import circumstances, pinned_to, spread, usable
from reporting import Bar, Panel, between, console, place_for, print_table, write_report
from srgdqn import tasks
from srgdqn.config import Configuration
from srgdqn.config.configure import configure
from srgdqn.kernel.structures import ESTIMATORS as NATIVE
from srgdqn.learner.estimators import ESTIMATORS, Origin
from srgdqn.learner.gradients import Transitions
from srgdqn.learner.networks import make_network
from srgdqn.learner.outer_iteration import (
    LearnerState,
    coins_needed,
    evaluations_per_iteration,
    init_learner,
    outer_iteration,
    queries_per_iteration,
    replay_rows,
    work_of,
)
from srgdqn.training.jax_setup import hot_program_flags
from srgdqn.training.program import lane_numbers
from training_speed import kernels, steps_per_second

TIMED = (
    "Timed on one core with hidden 20+20, N = 64, M = 16. By XLA: one compiled loop of outer iterations over batches "
    "that lie ready, in as many lanes as training has and compiled as training is; no environment is stepped, and "
    "nothing is drawn, stored or logged meanwhile. By the kernel: what training takes longer than acting alone, so "
    "that drawing batches counts."
)

LEARNING_FREQUENCY = 16  # environment steps to an outer iteration, where any are made
BATCHES = 256  # outer iterations of a lane in one call


class Loop(NamedTuple):
    """The compiled loop of one estimator."""

    iterations: int  # outer iterations in one call, of all lanes
    call: Callable[[], None]


class Entry(NamedTuple):
    """Who is measured, and how: outer iterations per second."""

    estimator: str
    kernel: str
    rate: Callable[[], float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short turn")
    parser.add_argument("--turns", type=int, default=3, help="how often each is measured")
    parser.add_argument("--out", type=Path, default=place_for(__file__))
    options = parser.parse_args()
    turns, seconds = (1, 0.1) if options.quick else (options.turns, 3.0)

    # Before anything is computed: jax's threads stay where the thread that starts them is.
    with pinned_to(usable()[:1]):
        entries = [
            Entry(name, kernel, {"xla": _by_xla, "native": _by_kernel}[kernel](name, seconds))
            for kernel in kernels()
            for name in ("none", *ESTIMATORS)
            if kernel == "xla" or name in NATIVE
        ]
        rates = [[entry.rate() for entry in entries] for _ in range(turns)]

    rows = [_row(entry, [turn[index] for turn in rates]) for index, entry in enumerate(entries)]
    for row in rows:  # turn by turn, so that both were measured beside the same neighbours
        [srg] = [other for other in rows if (other["estimator"], other["kernel"]) == ("srg", row["kernel"])]
        mine, its = (each["queries_per_second"]["turns"] for each in (row, srg))
        row["cost_beside_srg"] = spread([theirs / ours for ours, theirs in zip(mine, its, strict=True)])
    print_table("Gradient queries of learning alone", COLUMNS, [_cells(row) for row in rows], names=2)
    console.print(TIMED)
    report = {"circumstances": circumstances(), "timed": TIMED, "rows": rows}
    bars = [Bar(f"{row['estimator']}, {row['kernel']}", row["queries_per_second"], True) for row in rows]
    write_report(options.out, report, [Panel("learning alone, one core", "gradient queries per second", bars)])


def _row(entry: Entry, rates: list[float]) -> dict[str, Any]:
    configuration = _configuration(entry.estimator)
    queries, evaluations = queries_per_iteration(configuration), evaluations_per_iteration(configuration)
    return {
        "estimator": entry.estimator,
        "kernel": entry.kernel,
        "queries_per_iteration": queries,
        "evaluations_per_iteration": evaluations,
        "iterations_per_second": spread(rates),
        "queries_per_second": spread([rate * queries for rate in rates]),
        "evaluations_per_second": spread([rate * evaluations for rate in rates]),
    }


COLUMNS = (
    "estimator",
    "kernel",
    "queries per iteration",
    "evaluated",
    "outer iterations/s",
    "queries/s",
    "worst to best turn",
    "evaluated/s",
    "a query's cost / SRG's",
)


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        row["estimator"],
        row["kernel"],
        f"{row['queries_per_iteration']:,}",
        f"{row['evaluations_per_iteration']:,}",
        f"{row['iterations_per_second']['median']:,.0f}",
        f"{row['queries_per_second']['median']:,.0f}",
        between(row["queries_per_second"]),
        f"{row['evaluations_per_second']['median']:,.0f}",
        f"{row['cost_beside_srg']['median']:.2f}",
    ]


def _configuration(estimator: str) -> Configuration:
    # Step sizes so small that nothing diverges on random transitions; what they are does not change the cost.
    tiny: dict[str, Any] = dict(hidden=(20, 20), eta=1e-5, alpha=1e-5)
    if estimator != "none" and ESTIMATORS[estimator].problem is not None:
        tiny["target"] = "hard"
    return configure("MountainCar", "srg-dqn", estimator=estimator, **tiny)


def compile_loop(configuration: Configuration) -> Loop:
    environment = tasks.make(configuration.task).environment
    size, actions = environment.observation_space.shape[0], int(environment.action_space.n)
    network = make_network(configuration.network, size, actions)
    lanes = configuration.training.lanes

    rows, beyond, coins = configuration.replay.batch_size, replay_rows(configuration), coins_needed(configuration)

    def learn(
        state: LearnerState, numbers: dict[str, jax.Array], batches: Transitions, picks: jax.Array, coin: jax.Array
    ) -> tuple[LearnerState, jax.Array]:
        # As in training: numbers are arguments of the program.
        filled = configuration.with_numbers(numbers)

        def more(first: jax.Array) -> Transitions:
            at = (first + jnp.arange(beyond)) % (BATCHES * rows)
            return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[at], batches)

        def iterate(state: LearnerState, served: Any) -> tuple[LearnerState, jax.Array]:
            batch, picked, tossed, index = served
            made_at = index * rows + 1 + jnp.arange(rows)
            written = (index + 1) * rows
            origin = Origin((made_at - 1) % work_of(filled).slots, made_at, written, written)
            replay = (lambda: more(index * rows)) if beyond else None
            given: dict[str, Any] = dict(origin=origin, replay=replay, coins=tossed if coins else None)
            state, trace = outer_iteration(filled, network, state, batch, picked, **given)
            return state, trace.loss

        return jax.lax.scan(iterate, state, (batches, picks, coin, jnp.arange(BATCHES)))

    start_key, batches_key = jax.random.split(jax.random.key(0))
    state = jax.vmap(lambda key: init_learner(configuration, network.init(key)))(jax.random.split(start_key, lanes))
    given = lane_numbers(configuration, lanes), *_random_batches(configuration, size, actions, batches_key)
    compiled = jax.jit(jax.vmap(learn)).lower(state, *given).compile(hot_program_flags())

    def call() -> None:
        nonlocal state
        state, losses = jax.block_until_ready(compiled(state, *given))
        if not jnp.isfinite(losses).all():
            raise RuntimeError(f"{configuration.estimator.estimator} has diverged, which may change what it costs.")

    return Loop(lanes * BATCHES, call)


def _random_batches(
    configuration: Configuration, size: int, actions: int, key: jax.Array
) -> tuple[Transitions, jax.Array, jax.Array]:
    """Batches for every lane, and the inner picks from each and random numbers for it."""
    inner, rows = configuration.estimator, configuration.replay.batch_size
    keys = jax.random.split(key, 6)
    shape = (configuration.training.lanes, BATCHES)
    batches = Transitions(
        observation=jax.random.uniform(keys[0], (*shape, rows, size), minval=-1.0),
        action=jax.random.randint(keys[1], (*shape, rows), 0, actions),
        reward=jax.random.uniform(keys[2], (*shape, rows)),
        next_observation=jax.random.uniform(keys[3], (*shape, rows, size), minval=-1.0),
        terminated=jnp.zeros((*shape, rows)),
    )
    picks = jax.random.randint(keys[4], (*shape, inner.inner_iterations, inner.inner_batch), 0, rows)
    return batches, picks, jax.random.uniform(keys[5], (*shape, inner.inner_iterations))


def _by_xla(estimator: str, seconds: float) -> Callable[[], float]:
    loop = compile_loop(_configuration(estimator))
    return lambda: _rate(loop, seconds)


def _by_kernel(estimator: str, seconds: float) -> Callable[[], float]:
    segments = max(2, round(4 * seconds))

    def rate() -> float:
        given: dict[str, Any] = dict(kernel="native", estimator=estimator, hidden=(20, 20), segments=segments)
        whole, acting = (
            1 / steps_per_second("MountainCar", "srg-dqn", learning=learning, **given) for learning in (True, False)
        )
        return 1 / (LEARNING_FREQUENCY * (whole - acting)) if whole > acting else math.nan  # lost in noise

    return rate


def _rate(loop: Loop, seconds: float) -> float:
    """Outer iterations per second, over as many calls as the time allows."""
    loop.call()  # memory is allocated, caches are warm
    calls, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        loop.call()
        calls += 1
    return calls * loop.iterations / elapsed


if __name__ == "__main__":
    main()
