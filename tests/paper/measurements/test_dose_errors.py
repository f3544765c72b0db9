"""The errors of doses against the reference: every dose from the same θ_0 and D, along the same redrawn picks."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest

import reference
from measured import watched
from srgdqn.paper.measurements import dose_errors
from srgdqn.paper.measurements.dose_errors import Plan, dosed, errors_of
from srgdqn.paper.measurements.recorded import RecordedRun, batch_at
from tiny import HIDDEN, tiny
from translation import CLOSE, flat, from_transitions, mean_gradient, options_of

pytestmark = pytest.mark.usefixtures("double")

SIZES = (4, HIDDEN, 2)
ROUNDS, REDRAWS = 2, 3
STEPS = {48: 2, 190: 11}  # and the numbers of their blocks
DOSES = ((0.0, 1), (0.5, 4), (1.0, 1), (1.0, 64))


def plan(**options: Any) -> Plan:
    usual = dict(rounds=ROUNDS, inner_iterations=5, reward_scale=0.5, eta=0.01, alpha=0.01)
    return Plan(tiny("sgd-inner-adam", **{**usual, **options})[0], tuple(STEPS), DOSES, REDRAWS)


def expected(run: RecordedRun, number: int, position: int, block: int, dose: dose_errors.Dose) -> tuple[float, float]:
    """The sums of a dose by the reference."""
    configuration = dosed(run.configuration, dose)
    o = options_of(configuration, SIZES)
    assert (o.coefficient, configuration.estimator.inner_batch) == dose
    drawn, _ = batch_at(run.configuration, run.network, run.recording[number], jnp.uint32(number), jnp.int32(block), 2)
    theta, target = jax.tree.map(lambda leaf: leaf[number, position], (run.probed[0], run.probed[2]))
    start = reference.init(o, flat(theta))
    if target is not None:
        start = start._replace(target=flat(target))
    root = jax.random.key(run.configuration.training.seed)
    key = jax.random.fold_in(jax.random.fold_in(root, number), block)
    picks = jax.random.randint(key, (REDRAWS, 5, dose[1]), 0, configuration.replay.batch_size)
    batch, errors, norms = from_transitions(drawn), 0.0, 0.0
    for chosen in np.asarray(picks):
        _, told = reference.outer_iteration("srg-dqn-no-adam", o, start, batch, chosen.tolist())
        for m in range(1, 6):
            frozen = {} if o.target == "current" else {"frozen": flat(theta) if target is None else flat(target)}
            whole = mean_gradient(o, told.theta[m], batch, **frozen)
            errors += np.sum((told.delta[m] - whole) ** 2)
            norms += np.sum(whole**2)
    return errors, norms


@pytest.mark.parametrize("target", ["current", "outer", "hard"])
def test_errors_are_those_of_the_reference(target: str) -> None:
    run, tables = watched(dose_errors, plan(target=target))
    rows = iter(tables["errors"].rows())
    for number in range(ROUNDS):
        for position, block in enumerate(STEPS.values()):
            for dose in DOSES:
                wanted = (number, (block + 1) * 16, *dose, *expected(run, number, position, block, dose))
                assert next(rows) == pytest.approx(wanted, rel=CLOSE)
    assert next(rows, None) is None
    assert tables["rounds"].row(0) == (ROUNDS, 0)


def test_a_batch_as_large_as_d_is_no_more_exact_than_its_picks() -> None:
    """Along plain gradients the error of b picks with replacement is that of one, divided by b: here in the mean."""
    many = Plan(plan().configuration, (48, 190), ((0.0, 1), (0.0, 16)), 400)
    _, tables = watched(dose_errors, many)
    found = errors_of(tables["errors"])
    assert found[0.0, 1] / found[0.0, 16] == pytest.approx(16, rel=0.15)


def test_the_error_is_a_ratio_of_sums() -> None:
    table = pl.DataFrame(
        {"c": [0.0, 0.0, 1.0], "b": [1, 1, 4], "error": [1.0, 3.0, 5.0], "norm": [2.0, 6.0, 2.0], "round": [0, 1, 0]}
    )
    assert errors_of(table) == {(0.0, 1): 0.5, (1.0, 4): 2.5}
