"""STORM (Cutkosky and Orabona 2019), carried from batch to batch: a momentum that corrects what it remembers.

    Δ = g(θ; D) - (1 - a) (g(θ_before; D) - Δ_before)

θ_before and Δ_before are those of the batch before. Both gradients are on all of the present D. In the first iteration,
and (with reset) where the target network is new, Δ = g(θ; D).
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
    """Nothing to remember: the first iteration uses neither."""
    import jax
    import jax.numpy as jnp

    del work
    return Memory(theta, jax.tree.map(jnp.zeros_like, theta))


def direction(memory: Memory, theta: Parameters, previous: None, query: Query) -> Direction:
    """The recursion across batches."""
    import jax
    import jax.numpy as jnp

    del previous
    first = query.clock.iteration == 0
    anew = first | (query.clock.synchronised & (query.numbers["reset"] > 0.5))
    share = jnp.where(anew, 0.0, 1 - query.numbers["a"])
    gradient = query.on_batch(theta)
    delta = recursion(gradient, share, query.on_batch(memory.theta), memory.delta)
    # 0 times what diverged would not be 0.
    delta = jax.tree.map(lambda g, d: jnp.where(anew, g, d), gradient, delta)
    return Direction(delta, gradient, Memory(theta, delta))


storm = Estimator(
    init=init,
    direction=direction,
    queries=lambda work: 2 * work.batch_size,
    evaluations=lambda work: 2 * work.batch_size,
    numbers=(
        Number("a", 0.1, "Weight of the new gradient; 1 is the plain gradient.", 0, 1),
        Number(
            "reset", 1, "Whether it begins anew where a hard target network is new (1) or not (0).", 0, 1, whole=True
        ),
    ),
    per="batch",
    coefficient=False,
    formula="Δ = g(θ; D) - (1 - a) (g(θ_before; D) - Δ_before), from batch to batch",
    cost="2N",
)
