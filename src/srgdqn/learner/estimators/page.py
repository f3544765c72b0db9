"""PAGE (Li et al. 2021), carried from batch to batch: by a coin a large sample's gradient, or the recursion on D.

Δ = the gradient at θ on K·N rows of the replay   with probability p, and in the first iteration
Δ = g(θ; D) - c (g(θ_before; D) - Δ_before)       otherwise
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from srgdqn.learner.estimator import Direction, Estimator, Number, Work, recursion

if TYPE_CHECKING:
    from srgdqn.learner.estimator import Query
    from srgdqn.learner.networks import Parameters


class Memory(NamedTuple):
    """θ and Δ of the batch before."""

    theta: Parameters
    delta: Parameters


def init(theta: Parameters, work: Work) -> Memory:
    """Nothing to remember: the first iteration takes a large sample."""
    import jax
    import jax.numpy as jnp

    del work
    return Memory(theta, jax.tree.map(jnp.zeros_like, theta))


def direction(memory: Memory, theta: Parameters, previous: None, query: Query) -> Direction:
    """A large sample's gradient by a coin, or else the recursion."""
    del previous
    due = (query.coin < query.numbers["refresh"]) | (query.clock.iteration == 0)
    gradient, reference = query.on_batch(theta), query.on_batch(memory.theta)
    delta = recursion(gradient, query.numbers["coefficient"], reference, memory.delta)
    delta = query.where(due, lambda: query.on_replay(theta), delta)
    return Direction(delta, gradient, Memory(theta, delta))


def rows(work: Work) -> int:
    """K·N."""
    return int(work.numbers["anchor_batches"]) * work.batch_size


def _queries(work: Work) -> float:
    p = work.numbers["refresh"]
    return p * rows(work) + (1 - p) * 2 * work.batch_size


page = Estimator(
    init=init,
    direction=direction,
    queries=_queries,
    evaluations=lambda work: work.numbers["refresh"] * rows(work) + 2 * work.batch_size,
    numbers=(
        Number("refresh", 1 / 16, "Probability p of a large sample.", 0, 1),
        Number("anchor_batches", 16, "K: a large sample has K·N rows of the replay.", 1, 10_000, size=True),
    ),
    coins=True,
    per="batch",
    replay_rows=rows,
    formula="Δ = the gradient on K·N rows by a coin, else g(θ; D) - c (g(θ_before; D) - Δ_before)",
    cost="pKN + (1 - p) 2N",
)
