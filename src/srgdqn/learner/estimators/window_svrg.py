"""SVRG whose anchor lasts as long as a target network stands still.

    Δ = g(θ; D) - c (g(θ_ref; D) - A),    A = the gradient at θ_ref on K·N rows of the replay

θ_ref is the θ at which the target network was last copied: within that window F does not change, and its anchor is a
large sample's gradient that many batches share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from srgdqn.learner.estimator import Direction, Estimator, Number, Work, recursion

if TYPE_CHECKING:
    from types import SimpleNamespace

    from srgdqn.learner.estimator import Query
    from srgdqn.learner.networks import Parameters


class Memory(NamedTuple):
    """θ_ref, and the anchor A."""

    point: Parameters
    anchor: Parameters


def init(theta: Parameters, work: Work) -> Memory:
    """The first iteration begins a window."""
    import jax
    import jax.numpy as jnp

    del work
    return Memory(theta, jax.tree.map(jnp.zeros_like, theta))


def direction(memory: Memory, theta: Parameters, previous: None, query: Query) -> Direction:
    """SVRG's direction with the window's anchor."""
    del previous
    memory = query.where(query.clock.synchronised, lambda: Memory(theta, query.on_replay(theta)), memory)
    gradient, reference = query.on_batch(theta), query.on_batch(memory.point)
    delta = recursion(gradient, query.numbers["coefficient"], reference, memory.anchor)
    return Direction(delta, gradient, memory)


def problem(options: SimpleNamespace) -> str | None:
    """Without a hard target there are no windows."""
    if options.target == "hard":
        return None
    return (
        f"estimator = 'window_svrg' renews its anchor where a hard target network is copied, but target = "
        f"{options.target!r}. Give target = 'hard', or another estimator."
    )


def rows(work: Work) -> int:
    """K·N."""
    return int(work.numbers["anchor_batches"]) * work.batch_size


def _gradients(work: Work) -> float:
    return 2 * work.batch_size + (0 if work.window is None else rows(work) / work.window)


window_svrg = Estimator(
    init=init,
    direction=direction,
    queries=_gradients,
    evaluations=_gradients,
    numbers=(Number("anchor_batches", 16, "K: the anchor is on K·N rows of the replay.", 1, 10_000, size=True),),
    per="batch",
    replay_rows=rows,
    problem=problem,
    formula="Δ = g(θ; D) - c (g(θ_ref; D) - A), A on K·N rows of the replay, renewed with the target",
    cost="2N + KN / target_period",
    reference=None,
)
