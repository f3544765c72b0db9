"""The sum that a table over the replay carries along, beside a dictionary's, over many turns of the replay."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from srgdqn.learner.estimator import Origin, Work
from srgdqn.learner.estimators.saga_replay import Table, init, looked_up, mean_of, replaced
from srgdqn.learner.seldom import where_due

ROWS = 6


@jax.jit
@jax.vmap
def exchanged(table: Table, origin: Origin, new: Any) -> tuple[Table, Any, Any, Any]:
    """One iteration of each lane: the table after it, the mean before it, and what it had of D."""
    query: Any = SimpleNamespace(origin=origin, where=where_due)
    table, old, known = looked_up(table, query)
    return replaced(table, new, old, query), mean_of(table), old, known


@pytest.mark.parametrize(
    ("block", "capacity", "length"),
    [(4, 30, 32), (16, 60, 64)],
    ids=["fewer leave at once than D has rows", "more leave at once"],
)
def test_the_sum_is_that_of_all_that_can_be_drawn(block: int, capacity: int, length: int) -> None:
    rng = np.random.default_rng(0)
    tables: Any = jax.vmap(lambda _: init(jnp.zeros(3), Work(ROWS, 1, 1, length)))(jnp.arange(2))
    by_step: list[dict[int, np.ndarray]] = [{}, {}]
    earlier = 0
    for s in range(300):
        if s == 200:  # the replay is emptied, and its ring begins anew
            earlier = s * block
        written, stored = (s + 1) * block, min((s + 1) * block - earlier, capacity)
        steps = written - rng.integers(0, stored, (2, ROWS))
        # The gradient of a transition that D has twice is the same.
        new = (1.0 + rng.normal(size=(2, 1, 3)) * np.cos(steps)[:, :, None]).astype(np.float32)
        origin = Origin(
            jnp.asarray((steps - 1 - earlier) % length),
            jnp.asarray(steps),
            jnp.full(2, written),
            jnp.full(2, stored),
        )
        tables, means, olds, knowns = exchanged(tables, origin, jnp.asarray(new))
        for lane, held in enumerate(by_step):
            for step in [step for step in held if step <= written - stored]:
                del held[step]
            expected = np.mean(list(held.values()), axis=0) if held else np.zeros(3)
            np.testing.assert_allclose(means[lane], expected, atol=2e-6)
            assert knowns[lane].tolist() == [step in held for step in steps[lane].tolist()]
            nothing = np.zeros(3)
            np.testing.assert_array_equal(olds[lane], [held.get(step, nothing) for step in steps[lane].tolist()])
            held.update(zip(steps[lane].tolist(), new[lane], strict=True))
    assert (steps[:, :, None] == steps[:, None, :]).sum() > steps.size  # some were drawn twice


def test_what_is_not_finite_is_not_stored() -> None:
    table: Any = jax.tree.map(lambda leaf: leaf[None], init(jnp.zeros(3), Work(ROWS, 1, 1, 8)))
    steps = jnp.arange(1, ROWS + 1)[None]
    origin = Origin(steps - 1, steps, jnp.full(1, ROWS), jnp.full(1, ROWS))
    table, *_ = exchanged(table, origin, jnp.ones((1, ROWS, 3)))
    after, *_ = exchanged(table, origin, jnp.full((1, ROWS, 3), jnp.inf))
    np.testing.assert_array_equal(after.gradients, table.gradients)
