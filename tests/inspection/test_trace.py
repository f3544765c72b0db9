"""Traces against the plain NumPy reference, line by line of Algorithm 1, for every kind of algorithm."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
from srgdqn.config import Configuration
from srgdqn.config.algorithms import algorithm, readings
from srgdqn.inspection.trace import IterationInputs, Tracer, scaled_norm
from srgdqn.learner.networks import make_network
from srgdqn.learner.normalisation import Normaliser
from srgdqn.learner.outer_iteration import init_learner
from translation import options_of, to_parameters, to_transitions

SIZES, ROWS, INNER = (3, 5, 2), 6, 4
CLOSE = 1e-9


def problem(
    name: str, which: str = "corrected", seed: int = 0, **options: Any
) -> tuple[Configuration, Any, IterationInputs, Any]:
    """A configuration, its network, an outer iteration in double precision, and the same for the reference."""
    usual = dict(hidden=SIZES[1:-1], batch_size=ROWS, inner_iterations=INNER, eta=0.05, alpha=0.01)
    configuration = Configuration().with_options({**readings(which), **algorithm(name).options, **usual, **options})
    theta, data, picks = reference.random_problem(
        seed, SIZES, ROWS, INNER, inner_batch=configuration.estimator.inner_batch
    )
    network = make_network(configuration.network, SIZES[0], SIZES[-1])
    learner = init_learner(configuration, to_parameters(theta, SIZES))
    inputs = IterationInputs(
        step=16,
        before=jax.tree.map(np.asarray, learner),
        after=jax.tree.map(np.asarray, learner),
        normaliser=Normaliser(None, None, None),
        transitions=to_transitions(data),
        made_at=np.arange(1, ROWS + 1),
        picks=np.array(picks, np.int32),
        progress=np.array(0.0),
        numbers={key: np.float64(value) for key, value in configuration.numbers().items()},
        discarded=False,
    )
    return configuration, network, inputs, (theta, data, picks)


def norms(vectors: list[np.ndarray]) -> list[float]:
    return [float(np.linalg.norm(vector)) for vector in vectors]


@pytest.mark.parametrize(
    ("name", "which"),
    [
        ("srg-dqn", "corrected"),
        ("srg-dqn", "printed"),
        ("svr-dqn", "printed"),
        ("sgd-inner", "corrected"),
        ("dqn-sgd", "printed"),
        ("dqn-gd-adam", "corrected"),
        ("dqn-adam", "printed"),
    ],
)
def test_every_norm_is_the_references(name: str, which: str) -> None:
    with jax.enable_x64(True):
        configuration, network, inputs, (theta, data, picks) = problem(name, which)
        traced = Tracer(configuration, network).trace(inputs)
        options = options_of(configuration, SIZES)
    start = reference.init(options, theta)
    after, record = reference.outer_iteration(name, options, start, data, picks)
    inner = len(record.delta) - 1
    outer = {"loss": record.loss, "max_q": record.max_q, "after_norm": np.linalg.norm(after.theta)}
    assert {name: traced.outer[name] for name in outer} == pytest.approx(outer, rel=CLOSE)
    assert traced.inner["theta_norm"] == pytest.approx(norms(record.theta[:-1]), rel=CLOSE)
    assert traced.inner["delta_norm"] == pytest.approx(norms(record.delta), rel=CLOSE)
    steps = [new - old for old, new in itertools.pairwise(record.theta)]
    assert traced.inner["step_norm"] == pytest.approx(norms(steps), rel=CLOSE)

    def y(at: np.ndarray, x: reference.Transition) -> float:
        return reference.bellman_target(options, at, x)

    def g(at: np.ndarray, m: int) -> np.ndarray:
        return np.mean([reference.gradient(options, at, data[i], y(at, data[i])) for i in picks[m - 1]], axis=0)

    expected = norms([record.delta[0], *(g(record.theta[m], m) for m in range(1, inner + 1))])
    assert traced.inner["gradient_norm"] == pytest.approx(expected, rel=CLOSE)
    behind = {"srg-dqn": lambda m: record.theta[m - 1], "svr-dqn": lambda m: record.theta[0]}.get(name)
    if behind is None:
        assert "reference_norm" not in traced.inner
    else:
        expected = norms([g(behind(m), m) for m in range(1, inner + 1)])
        assert traced.inner["reference_norm"][1:] == pytest.approx(expected, rel=CLOSE)
    for m in range(1, inner + 1):
        for sample, row in enumerate(picks[m - 1]):
            at, x = record.theta[m], data[row]
            q = reference.q_values(options, at, x.s)[x.a]
            assert traced.picks["q"][m - 1, sample] == pytest.approx(q, rel=CLOSE)
            assert traced.picks["target"][m - 1, sample] == pytest.approx(y(at, x), rel=CLOSE)
            assert traced.picks["td_error"][m - 1, sample] == pytest.approx(y(at, x) - q, rel=1e-6)
    errors = [y(theta, x) - reference.q_values(options, theta, x.s)[x.a] for x in data]
    assert traced.td_errors == pytest.approx(errors, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "which"), [("srg-dqn", "corrected"), ("srg-dqn", "printed"), ("dqn-adam", "corrected")]
)
def test_adam_is_the_references(name: str, which: str) -> None:
    with jax.enable_x64(True):
        configuration, network, inputs, (theta, data, picks) = problem(name, which, clip_norm=0.3)
        traced = Tracer(configuration, network).trace(inputs)
        options = options_of(configuration, SIZES)
    after, record = reference.outer_iteration(name, options, reference.init(options, theta), data, picks)
    process = configuration.optimiser.adam_process
    entered = record.raw if process and options.adam_input == "gradient" else record.delta[-1]
    entered = reference.clip(options, entered)
    v_hat = after.second / (1 - options.beta2**after.adam_count)
    size = v_hat if options.adam_denominator == "elementwise" else np.linalg.norm(v_hat)
    denominators = np.sqrt(size) + options.adam_epsilon
    direction = after.first / (1 - options.beta1**after.adam_count) / denominators
    expected = {
        "adam_input_norm": np.linalg.norm(entered),
        "adam_first_norm": np.linalg.norm(after.first),
        "adam_second_norm": np.linalg.norm(after.second),
        "adam_least_denominator": np.min(denominators),
        "adam_largest_denominator": np.max(denominators),
        "adam_step_norm": options.alpha * np.linalg.norm(direction),
    }
    assert {name: traced.outer[name] for name in expected} == pytest.approx(expected, rel=CLOSE)


def test_frozen_targets_and_picks_of_several_transitions() -> None:
    with jax.enable_x64(True):
        configuration, network, inputs, (theta, data, picks) = problem("srg-dqn", target="outer", inner_batch=3)
        traced = Tracer(configuration, network).trace(inputs)
        options = options_of(configuration, SIZES)
    _, record = reference.outer_iteration("srg-dqn", options, reference.init(options, theta), data, picks)
    expected = [[reference.bellman_target(options, theta, data[row]) for row in pick] for pick in picks]
    assert traced.picks["target"] == pytest.approx(np.array(expected), rel=CLOSE)
    assert traced.picks["q"].shape == (INNER, 3)
    assert traced.inner["delta_norm"] == pytest.approx(norms(record.delta), rel=CLOSE)


def test_norms_overflow_only_where_a_number_does() -> None:
    assert scaled_norm([jnp.array([3e30, 4e30])]) == pytest.approx(5e30)
    assert scaled_norm([jnp.array([3e-30, 4e-30])]) == pytest.approx(5e-30)
    assert scaled_norm([jnp.zeros(3)]) == 0
    assert scaled_norm([jnp.array([1.0]), jnp.array([-jnp.inf])]) == jnp.inf
    assert jnp.isnan(scaled_norm([jnp.array([1.0]), jnp.array([jnp.nan])]))
