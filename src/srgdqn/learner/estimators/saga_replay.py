"""SAGA with a table over the replay, carried from batch to batch: for small networks.

    Δ = mean over x in D of g(θ; x) - c k[x] (T[x] - A),    then T[x] = g(θ; x) for all of D

k[x] is 1 where the table has a gradient of x, and A is the mean of all gradients it has. One whose transition has left
the replay is forgotten. The table has as many gradients as the replay has transitions. Their sum is carried along: what
D replaces and what is forgotten changes it. It is taken anew once in every turn of the replay, so that rounding errors
do not add up for longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from srgdqn.learner.estimator import Direction, Estimator, Work

if TYPE_CHECKING:
    from types import SimpleNamespace

    from jaxtyping import Array, Bool, Float, Int

    from srgdqn.learner.estimator import Query
    from srgdqn.learner.networks import Parameters


class Table(NamedTuple):
    """A gradient, as one row, for every slot of the replay, and the step that made its transition (0 where there is
    none); and the sum of those made after step `forgotten`.
    """

    gradients: Float[Array, "slots parameters"]
    made_at: Int[Array, " slots"]
    total: Float[Array, " parameters"]
    forgotten: Int[Array, ""]


def init(theta: Parameters, work: Work) -> Table:
    """An empty table."""
    import jax.numpy as jnp
    from jax.flatten_util import ravel_pytree

    nothing = jnp.zeros_like(ravel_pytree(theta)[0])
    gradients = jnp.zeros((work.slots, len(nothing)), nothing.dtype)
    return Table(gradients, jnp.zeros(work.slots, jnp.int32), nothing, jnp.zeros((), jnp.int32))


def direction(table: Table, theta: Parameters, previous: None, query: Query) -> Direction:
    """The gradient on D, corrected where the table knows its rows."""
    from jax.flatten_util import ravel_pytree

    del previous
    table, old, known = looked_up(table, query)
    new, c = each_row(theta, query), query.numbers["coefficient"]
    delta = (new - c * known[:, None] * (old - mean_of(table))).mean(0)
    back = ravel_pytree(theta)[1]
    return Direction(back(delta), back(new.mean(0)), replaced(table, new, old, query))


def each_row(theta: Parameters, query: Query) -> Float[Array, "rows parameters"]:
    """The gradient of every row of D."""
    import jax
    from jax.flatten_util import ravel_pytree

    return jax.vmap(lambda row: ravel_pytree(query.dense(row))[0])(query.on_rows(theta))


def mean_of(table: Table) -> Float[Array, " parameters"]:
    """The mean of all gradients that the table has."""
    import jax.numpy as jnp

    return table.total / jnp.maximum((table.made_at > table.forgotten).sum(), 1)


def replaced(table: Table, new: Array, old: Array, query: Query) -> Table:
    """The table with new gradients of D's rows, if all are finite; one that D has twice moves the sum once."""
    import jax.numpy as jnp

    assert query.origin is not None
    slots, made_at, *_ = query.origin
    rows = jnp.arange(len(slots))
    once = jnp.zeros(len(table.made_at), rows.dtype).at[slots].set(rows)[slots] == rows
    total = table.total + (once[:, None] * (new - old)).sum(0)
    # Where to write hangs on all that is read, or XLA, which orders them by nothing else, would copy the table.
    at = jnp.where(jnp.isfinite(total).all(), slots, len(table.made_at))
    return table._replace(
        gradients=table.gradients.at[at].set(new, mode="drop"),
        made_at=table.made_at.at[at].set(made_at.astype(table.made_at.dtype), mode="drop"),
        total=total,
    )


def looked_up(table: Table, query: Query) -> tuple[Table, Float[Array, "rows parameters"], Bool[Array, " rows"]]:
    """The table without what has left the replay, its gradients of D's rows (0 where it has none), and of which it has
    one.
    """
    import jax.numpy as jnp

    assert query.origin is not None
    slots, made_at, written, within = query.origin
    oldest, length = (written - within).astype(table.forgotten.dtype), len(table.made_at)
    # Of what has left: what as many steps made as D has rows. The ring has them in order.
    steps = table.forgotten + 1 + jnp.arange(len(slots))
    at = (slots[0] + steps - made_at[0]) % length
    lost = (table.made_at[at] == steps) & (steps <= oldest)
    more = ((table.made_at > table.forgotten) & (table.made_at <= oldest)).sum() > lost.sum()
    due = more | (oldest // length > table.forgotten // length)

    def summed() -> Array:
        return jnp.where((table.made_at > oldest)[:, None], table.gradients, 0.0).sum(0)

    total = query.where(due, summed, table.total - (lost[:, None] * table.gradients[at]).sum(0))
    known = table.made_at[slots] == made_at
    old = jnp.where(known[:, None], table.gradients[slots], 0.0)
    return table._replace(total=total, forgotten=oldest), old, known


def problem(options: SimpleNamespace) -> str | None:
    """The table's gradients have no weights, and its mean is over rows that are drawn equally often."""
    if options.sampling != "prioritised":
        return None
    return (
        f"estimator = {options.estimator!r} compares D with a table of the whole replay, but sampling = 'prioritised' "
        "draws and weights some rows of D otherwise. Give sampling = 'with-replacement', or another estimator."
    )


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
