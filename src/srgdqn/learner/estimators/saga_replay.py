"""SAGA with a table over the replay, carried from batch to batch: for small networks.

    Δ = mean over x in D of g(θ; x) - c k[x] (T[x] - A),    then T[x] = g(θ; x) for all of D

k[x] is 1 where the table has a gradient of x, and A is the mean of all gradients it has. One whose transition has left
the replay is forgotten. The table has as many gradients as the replay has transitions, and A is summed from all of
them, in every outer iteration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from srgdqn.learner.estimator import Direction, Estimator, Work

if TYPE_CHECKING:
    from types import SimpleNamespace

    from jaxtyping import Array, Bool, Int

    from srgdqn.learner.estimator import Query
    from srgdqn.learner.networks import Parameters


class Table(NamedTuple):
    """A gradient for every slot of the replay, and the step that made its transition; 0 where there is none."""

    gradients: Parameters
    made_at: Int[Array, " slots"]


def init(theta: Parameters, work: Work) -> Table:
    """An empty table."""
    import jax
    import jax.numpy as jnp

    gradients = jax.tree.map(lambda leaf: jnp.zeros((work.slots, *leaf.shape), leaf.dtype), theta)
    return Table(gradients, jnp.zeros(work.slots, jnp.int32))


def direction(table: Table, theta: Parameters, previous: None, query: Query) -> Direction:
    """The gradient on D, corrected where the table knows its rows."""
    import jax
    import jax.numpy as jnp

    del previous
    assert query.origin is not None
    slots, c = query.origin.slots, query.numbers["coefficient"]
    mean, held = mean_of(table, query)
    new, known = each_row(theta, query), held[slots]

    def corrected(new: Array, stored: Array, mean: Array) -> Array:
        return (new - c * jnp.where(_beside(known, new), stored[slots] - mean, 0.0)).mean(0)

    delta = jax.tree.map(corrected, new, table.gradients, mean)
    return Direction(delta, jax.tree.map(lambda leaf: leaf.mean(0), new), replaced(table, new, query))


def each_row(theta: Parameters, query: Query) -> Parameters:
    """The gradient of every row of D, stacked."""
    import jax

    gradients: Parameters = jax.vmap(query.dense)(query.on_rows(theta))
    return gradients


def replaced(table: Table, new: Parameters, query: Query) -> Table:
    """The table with new gradients of D's rows."""
    import jax

    assert query.origin is not None
    slots, made_at, *_ = query.origin
    gradients = jax.tree.map(lambda leaf, rows: leaf.at[slots].set(rows), table.gradients, new)
    return Table(gradients, table.made_at.at[slots].set(made_at.astype(table.made_at.dtype)))


def mean_of(table: Table, query: Query) -> tuple[Parameters, Bool[Array, " slots"]]:
    """The mean of the gradients whose transitions can still be drawn from the replay, and which these are."""
    import jax
    import jax.numpy as jnp

    assert query.origin is not None
    held = table.made_at > query.origin.written - query.origin.stored
    count = jnp.maximum(held.sum(), 1)
    mean = jax.tree.map(lambda leaf: jnp.where(_beside(held, leaf), leaf, 0.0).sum(0) / count, table.gradients)
    return mean, held


def problem(options: SimpleNamespace) -> str | None:
    """The table's gradients have no weights, and its mean is over rows that are drawn equally often."""
    if options.sampling != "prioritised":
        return None
    return (
        f"estimator = {options.estimator!r} compares D with a table of the whole replay, but sampling = 'prioritised' "
        "draws and weights some rows of D otherwise. Give sampling = 'with-replacement', or another estimator."
    )


def _beside(rows: Array, leaf: Array) -> Array:
    """One truth for each row of a leaf, with its number of axes."""
    return rows.reshape(-1, *[1] * (leaf.ndim - 1))


saga_replay = Estimator(
    init=init,
    direction=direction,
    queries=lambda work: work.batch_size,
    evaluations=lambda work: work.batch_size,
    per="batch",
    problem=problem,
    formula="Δ = mean over D of g(θ; x) - c (T[x] - mean of T), T over the replay",
    cost="N",
)
