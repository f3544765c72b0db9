"""The full gradient on D at every inner iteration: what the others estimate, at N queries each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srgdqn.learner.estimator import Direction, Estimator, Work

if TYPE_CHECKING:
    from srgdqn.learner.estimator import Query
    from srgdqn.learner.networks import Parameters


def direction(state: None, theta: Parameters, previous: Parameters, query: Query) -> Direction:
    """∇F_D(θ_m)."""
    del previous
    gradient = query.on_batch(theta)
    return Direction(gradient, gradient, state)


def _whole_batch(work: Work) -> int:
    return work.inner_iterations * work.batch_size


full = Estimator(
    direction=direction,
    queries=_whole_batch,
    evaluations=_whole_batch,
    anchor=False,
    coefficient=False,
    formula="Δ_m = ∇F_D(θ_m), on all of D",
    cost="NM",
)
