"""SAG with a table over the replay, carried from batch to batch: for small networks.

    T[x] = g(θ; x) for all x in D,    Δ = the mean of all gradients that the table has

The table is that of `saga_replay`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from srgdqn.learner.estimator import Direction
from srgdqn.learner.estimators.saga_replay import Table, each_row, looked_up, mean_of, replaced, saga_replay

if TYPE_CHECKING:
    from srgdqn.learner.estimator import Query
    from srgdqn.learner.networks import Parameters


def direction(table: Table, theta: Parameters, previous: None, query: Query) -> Direction:
    """The table's mean, with the gradients of D in it."""
    from jax.flatten_util import ravel_pytree

    del previous
    table, old, _ = looked_up(table, query)
    new, back = each_row(theta, query), ravel_pytree(theta)[1]
    after = replaced(table, new, old, query)
    return Direction(back(mean_of(after)), back(new.mean(0)), after)


sag_replay = saga_replay._replace(
    direction=direction,
    coefficient=False,
    formula="Δ = the mean of T over the replay, after T[x] = g(θ; x) for all x in D",
)
