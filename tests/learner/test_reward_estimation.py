"""Estimated rewards against a plain program, a least-squares solver, and what both gradients of a pair share."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
import storm_reference
from srgdqn.config import Configuration
from srgdqn.config.algorithms import algorithm
from srgdqn.inspection.trace import IterationInputs, Tracer
from srgdqn.learner.estimator import Origin
from srgdqn.learner.gradients import Transitions
from srgdqn.learner.networks import make_network
from srgdqn.learner.normalisation import Normaliser
from srgdqn.learner.optimiser import init_adam
from srgdqn.learner.outer_iteration import LearnerState, Trace, init_learner, outer_iteration
from srgdqn.learner.reward_estimation import RewardEstimate, first_estimate, fitted, rewards_of
from translation import QUICK, distance, expected_iteration, flat, options_of, to_parameters, to_transitions

SIZES, ROWS, INNER = (3, 5, 2), 6, 3
CLOSE = 1e-10


def configured(name: str, **options: Any) -> Configuration:
    usual: dict[str, Any] = dict(hidden=SIZES[1:-1], batch_size=ROWS, inner_iterations=INNER, eta=0.05, alpha=0.01)
    chosen = {**algorithm(name).options, **usual, "reward_estimation": True, "reward_alpha": 0.03, **options}
    return Configuration(algorithm=name).with_options(chosen)


def estimate_at(psi: np.ndarray) -> RewardEstimate:
    parameters = to_parameters(psi, SIZES)
    return RewardEstimate(parameters, init_adam(parameters))


def problems(seed: int, count: int) -> tuple[np.ndarray, np.ndarray, list[Any]]:
    """θ, ψ, and what each outer iteration is made on."""
    drawn = [reference.random_problem(seed + 100 * s, SIZES, ROWS, INNER) for s in range(count + 1)]
    return drawn[0][0], drawn[-1][0], [each[1:] for each in drawn[:-1]]


def program(configuration: Configuration, weights: Any = None) -> Any:
    network = make_network(configuration.network, SIZES[0], SIZES[-1])

    def run(state: LearnerState, data: Transitions, picks: Any) -> tuple[LearnerState, Trace]:
        origin = Origin(jnp.arange(ROWS), jnp.arange(1, ROWS + 1), jnp.int32(ROWS), jnp.int32(ROWS))
        return outer_iteration(
            configuration, network, state, data, picks, weights=weights, origin=origin, keep_iterates=True
        )

    return jax.jit(run, compiler_options=QUICK)


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "srg, current": ("srg-dqn", dict(target="current")),
    "svrg, hard": ("svr-dqn", dict(target="hard", target_period=2, loss="huber", huber_delta=0.4)),
    "sgd, autodiff": ("sgd-inner-adam", dict(target="outer", differentiation="autodiff", mask_terminal=False)),
    "storm": ("dqn-storm", dict(target="hard", target_period=2)),
    "munchausen": (
        "dqn-adam",
        dict(target="polyak", target_tau=0.3, bootstrap="munchausen", munchausen_temperature=0.2, clip_norm=0.1),
    ),
    "other Adam": (
        "srg-dqn",
        dict(target="outer", beta1=0.5, beta2=0.9, adam_epsilon=0.1, weight_decay=0.5, schedule="linear"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_outer_iterations_are_the_plain_programs(name: str) -> None:
    """ψ is fitted on D first, by an Adam of its own that nothing clips or decays; then all is Algorithm 1 with R̂."""
    composed, options = CASES[name]
    configuration = configured(composed, **options)
    o = options_of(configuration, SIZES)
    theta, psi, given = problems(2, 4)
    expected, before = reference.init(o, theta), None
    if composed == "dqn-storm":
        before = storm_reference.Before(theta, np.zeros_like(theta))
    rewards = reference.Rewards(psi, np.zeros_like(psi), np.zeros_like(psi), 0)
    with jax.enable_x64(True):
        state = init_learner(configuration, to_parameters(theta, SIZES), estimate_at(psi))
        run = program(configuration)
        for data, picks in given:
            rewards = reference.fit_rewards(o, rewards, data)
            estimated = reference.with_estimates(o, rewards, data)
            assert min(abs(x.r - y.r) for x, y in zip(data, estimated, strict=True)) > 1e-3
            expected, before, record = expected_iteration(
                configuration, SIZES, expected, before, estimated, picks, progress=0.0
            )
            state, trace = run(state, to_transitions(data), jnp.asarray(picks))
            assert state.rewards is not None
            assert distance(flat(state.rewards.parameters), rewards.psi) < CLOSE
            assert distance(flat(state.rewards.adam.second), rewards.second) < CLOSE
            assert int(state.rewards.adam.updates) == rewards.count
            assert distance(flat(trace.last_delta), record.delta[-1]) < CLOSE
            assert distance(flat(state.parameters), expected.theta) < CLOSE


def test_weights_of_rows_weigh_their_squares() -> None:
    """The same F_D as the Q-network's; SRG's two gradients of a pair have the same R̂."""
    weights = np.array([0.0, 0.5, 1.0, 2.0, 3.0, 0.25])
    configuration = configured("srg-dqn-no-adam", target="current")
    o = options_of(configuration, SIZES)
    theta, psi, [(data, picks)] = problems(4, 1)
    rewards = reference.Rewards(psi, np.zeros_like(psi), np.zeros_like(psi), 0)
    rewards = reference.fit_rewards(o, rewards, data, weights)
    seen = reference.with_estimates(o, rewards, data)
    with jax.enable_x64(True):
        state = init_learner(configuration, to_parameters(theta, SIZES), estimate_at(psi))
        state, trace = program(configuration, jnp.asarray(weights))(state, to_transitions(data), jnp.asarray(picks))
    assert state.rewards is not None
    assert distance(flat(state.rewards.parameters), rewards.psi) < CLOSE
    iterates, deltas = flat(trace.iterates, 1), flat(trace.deltas, 1)

    def g(at: np.ndarray, i: int) -> np.ndarray:
        return weights[i] * reference.gradient(o, at, seen[i], reference.bellman_target(o, at, seen[i]))

    delta = np.mean([g(theta, i) for i in range(ROWS)], axis=0)
    for m, [i] in enumerate(picks, start=1):
        delta = g(iterates[m], i) - g(iterates[m - 1], i) + delta
        assert distance(deltas[m], delta) < CLOSE


def test_it_fits_what_least_squares_fit() -> None:
    """Of a linear R̂, on a D that stays: the solver's coefficients, for each action on the rows that took it."""
    sizes, rows = (3, 2), 40
    configuration = configured("dqn-adam", hidden=(), reward_alpha=0.01)
    network = make_network(configuration.network, *sizes)
    _, data, _ = reference.random_problem(6, sizes, rows, 0)
    with jax.enable_x64(True):
        parameters = to_parameters(np.zeros(8), sizes)
        estimate, transitions = RewardEstimate(parameters, init_adam(parameters)), to_transitions(data)
        step = functools.partial(fitted, configuration, network)
        many = jax.jit(lambda first: jax.lax.fori_loop(0, 4_000, lambda _, each: step(each, transitions), first))
        psi = flat(many(estimate).parameters)
    for action in range(2):
        taken = [x for x in data if x.a == action]
        inputs = np.array([[*x.s, 1.0] for x in taken])
        solved = np.linalg.lstsq(inputs, np.array([x.r for x in taken]), rcond=None)[0]
        [(weight, bias)] = reference.unpack(psi, sizes)
        np.testing.assert_allclose([*weight[:, action], bias[action]], solved, atol=1e-3)  # a tenth of α


