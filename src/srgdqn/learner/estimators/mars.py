"""MARS (Yuan et al. 2024), carried from batch to batch: a gradient corrected by its own change, for Adam.

    Δ = g(θ; D) + w (g(θ; D) - g(θ_before; D)),    shortened to the length `longest`

θ_before is that of the batch before. It is the recursion with the present gradient for its anchor A. In the words of
its authors w = γ β1 / (1 - β1): 0.025 · 0.9 / 0.1 by default. Δ enters both of Adam's moments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from srgdqn.learner.estimator import Direction, Estimator, Number, Work, recursion

if TYPE_CHECKING:
    from srgdqn.learner.estimator import Query
    from srgdqn.learner.networks import Parameters


def init(theta: Parameters, work: Work) -> Parameters:
    """θ_before; in the first iteration θ itself, so that there is no change."""
    del work
    return theta


def direction(before: Parameters, theta: Parameters, previous: None, query: Query) -> Direction:
    """The corrected gradient, shortened."""
    import jax
    import jax.numpy as jnp
    import optax

    del previous
    gradient = query.on_batch(theta)
    corrected = recursion(gradient, query.numbers["weight"], query.on_batch(before), gradient)
    factor = jnp.minimum(1.0, query.numbers["longest"] / optax.tree.norm(corrected))
    return Direction(jax.tree.map(lambda leaf: factor * leaf, corrected), gradient, theta)


mars = Estimator(
    init=init,
    direction=direction,
    queries=lambda work: 2 * work.batch_size,
    evaluations=lambda work: 2 * work.batch_size,
    numbers=(
        Number("weight", 0.225, "w, the weight of the gradient's change.", 0),
        Number("longest", 1.0, "Length that the corrected gradient is shortened to.", 1e-9),
    ),
    per="batch",
    coefficient=False,
    formula="Δ = g(θ; D) + w (g(θ; D) - g(θ_before; D)), shortened",
    cost="2N",
)
