"""Loopless SARAH (Li, Ma and Giannakis 2019): the recursion, begun anew by a coin.

Δ_m = ∇F_D(θ_m)                                    with probability p
Δ_m = g(θ_m; x_m) - c (g(θ_{m-1}; x_m) - Δ_{m-1})  otherwise
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from srgdqn.learner.estimator import Direction, Estimator, Number, Work, recursion

if TYPE_CHECKING:
    from srgdqn.learner.estimator import Query
    from srgdqn.learner.networks import Parameters


def begin(memory: None, theta: Parameters, anchor: Parameters, query: Query) -> Parameters:
    """The state is θ_{m-1}."""
    del memory, anchor, query
    return theta


def direction(before: Parameters, theta: Parameters, previous: Parameters, query: Query) -> Direction:
    """The full gradient, or the recursion."""
    gradient = query.dense(query.on_present(theta))
    reference = query.dense(query.on_present(before))
    delta = recursion(gradient, query.numbers["coefficient"], reference, previous)
    renewed = query.coin < query.numbers["refresh"]
    return Direction(query.where(renewed, lambda: query.on_batch(theta), delta), gradient, theta)


def _queries(work: Work) -> float:
    p = work.numbers["refresh"]
    return work.inner_iterations * (p * work.batch_size + (1 - p) * 2 * work.inner_batch)


def _evaluations(work: Work) -> float:
    return work.inner_iterations * (work.numbers["refresh"] * work.batch_size + 2 * work.inner_batch)


loopless_sarah = Estimator(
    begin=begin,
    direction=direction,
    queries=_queries,
    evaluations=_evaluations,
    numbers=(Number("refresh", 1 / 16, "Probability p that the recursion begins anew.", 0, 1),),
    coins=True,
    formula="Δ_m = ∇F_D(θ_m) by a coin, else g(θ_m; x_m) - c (g(θ_{m-1}; x_m) - Δ_{m-1})",
    cost="M (pN + (1 - p) 2b)",
    reference="previous",
)
