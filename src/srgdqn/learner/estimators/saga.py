"""SAGA (Defazio, Bach and Lacoste-Julien 2014): a table has every row's last gradient.

    Δ_m = g(θ_m; x_m) - c (T[x_m] - A),    A = the mean of T,    then T[x_m] = g(θ_m; x_m)

The table is over D, and begins at θ_0, where its mean is Δ_0. Of its entries only those of x_1 … x_M are ever read:
they alone are stored, one for every pick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from srgdqn.learner.estimator import Direction, Estimator, recursion

if TYPE_CHECKING:
    from jaxtyping import Array

    from srgdqn.learner.estimator import Query
    from srgdqn.learner.gradients import Compact
    from srgdqn.learner.networks import Parameters


class Table(NamedTuple):
    """T[x_1] … T[x_M], with each row's last gradient for itself, and the mean of all of T."""

    gradients: Compact
    mean: Parameters


def begin(memory: None, theta: Parameters, anchor: Parameters, query: Query) -> Table:
    """The gradients at θ_0."""
    del memory
    return Table(query.on_each_pick(theta), anchor)


def direction(table: Table, theta: Parameters, previous: Parameters, query: Query) -> Direction:
    """The present gradient, less what the table has for its rows, plus the table's mean."""
    del previous
    gradient, stored, after = looked_up(table, theta, query)
    return Direction(recursion(gradient, query.numbers["coefficient"], stored, table.mean), gradient, after)


def looked_up(table: Table, theta: Parameters, query: Query) -> tuple[Parameters, Parameters, Table]:
    """The gradient on the present pick, what the table has for its rows (both means over them), and the table with the
    new gradients in place of the old.
    """
    import jax
    import jax.numpy as jnp

    rows, b = query.present_rows, query.picked.shape[1]
    new = query.on_each_present(theta)
    old = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, (query.m - 1) * b, b), table.gradients)
    news, olds = jax.vmap(query.dense)(new), jax.vmap(query.dense)(old)
    # A row that is picked twice at once moves the mean once.
    first = jnp.argmax(rows[:, None] == rows[None, :], axis=1) == jnp.arange(b)
    count = query.batch.reward.shape[0]

    def moved(mean: Parameters, new: Parameters, old: Parameters) -> Parameters:
        return mean + jnp.tensordot(first.astype(mean.dtype), new - old, axes=1) / count

    same = query.picked.reshape(-1, 1) == rows
    which = jnp.argmax(same, axis=1)

    def replaced(leaf: Array, new: Array) -> Array:
        again = same.any(1).reshape(-1, *[1] * (leaf.ndim - 1))
        return jnp.where(again, new if b == 1 else new[which], leaf)

    after = Table(jax.tree.map(replaced, table.gradients, new), jax.tree.map(moved, table.mean, news, olds))
    mean_news, mean_olds = (jax.tree.map(lambda leaf: leaf.mean(0), each) for each in (news, olds))
    return mean_news, mean_olds, after


saga = Estimator(
    begin=begin,
    direction=direction,
    # The table's gradients at θ_0 are those of Δ_0: asked for once, and evaluated twice where they are read.
    queries=lambda work: work.inner_iterations * work.inner_batch,
    evaluations=lambda work: 2 * work.inner_iterations * work.inner_batch,
    formula="Δ_m = g(θ_m; x_m) - c (T[x_m] - mean of T), T over D",
    cost="bM",
)
