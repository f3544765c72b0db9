"""SPIDER (Fang et al. 2018), carried from batch to batch: the recursion, begun anew every q batches, and shortened.

v = the gradient at θ on K·N rows of the replay   in every q-th iteration, the first among them
v = g(θ; D) - c (g(θ_before; D) - v_before)       otherwise
Δ = v min(1, radius / ‖v‖)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from srgdqn.learner.estimator import Direction, Estimator, Number, Work
from srgdqn.learner.estimators.page import renewed
from srgdqn.learner.estimators.storm import Memory, init
from srgdqn.learner.estimators.window_svrg import rows

if TYPE_CHECKING:
    from srgdqn.learner.estimator import Query
    from srgdqn.learner.networks import Parameters


def direction(memory: Memory, theta: Parameters, previous: None, query: Query) -> Direction:
    """The recursion's direction, shortened to the radius; what is carried on is not shortened."""
    import jax
    import jax.numpy as jnp
    import optax

    del previous
    made = renewed(memory, theta, query, query.clock.iteration % query.numbers["every"] < 1)
    factor = jnp.minimum(1.0, query.numbers["radius"] / optax.tree.norm(made.delta))
    return made._replace(delta=jax.tree.map(lambda leaf: factor * leaf, made.delta))


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
