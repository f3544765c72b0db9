"""PAGE (Li et al. 2021), carried from batch to batch: by a coin a large sample's gradient, or the recursion on D.

Δ = the gradient at θ on K·N rows of the replay   with probability p, and in the first iteration
Δ = g(θ; D) - c (g(θ_before; D) - Δ_before)       otherwise
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from srgdqn.learner.estimator import Direction, Estimator, Number, Work, recursion
from srgdqn.learner.estimators.storm import Memory, init
from srgdqn.learner.estimators.window_svrg import rows

if TYPE_CHECKING:
    from jaxtyping import Array, Bool

    from srgdqn.learner.estimator import Query
    from srgdqn.learner.networks import Parameters


def direction(memory: Memory, theta: Parameters, previous: None, query: Query) -> Direction:
    """A large sample's gradient by a coin, or else the recursion."""
    del previous
    return renewed(memory, theta, query, (query.coin < query.numbers["refresh"]) | (query.clock.iteration == 0))


def renewed(memory: Memory, theta: Parameters, query: Query, due: Bool[Array, ""]) -> Direction:
    """The recursion, begun anew from a large sample where that is due."""
    gradient = query.on_batch(theta)
    delta = recursion(gradient, query.numbers["coefficient"], query.on_batch(memory.theta), memory.delta)
    delta = query.where(due, lambda: query.on_replay(theta), delta)
    return Direction(delta, gradient, Memory(theta, delta))


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
