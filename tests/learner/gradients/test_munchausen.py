"""Munchausen DQN's two terms against the definition in decimal arithmetic, also where exponentials would overflow. The
outer iterations with it are compared with the plain program in `test_outer_iteration`.
"""

from __future__ import annotations

import dataclasses
import math
from decimal import Decimal, localcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srgdqn.config import GradientSettings
from srgdqn.learner.gradients.munchausen import log_policy_bonus, soft_value

SETTINGS = GradientSettings(
    bootstrap="munchausen", munchausen_share=0.7, munchausen_temperature=0.03, munchausen_floor=-1.0
)


def defined(q: list[float], action: int, temperature: float, floor: float) -> tuple[float, float]:
    """α_M clip(τ log π(A)) and Σ π (Q - τ log π), from π itself, with hundreds of digits."""
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 400, 10**12, -(10**12)
        tau, values = Decimal(temperature), [Decimal(value) for value in q]
        raised = [(value / tau).exp() for value in values]
        policy = [each / sum(raised) for each in raised]
        logs = [tau * each.ln() for each in policy]
        added = Decimal("0.7") * max(logs[action], Decimal(floor))
        return float(added), float(sum(p * (v - log) for p, v, log in zip(policy, values, logs, strict=True)))


@given(
    q=st.lists(st.floats(-50, 50), min_size=1, max_size=4),
    temperature=st.sampled_from([0.03, 0.5, 20.0]),
    floor=st.floats(-30, 0),
    data=st.data(),
)
def test_both_terms_are_the_definitions(q: list[float], temperature: float, floor: float, data: st.DataObject) -> None:
    action = data.draw(st.integers(0, len(q) - 1))
    chosen = dataclasses.replace(SETTINGS, munchausen_temperature=temperature, munchausen_floor=floor)
    with jax.enable_x64(True):
        row = jnp.asarray([q])
        found = float(log_policy_bonus(chosen, row, jnp.asarray([action]))[0]), float(soft_value(chosen, row)[0])
    assert found == pytest.approx(defined(q, action, temperature, floor), rel=1e-12, abs=1e-11)


@pytest.mark.parametrize("temperature", [1e-37, 1e-6, 1.0, 1e6])
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e6, 1e30])
def test_single_precision_neither_overflows_nor_loses_the_value(temperature: float, scale: float) -> None:
    q = scale * np.array([[-1.0, 0.5, 1.0], [1.0, 1.0, 1.0]], np.float32)
    chosen = dataclasses.replace(SETTINGS, munchausen_temperature=temperature)
    value = np.asarray(soft_value(chosen, jnp.asarray(q)), np.float64)
    assert (value >= q.max(-1)).all()
    assert (value <= q.max(-1) * (1 + 1e-6) + temperature * math.log(3) * (1 + 1e-6)).all()
    np.testing.assert_allclose(value[1], scale + temperature * math.log(3), rtol=1e-6)
    for action in range(3):
        added = np.asarray(log_policy_bonus(chosen, jnp.asarray(q), jnp.full(2, action)))
        assert ((added >= -0.7 * (1 + 1e-6)) & (added <= 0)).all()


def test_cold_it_is_the_maximum_and_the_gap() -> None:
    """As τ falls to 0, τ log π(A|S) goes to Q(S, A) - max Q(S, ·): advantage learning."""
    chosen = dataclasses.replace(SETTINGS, munchausen_temperature=1e-9)
    q = jnp.asarray([[1.0, 1.5, -4.0]] * 3)
    np.testing.assert_allclose(soft_value(chosen, q), 1.5, rtol=1e-6)
    np.testing.assert_allclose(log_policy_bonus(chosen, q, jnp.arange(3)), [-0.35, 0.0, -0.7], rtol=1e-6)
