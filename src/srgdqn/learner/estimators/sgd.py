"""The plain stochastic gradient: Δ_m = g(θ_m; x_m), the recursion's c = 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srgdqn.learner.estimator import Direction, Estimator, Work

if TYPE_CHECKING:
    from srgdqn.learner.estimator import Query
    from srgdqn.learner.networks import Parameters


def direction(state: None, theta: Parameters, previous: Parameters, query: Query) -> Direction:
    """The gradient on the present pick."""
    del previous
    gradient = query.dense(query.on_present(theta))
    return Direction(gradient, gradient, state)


def _one_gradient(work: Work) -> int:
    return work.inner_iterations * work.inner_batch


sgd = Estimator(
    direction=direction,
    queries=_one_gradient,
    evaluations=_one_gradient,
    anchor=False,
    coefficient=False,
    formula="Δ_m = g(θ_m; x_m)",
    cost="bM",
)
