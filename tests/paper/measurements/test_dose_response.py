"""The errors of a dose's estimates against the reference, beside the rewards of the same run."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest

import reference
from measured import watched
from srgdqn.paper.measurements import dose_response
from srgdqn.paper.measurements.dose_response import Plan
from srgdqn.paper.measurements.recorded import batch_at
from tiny import HIDDEN, tiny
from translation import CLOSE, flat, from_packed, from_transitions, mean_gradient, options_of

pytestmark = pytest.mark.usefixtures("double")

SIZES = (4, HIDDEN, 2)
ROUNDS, INNER = 3, 8
STEPS = {48: 2, 190: 11}  # and the numbers of their blocks


def plan(**options: Any) -> Plan:
    usual = dict(rounds=ROUNDS, inner_iterations=INNER, reward_scale=0.5, eta=0.01, alpha=0.01)
    return Plan(tiny(**{**usual, **options})[0], tuple(STEPS))


@pytest.mark.parametrize("coefficient", [0.5, 1.0])
def test_the_error_is_the_mean_distance_of_estimates_from_the_exact_gradient(coefficient: float) -> None:
    """At every fourth inner iteration: 4 and 8."""
    run, tables = watched(dose_response, plan(coefficient=coefficient))
    o = options_of(run.configuration, SIZES)
    assert o.coefficient == coefficient
    again = jax.jit(lambda rows, number, block: batch_at(run.configuration, run.network, rows, number, block, 2))
    expected = []
    for number in range(ROUNDS):
        everything = from_packed(run.recording[number])
        for position, block in enumerate(STEPS.values()):
            batch, picks = again(run.recording[number], np.uint32(number), jnp.int32(block))
            theta = jax.tree.map(lambda leaf, at=(number, position): leaf[at], run.probed[0])
            start = reference.init(o, flat(theta))
            _, told = reference.outer_iteration(
                "srg-dqn", o, start, from_transitions(batch), np.asarray(picks).tolist()
            )
            exact = {m: mean_gradient(o, told.theta[m], everything) for m in (4, 8)}
            errors = [np.linalg.norm(told.delta[m] - exact[m]) for m in (4, 8)]
            norms = [np.linalg.norm(exact[m]) for m in (4, 8)]
            expected.append((number, (block + 1) * 16, np.mean(errors), np.mean(norms)))
    assert tables["errors"].columns == ["round", "step", "error", "norm"]
    for got, wanted in zip(tables["errors"].rows(), expected, strict=True):
        assert got == pytest.approx(wanted, rel=CLOSE)


def test_rewards_and_divergence_are_those_of_the_very_run() -> None:
    run, tables = watched(dose_response, plan(rounds=6, eta=0.5, seed=1))
    curves = run.trained.tables["curves"]
    assert tables["curves"].columns == ["round", "step", "reward"]
    for name in tables["curves"].columns:
        np.testing.assert_array_equal(tables["curves"][name].to_numpy(), np.asarray(curves[name]))
    assert 0 < len(run.finite) < 6
    kept = tables["rounds"].filter(~pl.col("diverged"))["round"].to_list()
    assert tables["rounds"]["round"].to_list() == list(range(6))
    assert kept == run.finite == tables["errors"]["round"].unique().sort().to_list()
    assert tables["errors"]["error"].is_finite().all()
