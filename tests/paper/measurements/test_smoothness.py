"""Smoothness constants against closed forms, finite differences of the reference's gradient, and sampled Hessians."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import subprocess
import sys
from typing import Any

import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import given

import reference
from srgdqn.config import Configuration
from srgdqn.errors import InputError
from srgdqn.learner.networks import make_network
from srgdqn.paper.measurements.smoothness import (
    linear_smoothness,
    local_smoothness,
    tanh_smoothness,
    theory_step_size,
)
from translation import to_parameters, to_transitions


def hessian(o: reference.Options, theta: np.ndarray, x: reference.Transition, y: float) -> np.ndarray:
    """Central differences of the reference's gradient."""
    step = 1e-5
    columns = [
        (reference.gradient(o, theta + step * e, x, y) - reference.gradient(o, theta - step * e, x, y)) / (2 * step)
        for e in np.eye(len(theta))
    ]
    return np.stack(columns)


@functools.cache
def compiled(configuration: Configuration, sizes: tuple[int, ...]) -> Any:
    network = make_network(configuration.network, sizes[0], sizes[-1])
    # Each program runs a few times: optimising it would take longer.
    options = {"xla_backend_optimization_level": 0}
    return jax.jit(functools.partial(local_smoothness, configuration, network), compiler_options=options)


def local(o: reference.Options, theta: np.ndarray, data: list[reference.Transition], **options: Any) -> np.ndarray:
    chosen = {**dataclasses.asdict(o), "hidden": o.sizes[1:-1], **options}
    chosen.pop("sizes")
    with jax.enable_x64(True):
        run = compiled(Configuration().with_options(chosen), o.sizes)
        return np.asarray(run(to_parameters(theta, o.sizes, o.activation), to_transitions(data)))


# The bound on η


@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=9), st.integers(0, 1000))
def test_the_bound_is_where_the_proofs_quadratic_vanishes(betas: list[float], inner: int) -> None:
    """The proof of the lemma behind Theorem 1 needs μ M η² + √μ η - 1 ≤ 0; the bound is its positive root."""
    eta = theory_step_size(np.array(betas), inner)
    mu = sum(beta**2 for beta in betas) / len(betas)
    assert mu * inner * eta**2 + math.sqrt(mu) * eta == pytest.approx(1)


@pytest.mark.parametrize("constants", [[], [[1.0]], [0.0, 0.0], [1.0, -1.0], [1.0, math.nan]])
def test_constants_that_are_none_are_rejected(constants: list) -> None:
    with pytest.raises(InputError, match="smoothness constants"):
        theory_step_size(np.array(constants), 3)


def test_a_negative_loop_length_is_rejected() -> None:
    with pytest.raises(InputError, match="inner_iterations is -1"):
        theory_step_size(np.ones(3), -1)


# The Hessian at one θ


@pytest.mark.parametrize(
    ("activation", "loss", "sizes", "seed", "rows"),
    [
        ("relu", "squared", (3, 4, 2), 5, 6),
        ("softplus", "huber", (3, 4, 2), 5, 6),
        ("tanh", "huber", (2, 12, 12, 3), 3, 3),  # 231 parameters, which are more than products
    ],
)
def test_local_constants_are_those_of_finite_differences(
    activation: str, loss: str, sizes: tuple[int, ...], seed: int, rows: int
) -> None:
    o = reference.Options(sizes, activation=activation, loss=loss, huber_delta=0.7)
    theta, data, _ = reference.random_problem(seed, sizes, rows, 1)
    assert reference.smallest_preactivation(o, [theta], data) > 1e-3  # no kink within a difference
    errors = [reference.bellman_target(o, theta, x) - reference.q_values(o, theta, x.s)[x.a] for x in data]
    assert min(abs(abs(error) - o.huber_delta) for error in errors) > 1e-3
    expected = [np.linalg.norm(hessian(o, theta, x, reference.bellman_target(o, theta, x)), 2) for x in data]
    np.testing.assert_allclose(local(o, theta, data), expected, rtol=1e-6, atol=1e-9)


