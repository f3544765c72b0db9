"""Traces against the plain NumPy reference, line by line of Algorithm 1, for every kind of algorithm."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import family
import reference
from srgdqn.config import Configuration
from srgdqn.config.algorithms import algorithm, readings
from srgdqn.inspection.trace import IterationInputs, Tracer, is_per_batch, scaled_norm, tables_of
from srgdqn.learner.estimator import Origin
from srgdqn.learner.networks import make_network
from srgdqn.learner.normalisation import Normaliser
from srgdqn.learner.outer_iteration import init_learner
from translation import mean_gradient, options_of, to_parameters, to_transitions

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
    return configuration, network, inputs, (theta, data, picks)


def norms(vectors: list[np.ndarray]) -> list[float]:
    return [float(np.linalg.norm(vector)) for vector in vectors]


SEVERAL = dict(target="outer", inner_batch=3)


@pytest.mark.parametrize(
    ("name", "which", "given"),
    [
        ("srg-dqn", "corrected", dict(clip_norm=0.3)),
        ("srg-dqn", "printed", dict(clip_norm=0.3)),
        ("srg-dqn", "corrected", SEVERAL),
        ("svr-dqn", "printed", {}),
        ("sgd-inner", "corrected", {}),
        ("dqn-sgd", "printed", {}),
        ("dqn-adam", "corrected", dict(clip_norm=0.3)),
    ],
)
def test_every_norm_is_the_references(name: str, which: str, given: dict[str, Any]) -> None:
    with jax.enable_x64(True):
        configuration, network, inputs, (theta, data, picks) = problem(name, which, **given)
        traced = Tracer(configuration, network).trace(inputs)
        options = options_of(configuration, SIZES)
    after, record = reference.outer_iteration(name, options, reference.init(options, theta), data, picks)
    inner = range(1, len(record.delta))

    def y(at: np.ndarray, x: reference.Transition) -> float:
        return reference.bellman_target(options, theta if options.target == "outer" else at, x)

    def q(at: np.ndarray, x: reference.Transition) -> float:
        return float(reference.q_values(options, at, x.s)[x.a])

    def g(at: np.ndarray, m: int) -> np.ndarray:
        return np.mean([reference.gradient(options, at, data[i], y(at, data[i])) for i in picks[m - 1]], axis=0)

    outer = {"loss": record.loss, "max_q": record.max_q, "after_norm": np.linalg.norm(after.theta)}
    if configuration.optimiser.adam_process or configuration.optimiser.step == "adam":
        outer |= adam(configuration, options, after, record)
    assert traced.outer == pytest.approx(outer, rel=CLOSE)
    behind = {"srg-dqn": lambda m: record.theta[m - 1], "svr-dqn": lambda m: record.theta[0]}.get(name)
    expected = {
        "theta_norm": norms(record.theta[:-1]),
        "delta_norm": norms(record.delta),
        "step_norm": norms([new - old for old, new in itertools.pairwise(record.theta)]),
        "gradient_norm": norms([record.delta[0], *(g(record.theta[m], m) for m in inner)]),
        **({} if behind is None else {"reference_norm": [np.nan, *norms([g(behind(m), m) for m in inner])]}),
    }
    assert traced.inner.keys() == expected.keys()
    for column, values in expected.items():
        assert traced.inner[column] == pytest.approx(values, rel=CLOSE, nan_ok=True)
    for m in inner:
        at, picked = record.theta[m], [data[row] for row in picks[m - 1]]
        assert traced.picks["q"][m - 1] == pytest.approx([q(at, x) for x in picked], rel=CLOSE)
        assert traced.picks["target"][m - 1] == pytest.approx([y(at, x) for x in picked], rel=CLOSE)
        assert traced.picks["td_error"][m - 1] == pytest.approx([y(at, x) - q(at, x) for x in picked], rel=1e-6)
    assert traced.td_errors == pytest.approx([y(theta, x) - q(theta, x) for x in data], rel=1e-6)


def adam(configuration: Configuration, options: Any, after: Any, record: Any) -> dict[str, Any]:
    """What enters Adam and comes out, by the reference."""
    process = configuration.optimiser.adam_process
    entered = record.raw if process and options.adam_input == "gradient" else record.delta[-1]
    v_hat = after.second / (1 - options.beta2**after.adam_count)
    size = v_hat if options.adam_denominator == "elementwise" else np.linalg.norm(v_hat)
    denominators = np.sqrt(size) + options.adam_epsilon
    direction = after.first / (1 - options.beta1**after.adam_count) / denominators
    return {
        "adam_input_norm": np.linalg.norm(reference.clip(options, entered)),
        "adam_first_norm": np.linalg.norm(after.first),
        "adam_second_norm": np.linalg.norm(after.second),
        "adam_least_denominator": np.min(denominators),
        "adam_largest_denominator": np.max(denominators),
        "adam_step_norm": options.alpha * np.linalg.norm(direction),
    }


def test_norms_overflow_only_where_a_number_does() -> None:
    assert scaled_norm([jnp.array([3e30, 4e30])]) == pytest.approx(5e30)
    assert scaled_norm([jnp.array([3e-30, 4e-30])]) == pytest.approx(5e-30)
    assert scaled_norm([jnp.zeros(3)]) == 0
    assert scaled_norm([jnp.array([1.0]), jnp.array([-jnp.inf])]) == jnp.inf
    assert jnp.isnan(scaled_norm([jnp.array([1.0]), jnp.array([jnp.nan])]))


def test_a_direction_per_batch_is_traced_on_all_of_d() -> None:
    """In the second outer iteration, in which STORM's reference is of the first."""
    with jax.enable_x64(True):
        configuration, network, inputs, (theta, data, _) = problem("dqn-storm", target="outer")
        tracer = Tracer(configuration, network)
        first = tracer.trace(inputs)
        inputs = inputs._replace(before=first.after, after=first.after)
        traced = tracer.trace(inputs)
    o = options_of(configuration, SIZES)
    round_ = family.Round("storm", o, theta, dict(configuration.estimator.own), adam_steps=True)
    round_.outer_iteration(family.Given(data))
    made = round_.outer_iteration(family.Given(data))
    at = made.theta[0]
    assert traced.inner["theta_norm"][1] == pytest.approx(np.linalg.norm(at), rel=CLOSE)
    assert traced.inner["delta_norm"][1] == pytest.approx(np.linalg.norm(made.delta[0]), rel=CLOSE)
    assert traced.inner["gradient_norm"][1] == pytest.approx(np.linalg.norm(mean_gradient(o, at, data)), rel=CLOSE)
    assert traced.inner["step_norm"][1] == pytest.approx(np.linalg.norm(made.theta[1] - at), rel=CLOSE)
    assert "reference_norm" not in traced.inner
    q = [reference.q_values(o, at, x.s)[x.a] for x in data]
    assert traced.picks["q"][0] == pytest.approx(q, rel=CLOSE)
    iterations, inner = tables_of([(inputs, traced)], per_batch=True)
    assert is_per_batch(configuration)
    assert inner["row"].to_list() == list(range(ROWS))
    assert set(inner["m"]) == {1}
    assert iterations["anchor_norm"].to_list() == [None]
    assert iterations["largest_delta_norm"][0] == pytest.approx(np.linalg.norm(made.delta[0]), rel=CLOSE)
