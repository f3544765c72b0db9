"""Gradients of the Bellman loss: closed form, automatic differentiation, finite differences and the reference agree."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace
from typing import Any

import equinox as eqx
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings

import reference
from srgdqn.config import GradientSettings, NetworkSettings
from srgdqn.errors import InputError
from srgdqn.learner.gradients import Transitions, make_batch, make_gradients
from srgdqn.learner.gradients.bellman import loss_of, loss_slope
from srgdqn.learner.networks import make_network
from srgdqn.learner.networks.mlp import MLP
from translation import flat, to_parameters, to_transitions

DIFFERENTIATIONS = ["closed-form", "autodiff"]
ROWS = 6

# Of the two errors of a central difference, h² times a third derivative and 1e-16 times the loss over h, the second is
# the larger here.
DIFFERENCES = 1e-7

PICKS = np.array([[0, 1, 2], [3, 3, 5]])  # k = 2 picks of b = 3 rows, one of them drawn twice


def values(*shape: int, bound: float = 2.0) -> Any:
    """Any numbers of that shape, those on a grid too, where terms cancel or coincide."""
    return hnp.arrays(np.float64, shape, elements=st.floats(-bound, bound, allow_subnormal=False))


@st.composite
def problems(draw: Any, sizes: tuple[int, ...]) -> tuple[np.ndarray, list[reference.Transition]]:
    count = sum((inputs + 1) * outputs for inputs, outputs in itertools.pairwise(sizes))
    states, rewards = draw(values(2, ROWS, sizes[0])), draw(values(ROWS))
    actions = draw(hnp.arrays(np.int32, ROWS, elements=st.integers(0, sizes[-1] - 1)))
    ends = draw(hnp.arrays(np.bool_, ROWS))
    rows = zip(states[0], actions, rewards, states[1], ends, strict=True)
    return draw(values(count)), [reference.Transition(s, int(a), float(r), n, bool(e)) for s, a, r, n, e in rows]


def mean_loss(o: reference.Options, theta: np.ndarray, data: list[reference.Transition], targets: list[float]) -> float:
    return float(np.mean([reference.loss(o, theta, x, y) for x, y in zip(data, targets, strict=True)]))


def finite_differences(
    o: reference.Options, theta: np.ndarray, data: list[reference.Transition], targets: list[float]
) -> np.ndarray:
    """Central differences of the mean loss with the targets held constant."""
    h = 1e-5
    steps = h * np.eye(len(theta))
    differences = [mean_loss(o, theta + e, data, targets) - mean_loss(o, theta - e, data, targets) for e in steps]
    return np.array(differences) / (2 * h)


def assume_no_kink_near(
    o: reference.Options, theta: np.ndarray, data: list[reference.Transition], targets: list[float]
) -> None:
    """A difference quotient across a kink of relu, or of the slope of Huber's loss, approximates neither side's."""
    if o.activation == "relu":
        assume(reference.smallest_preactivation(o, [theta], data) > 1e-3)
    if o.loss == "huber":
        errors = [y - reference.q_values(o, theta, x.s)[x.a] for x, y in zip(data, targets, strict=True)]
        assume(min(abs(abs(error) - o.huber_delta) for error in errors) > 1e-3)


CASES = [
    reference.Options((3, 4, 2), "relu"),
    reference.Options((3, 4, 2), "tanh", loss="huber", huber_delta=0.7),
    reference.Options((2, 4, 3, 3), "softplus", mask_terminal=False),
]
of_every_case = pytest.mark.parametrize("o", CASES, ids=lambda o: f"{o.activation}-{o.loss}-{len(o.sizes) - 2}")


def seeded(o: reference.Options, seed: int) -> tuple[np.ndarray, list[reference.Transition]]:
    return reference.random_problem(seed, o.sizes, ROWS, 0)[:2]


def any_problem(o: reference.Options, data: st.DataObject) -> tuple[np.ndarray, list[reference.Transition]]:
    """For relu drawn at random, as numbers on a grid would mostly sit on its kink."""
    if o.activation == "relu":
        return seeded(o, data.draw(st.integers(0, 9999)))
    return data.draw(problems(o.sizes))


@of_every_case
@settings(max_examples=15)
@given(data=st.data())
def test_gradient_of_the_reference_is_that_of_its_loss(o: reference.Options, data: st.DataObject) -> None:
    theta, rows = any_problem(o, data)
    targets = [reference.bellman_target(o, theta, x) for x in rows]
    assume_no_kink_near(o, theta, rows, targets)
    for x, y in zip(rows[:2], targets[:2], strict=True):
        gradient = reference.gradient(o, theta, x, y)
        error = gradient - finite_differences(o, theta, [x], [y])
        assert np.linalg.norm(error) < DIFFERENCES * max(1, np.linalg.norm(gradient))


@functools.cache
def query(o: reference.Options, differentiation: str, frozen: bool) -> Any:
    """A compiled function to the gradients, losses and mean maxima of the picks, and of the whole batch."""
    chosen = GradientSettings(
        gamma=o.gamma,
        mask_terminal=o.mask_terminal,
        loss=o.loss,
        huber_delta=o.huber_delta,
        differentiation=differentiation,
    )
    network = make_network(NetworkSettings(hidden=o.sizes[1:-1], activation=o.activation), o.sizes[0], o.sizes[-1])
    source = make_gradients(chosen, network)

    def ask(parameters: MLP, transitions: Transitions, target: MLP) -> Any:
        batch = make_batch(chosen, network, transitions, target if frozen else None)
        compact, losses, best = source.query(parameters, batch.rows(PICKS))
        dense = [source.dense(jax.tree.map(lambda leaf, k=k: leaf[k], compact)) for k in range(len(PICKS))]
        return dense, losses, best, source.mean(parameters, batch)

    return jax.jit(ask)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("differentiation", DIFFERENTIATIONS)
@of_every_case
@settings(max_examples=10)
@given(data=st.data())
def test_gradients_are_those_of_the_loss(
    o: reference.Options, differentiation: str, frozen: bool, data: st.DataObject
) -> None:
    """Against the reference to rounding, and against finite differences of the loss, each pick for itself."""
    theta, rows = any_problem(o, data)
    behind = theta[::-1].copy() if frozen else theta
    targets = [reference.bellman_target(o, behind, x) for x in rows]
    assume_no_kink_near(o, theta, rows, targets)
    with jax.enable_x64(True):
        ask = query(o, differentiation, frozen)
        arguments = (
            to_parameters(theta, o.sizes, o.activation),
            to_transitions(rows),
            to_parameters(behind, o.sizes, o.activation),
        )
        dense, losses, best, whole = ask(*arguments)
    picked = [list(pick) for pick in PICKS] + [list(range(ROWS))]
    answers = [*zip(dense, losses, best, strict=True), whole]
    for pick, (gradient, loss, max_q) in zip(picked, answers, strict=True):
        chosen, y = [rows[i] for i in pick], [targets[i] for i in pick]
        expected = np.mean([reference.gradient(o, theta, *pair) for pair in zip(chosen, y, strict=True)], axis=0)
        # A mean over rows can cancel, so rounding is that of the single gradients.
        size = max(np.linalg.norm(reference.gradient(o, theta, *pair)) for pair in zip(chosen, y, strict=True))
        assert np.linalg.norm(flat(gradient) - expected) <= 1e-11 * size + 1e-13
        assert float(loss) == pytest.approx(mean_loss(o, theta, chosen, y), rel=1e-11, abs=1e-13)
        highest = np.mean([max(reference.q_values(o, theta, x.s)) for x in chosen])
        assert float(max_q) == pytest.approx(highest, rel=1e-11, abs=1e-13)
    numeric = finite_differences(o, theta, rows, targets)
    assert np.linalg.norm(flat(whole[0]) - numeric) < DIFFERENCES * max(1, size)


@pytest.mark.parametrize("mask_terminal", [True, False])
def test_bootstrapping_stops_at_termination_if_masked(mask_terminal: bool) -> None:
    o = replace(CASES[0], gamma=0.8, mask_terminal=mask_terminal)
    theta, rows = seeded(o, 3)
    rows = [x._replace(terminal=i % 2 == 0) for i, x in enumerate(rows)]
    chosen = GradientSettings(gamma=0.8, mask_terminal=mask_terminal)
    with jax.enable_x64(True):
        network = make_network(NetworkSettings(hidden=(4,)), 3, 2)
        moving = make_batch(chosen, network, to_transitions(rows), None)
        frozen = make_batch(chosen, network, to_transitions(rows), to_parameters(theta, o.sizes, o.activation))
    np.testing.assert_allclose(moving.discount, [0.8 if i % 2 or not mask_terminal else 0.0 for i in range(ROWS)])
    assert moving.frozen_target is None
    np.testing.assert_allclose(frozen.frozen_target, [reference.bellman_target(o, theta, x) for x in rows], rtol=1e-12)


def test_closed_form_of_another_module_is_refused() -> None:
    module = eqx.nn.MLP(3, 2, 4, depth=1, key=jax.random.key(0))
    network = make_network(NetworkSettings(), 3, 2, module)
    with pytest.raises(InputError, match=r"'closed-form' needs the built-in perceptron.*Use differentiation='auto'"):
        make_gradients(GradientSettings(differentiation="closed-form"), network)


# The loss


@given(error=st.floats(-20, 20), delta=st.floats(0.05, 5))
def test_slope_of_the_loss_is_its_derivative(error: float, delta: float) -> None:
    h = 1e-6
    with jax.enable_x64(True):
        for chosen in (GradientSettings(), GradientSettings(loss="huber", huber_delta=delta)):
            above, below = (float(loss_of(chosen, jnp.asarray(error + step))) for step in (h, -h))
            # Within h of Huber's kink the quotient lies between the slopes on its sides, which differ by up to 2h.
            assert float(loss_slope(chosen, jnp.asarray(error))) == pytest.approx((above - below) / (2 * h), abs=2e-6)


@given(delta=st.floats(0.05, 5), beyond=st.floats(0, 10), inside=st.floats(0, 1))
def test_hubers_loss_is_the_square_and_then_its_tangent(delta: float, beyond: float, inside: float) -> None:
    chosen = GradientSettings(loss="huber", huber_delta=delta)
    with jax.enable_x64(True):
        for sign in (-1, 1):
            near, far = jnp.asarray(sign * inside * delta), jnp.asarray(sign * (delta + beyond))
            assert float(loss_of(chosen, near)) == pytest.approx((inside * delta) ** 2, rel=1e-12, abs=1e-15)
            assert float(loss_of(chosen, far)) == pytest.approx(delta**2 + 2 * delta * beyond, rel=1e-12)
            assert float(loss_slope(chosen, near)) == pytest.approx(sign * 2 * inside * delta, rel=1e-12, abs=1e-15)
            assert float(loss_slope(chosen, far)) == pytest.approx(sign * 2 * delta, rel=1e-12)
