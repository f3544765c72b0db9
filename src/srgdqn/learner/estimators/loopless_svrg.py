"""Loopless SVRG (Hofmann et al. 2015; Kovalev, Horváth and Richtárik 2020): the reference point is renewed by a coin.

    Δ_m = g(θ_m; x_m) - c (g(θ_ref; x_m) - ∇F_D(θ_ref)),    then θ_ref = θ_m with probability p

Within D it begins as SVRG does, at θ_0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from srgdqn.learner.estimator import Direction, Estimator, Number, Work, recursion

if TYPE_CHECKING:
    from srgdqn.learner.estimator import Query
    from srgdqn.learner.networks import Parameters


class State(NamedTuple):
    """θ_ref, and the anchor ∇F_D(θ_ref)."""

    point: Parameters
    anchor: Parameters


def begin(memory: None, theta: Parameters, anchor: Parameters, query: Query) -> State:
    """The first reference point is θ_0, with Δ_0 for its anchor."""
    del memory, query
    return State(theta, anchor)


def direction(state: State, theta: Parameters, previous: Parameters, query: Query) -> Direction:
    """SVRG's direction at the present reference point, which then moves to θ_m or stays."""
    del previous
    gradient = query.dense(query.on_present(theta))
    reference = query.dense(query.on_present(state.point))
    delta = recursion(gradient, query.numbers["coefficient"], reference, state.anchor)
    renewed = query.coin < query.numbers["refresh"]
    state = query.where(renewed, lambda: State(theta, query.on_batch(theta)), state)
    return Direction(delta, gradient, state)


def _gradients(work: Work) -> float:
    return work.inner_iterations * (2 * work.inner_batch + work.numbers["refresh"] * work.batch_size)


loopless_svrg = Estimator(
    begin=begin,
    direction=direction,
    queries=_gradients,
    evaluations=_gradients,
    numbers=(Number("refresh", 1 / 16, "Probability p that the anchor is computed anew.", 0, 1),),
    coins=True,
    formula="Δ_m = g(θ_m; x_m) - c (g(θ_ref; x_m) - ∇F_D(θ_ref)), θ_ref = θ_m by a coin",
    cost="M (2b + pN)",
)
