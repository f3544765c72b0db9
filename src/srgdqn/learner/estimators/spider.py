"""SPIDER (Fang et al. 2018), carried from batch to batch: the recursion, begun anew every q batches, and shortened.

v = the gradient at θ on K·N rows of the replay   in every q-th iteration, the first among them
v = g(θ; D) - c (g(θ_before; D) - v_before)       otherwise
Δ = v min(1, radius / ‖v‖)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from srgdqn.learner.estimator import Direction, Estimator, Number, Work, recursion

if TYPE_CHECKING:
    from srgdqn.learner.estimator import Query
    from srgdqn.learner.networks import Parameters


class Memory(NamedTuple):
    """θ and v of the batch before."""

    theta: Parameters
    v: Parameters


def init(theta: Parameters, work: Work) -> Memory:
    """Nothing to remember: the first iteration takes a large sample."""
    import jax
    import jax.numpy as jnp

    del work
    return Memory(theta, jax.tree.map(jnp.zeros_like, theta))


def direction(memory: Memory, theta: Parameters, previous: None, query: Query) -> Direction:
    """The recursion's direction, shortened to the radius; what is carried on is not shortened."""
    import jax
    import jax.numpy as jnp
    import optax

    del previous
    due = query.clock.iteration % query.numbers["every"] < 1
    gradient, reference = query.on_batch(theta), query.on_batch(memory.theta)
    v = recursion(gradient, query.numbers["coefficient"], reference, memory.v)
    v = query.where(due, lambda: query.on_replay(theta), v)
    factor = jnp.minimum(1.0, query.numbers["radius"] / optax.tree.norm(v))
    return Direction(jax.tree.map(lambda leaf: factor * leaf, v), gradient, Memory(theta, v))


def rows(work: Work) -> int:
    """K·N."""
    return int(work.numbers["anchor_batches"]) * work.batch_size


def _queries(work: Work) -> float:
    share = 1 / work.numbers["every"]
    return share * rows(work) + (1 - share) * 2 * work.batch_size


spider = Estimator(
    init=init,
    direction=direction,
    queries=_queries,
    evaluations=lambda work: rows(work) / work.numbers["every"] + 2 * work.batch_size,
    numbers=(
        Number("every", 16, "q, the iterations from one large sample to the next.", 1),
        Number("radius", 1.0, "Length that the direction is shortened to.", 1e-9),
        Number("anchor_batches", 16, "K: a large sample has K·N rows of the replay.", 1, 10_000, size=True),
    ),
    per="batch",
    replay_rows=rows,
    formula="Δ = the gradient on K·N rows every q batches, else g(θ; D) - c (g(θ_before; D) - v_before), shortened",
    cost="KN / q + (1 - 1/q) 2N",
)
