"""Each estimator against the family in plain NumPy, over several outer iterations; and what it asks for."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import family
from outer_iterations import CAPACITY, INNER, ROWS, SIZES, configure, iterate, story
from srgdqn.config import Configuration
from srgdqn.config.discovery import BUILT_IN_ESTIMATORS
from srgdqn.learner.estimator import Origin
from srgdqn.learner.estimators import ESTIMATORS
from srgdqn.learner.networks import make_network
from srgdqn.learner.outer_iteration import (
    evaluations_per_iteration,
    init_learner,
    outer_iteration,
    queries_per_iteration,
    replay_rows,
)
from translation import CLOSE, QUICK, distance, flat, options_of, to_parameters, to_transitions

# Others than the defaults, so that each number must be where it belongs.
NUMBERS: dict[str, dict[str, float]] = {
    "alpha_svrg": dict(svrg_start=0.8, svrg_end=0.3),
    "loopless_svrg": dict(refresh=0.5),
    "loopless_sarah": dict(refresh=0.5),
    "sarah_plus": dict(shortest=0.9),
    "sag": {},
    "saga": {},
    "storm_inner": dict(a=0.3),
    "storm": dict(a=0.3, reset=1),
    "mars": dict(weight=0.4, longest=0.9),
    "page": dict(refresh=0.5, anchor_batches=2),
    "spider": dict(every=3, radius=0.9, anchor_batches=2),
    "window_svrg": dict(anchor_batches=2),
    "saga_replay": {},
    "sag_replay": {},
}


def test_every_estimator_has_an_independent_one() -> None:
    assert set(BUILT_IN_ESTIMATORS) == {"sgd", "full", "svrg", "srg", *NUMBERS}  # the first four are the reference's
    assert set(family.ACROSS_BATCHES) == {name for name in NUMBERS if ESTIMATORS[name].per == "batch"}


def independent(configuration: Configuration, theta: np.ndarray) -> family.Round:
    settings = configuration.optimiser
    return family.Round(
        configuration.estimator.estimator,
        options_of(configuration, SIZES),
        theta,
        dict(configuration.estimator.own),
        adam_steps=settings.step == "adam",
        adam_process=settings.adam_process,
        capacity=CAPACITY,
    )


TARGETS: dict[str, dict[str, Any]] = {
    "current": dict(target="current"),
    "outer": dict(target="outer"),
    "hard": dict(target="hard", target_period=2),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NUMBERS)
def test_each_is_the_papers_over_several_outer_iterations(name: str, target: str) -> None:
    configuration = configure(name, **NUMBERS[name], **TARGETS[target])
    for seed in (0, 1):
        theta, every, slots = story(seed, replay_rows(configuration))
        expected = independent(configuration, theta)
        with jax.enable_x64(True):
            state = init_learner(configuration, to_parameters(theta, SIZES, "tanh"))
            for given, places in zip(every, slots, strict=True):
                made = expected.outer_iteration(given)
                state, trace = iterate(configuration, state, given, places)
                deltas, iterates = flat(trace.deltas, axes=1), flat(trace.iterates, axes=1)
                if ESTIMATORS[name].per == "batch":
                    deltas, iterates = deltas[1:], iterates[[0, 2]]  # behind Δ_0, and the step that it does not make
                for m, delta in enumerate(made.delta):
                    assert distance(deltas[m], delta) < CLOSE
                for m, at in enumerate(made.theta):
                    assert distance(iterates[m], at) < CLOSE
                assert distance(flat(trace.last_delta), made.delta[-1]) < CLOSE
                assert distance(flat(state.parameters), expected.thetas[-1]) < CLOSE
                assert distance(flat(state.adam.first), expected.moments[0]) < CLOSE
                assert int(state.adam.updates) == expected.moments[2]


def test_storm_goes_on_across_copies_of_the_target_if_so_asked() -> None:
    configuration = configure("storm", a=0.3, reset=0, **TARGETS["hard"])
    theta, every, slots = story(2, 0)
    expected = independent(configuration, theta)
    with jax.enable_x64(True):
        state = init_learner(configuration, to_parameters(theta, SIZES, "tanh"))
        for given, places in zip(every, slots, strict=True):
            expected.outer_iteration(given)
            state, _ = iterate(configuration, state, given, places)
    assert distance(flat(state.parameters), expected.thetas[-1]) < CLOSE


def test_sarah_plus_ends_its_inner_iterations() -> None:
    """Where it ended, θ, Δ, Adam's moments and the Adam process's input are those of fewer inner iterations."""
    ends = set()
    for seed in range(12):
        configuration = configure("sarah_plus", shortest=0.5)
        theta, (given, *_), (slots, *_) = story(seed, 0)
        made = independent(configuration, theta).outer_iteration(given)
        last = len(made.delta) - 1
        ends.add(last)
        with jax.enable_x64(True):
            start = init_learner(configuration, to_parameters(theta, SIZES, "tanh"))
            state, trace = iterate(configuration, start, given, slots)
        assert distance(flat(trace.deltas, axes=1)[last:], [made.delta[-1]] * (INNER + 1 - last)) < CLOSE
        assert distance(flat(trace.iterates, axes=1)[last + 1 :], [made.theta[-1]] * (INNER + 1 - last)) < CLOSE
        assert int(state.adam.updates) == 1
    assert INNER in ends  # some end early, and some do not
    assert len(ends) > 1


# Work


@pytest.mark.parametrize("name", NUMBERS)
def test_queries_are_those_of_the_independent_one(name: str) -> None:
    """On average over coins, over the window of a target network and over the time between two large samples."""
    configuration = configure(name, **{**NUMBERS[name], **(dict(shortest=0.0) if name == "sarah_plus" else {})})
    configuration = configuration.with_options(TARGETS["hard"])
    counts: dict[float, list[int]] = {}
    for coin in (0.0, 0.999):
        theta, every, _ = story(3, replay_rows(configuration), 6)
        round_ = independent(configuration, theta)
        counts[coin] = [round_.outer_iteration(given._replace(coins=[coin] * INNER)).queries for given in every]
    p = NUMBERS[name].get("refresh", 0.0)
    # PAGE's first iteration takes a large sample in any case, which its formula leaves out.
    first = 1 if name == "page" else 0
    mean = p * np.mean(counts[0.0][first:]) + (1 - p) * np.mean(counts[0.999][first:])
    assert queries_per_iteration(configuration) == round(mean)
    with jax.enable_x64(True):
        state = init_learner(configuration, to_parameters(theta, SIZES, "tanh"))
        _, trace = iterate(configuration, state, every[0], [0] * ROWS)
    assert float(trace.queries) == pytest.approx(mean)


class Counting(eqx.Module):
    """A network that reports each observation whose gradient is really computed."""

    inner: eqx.nn.Linear
    passed_back: Any = eqx.field(static=True)

    def __call__(self, x: jax.Array) -> jax.Array:
        q: jax.Array = self.passed_back(x, self.inner(x))
        return q


@pytest.mark.parametrize("name", NUMBERS)
def test_evaluations_are_those_that_are_made(name: str) -> None:
    """On average likewise; nothing is computed that is not due."""
    configuration = configure(name, **NUMBERS[name], differentiation="autodiff", target="hard", target_period=2)
    gradients = 0

    def counted(slope: np.ndarray) -> np.ndarray:
        nonlocal gradients
        gradients += 1
        return slope

    def back(x: jax.Array, slope: jax.Array) -> tuple[jax.Array, jax.Array]:
        # Without an effect, so that the compiler drops it with a gradient that nobody uses.
        form = jax.ShapeDtypeStruct(slope.shape, slope.dtype)
        return jnp.zeros_like(x), jax.pure_callback(counted, form, slope, vmap_method="sequential")

    passed_back = jax.custom_vjp(lambda x, q: q)
    passed_back.defvjp(lambda x, q: (q, x), back)
    module = Counting(eqx.nn.Linear(3, 2, key=jax.random.key(0)), passed_back)
    network = make_network(configuration.network, 3, 2, module)

    def run(state: Any, data: Any, picks: Any, origin: Any, beyond: Any, coins: Any) -> Any:
        replay = (lambda: beyond) if replay_rows(configuration) else None
        return outer_iteration(configuration, network, state, data, picks, origin=origin, replay=replay, coins=coins)[0]

    program = jax.jit(run, compiler_options=QUICK)
    counts: dict[float, list[int]] = {}
    _, every, slots = story(4, replay_rows(configuration), 6)
    for coin in (0.0, 0.999):
        state, counts[coin] = init_learner(configuration, network.init(jax.random.key(0))), []
        for given, places in zip(every, slots, strict=True):
            gradients = 0
            origin = Origin(*map(jnp.asarray, (places, given.made_at, given.written, given.written)))
            data, beyond = (to_transitions(rows, np.float32) if rows else None for rows in (given.data, given.beyond))
            coins = jnp.full(1 if ESTIMATORS[name].per == "batch" else INNER, coin)
            state = program(state, data, jnp.asarray(given.picks, jnp.int32), origin, beyond, coins)
            jax.block_until_ready(state)
            jax.effects_barrier()
            counts[coin].append(gradients)
    p = NUMBERS[name].get("refresh", 0.0)
    first = 1 if name == "page" else 0
    mean = p * np.mean(counts[0.0][first:]) + (1 - p) * np.mean(counts[0.999][first:])
    assert evaluations_per_iteration(configuration) == round(mean)