_ON_SOME_CORES = """
import os, sys
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(sys.argv[1])])
import jax
from srgdqn.config.configure import configure
from srgdqn.learner.gradients import Transitions
from srgdqn.learner.networks import make_network
from srgdqn.paper.measurements.smoothness import local_smoothness
configuration = configure("MountainCar", "srg-dqn", hidden=(20, 20))
network = make_network(configuration.network, 2, 3)
theta, rows = network.init(jax.random.key(0)), jax.random.normal(jax.random.key(1), (8, 2))
transitions = Transitions(rows, jax.numpy.arange(8) % 3, rows[:, 0], rows[::-1], jax.numpy.ones(8))
print(jax.jit(lambda *given: local_smoothness(configuration, network, *given))(theta, transitions).tobytes().hex())
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be withheld here")
def test_local_constants_do_not_depend_on_the_number_of_cores() -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is one core")
    one, two = (
        subprocess.run([sys.executable, "-c", _ON_SOME_CORES, cores], capture_output=True, text=True, check=True).stdout
        for cores in ("1", "2")
    )
    assert one == two
    assert len(one.strip()) == 8 * 8


def test_targets_are_frozen_even_where_training_lets_them_move() -> None:
    sizes = (3, 4, 2)
    theta, data, _ = reference.random_problem(7, sizes, 4, 1)
    o = reference.Options(sizes, activation="tanh")
    np.testing.assert_array_equal(local(o, theta, data, target="current"), local(o, theta, data, target="outer"))


@given(st.integers(0, 999))
def test_linear_constants_are_exact(seed: int) -> None:
    theta, data, _ = reference.random_problem(seed, (3, 2), 4, 1)
    by_hand = [2 * (sum(value**2 for value in x.s) + 1) for x in data]
    np.testing.assert_allclose(linear_smoothness(np.array([x.s for x in data])), by_hand, rtol=1e-12)
    np.testing.assert_allclose(local(reference.Options((3, 2)), theta, data), by_hand, rtol=1e-9)


# The region of a tanh network


@given(
    seed=st.integers(0, 10_000),
    width=st.integers(1, 4),
    size=st.integers(1, 3),
    weights=st.floats(0.05, 3),
    biases=st.floats(0, 3),
    targets=st.floats(0, 5),
    spread=st.sampled_from([0.1, 1.0, 3.0]),
    corner=st.booleans(),
)
def test_no_point_of_the_region_exceeds_the_tanh_constants(
    seed: int, width: int, size: int, weights: float, biases: float, targets: float, spread: float, corner: bool
) -> None:
    rng = np.random.default_rng(seed)
    sizes = (size, width, 2)
    o = reference.Options(sizes, activation="tanh", gamma=0.0)
    x = rng.normal(0, spread, size)

    def within(bound: float, shape: tuple[int, ...]) -> np.ndarray:
        # Corners of the region are where the bound is nearest to being met.
        return bound * (rng.choice([-1.0, 1.0], shape) if corner else rng.uniform(-1, 1, shape))

    theta = np.concatenate(
        [
            rng.normal(0, spread, size * width),
            rng.normal(0, spread, width),
            within(weights, (2 * width,)),
            within(biases, (2,)),
        ]
    )
    y = float(within(targets, ()))
    transition = reference.Transition(x, int(rng.integers(2)), y, x, True)
    (bound,) = tanh_smoothness(x[None], width=width, weights=weights, biases=biases, targets=targets)
    assert np.linalg.norm(hessian(o, theta, transition, y), 2) <= bound * (1 + 1e-6)


def test_the_tanh_constants_are_not_far_off() -> None:
    """One unit, saturated: Q = ±(V + C) far from y, whose Hessian is 2 ∇Q ∇Qᵀ with ‖∇Q‖² = 2."""
    o = reference.Options((1, 1, 1), activation="tanh", gamma=0.0)
    x = reference.Transition(np.zeros(1), 0, 0.0, np.zeros(1), True)
    at_rest = np.array([0.0, 0.0, 2.0, 0.0])  # w, b, v, c: the unit's slope is 1, and ∇Q = (0, v, 0, 1)
    (bound,) = tanh_smoothness(np.zeros((1, 1)), width=1, weights=2.0, biases=0.0, targets=0.0)
    worst = np.linalg.norm(hessian(o, at_rest, x, 0.0), 2)
    assert worst == pytest.approx(2 * (1 + 4))
    assert worst <= bound <= 3 * worst