def test_a_trace_shows_targets_with_the_estimates_of_its_outer_iteration() -> None:
    configuration = configured("srg-dqn", target="outer")
    o = options_of(configuration, SIZES)
    theta, psi, [(data, picks)] = problems(8, 1)
    rewards = reference.fit_rewards(o, reference.Rewards(psi, 0 * psi, 0 * psi, 0), data)
    seen = reference.with_estimates(o, rewards, data)
    network = make_network(configuration.network, SIZES[0], SIZES[-1])
    with jax.enable_x64(True):
        learner = jax.tree.map(np.asarray, init_learner(configuration, to_parameters(theta, SIZES), estimate_at(psi)))
        inputs = IterationInputs(
            step=16,
            before=learner,
            after=learner,
            normaliser=Normaliser(None, None, None),
            transitions=to_transitions(data),
            origin=Origin(np.arange(ROWS), np.arange(1, ROWS + 1), np.int32(ROWS), np.int32(ROWS)),
            weights=None,
            beyond=None,
            coins=None,
            renewed=None,
            picks=np.array(picks, np.int32),
            progress=np.array(0.0),
            numbers={key: np.float64(value) for key, value in configuration.numbers().items()},
            discarded=False,
        )
        traced = Tracer(configuration, network).trace(inputs)
    y = [reference.bellman_target(o, theta, x) for x in seen]
    np.testing.assert_allclose(traced.picks["target"].ravel(), [y[i] for [i] in picks], rtol=1e-9)
    q = [reference.q_values(o, theta, x.s)[x.a] for x in data]
    np.testing.assert_allclose(traced.td_errors, np.subtract(y, q), rtol=1e-8)


def test_it_begins_at_a_draw_of_its_own() -> None:
    """A function of the round's key, from which the Q-network's is what it was; and there is none where it is off."""
    configuration = configured("srg-dqn")
    network = make_network(configuration.network, SIZES[0], SIZES[-1])
    keys = jax.random.split(jax.random.key(3), 5)
    estimates = [first_estimate(configuration, network, key) for key in keys]
    drawn = np.array([flat(each.parameters) for each in estimates if each is not None])
    others = np.array([flat(network.init(key)) for key in keys])
    weights = np.flatnonzero(others.any(axis=0))  # biases begin at 0
    everything = np.concatenate([drawn, others])[:, weights]
    assert len(np.unique(everything)) == everything.size
    assert first_estimate(configured("srg-dqn", reward_estimation=False), network, keys[0]) is None
    rows = to_transitions(reference.random_problem(1, SIZES, ROWS, 0)[1], np.float32)
    assert estimates[0] is not None
    assert np.isfinite(rewards_of(network, estimates[0].parameters, rows)).all()
