"""The stochastic recursive gradient (SARAH; Nguyen et al. 2017), which SRG-DQN descends along.

    Δ_m = g(θ_m; x_m) - c (g(θ_{m-1}; x_m) - Δ_{m-1})          (line 13 of Algorithm 1, with c = 1)

The anchor is the previous direction, so it moves with θ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from srgdqn.learner.estimator import Direction, Estimator, Work, recursion

if TYPE_CHECKING:
    from srgdqn.learner.estimator import Query
    from srgdqn.learner.gradients import Compact
    from srgdqn.learner.networks import Parameters


def begin(memory: None, theta: Parameters, anchor: Parameters, query: Query) -> Compact:
    """g(θ_0; x_1), the reference of the first inner iteration."""
    del memory, anchor
    return query.on_next(theta)


def direction(reference: Compact, theta: Parameters, previous: Parameters, query: Query) -> Direction:
    """Line 13. Asks at θ_m for the present pick and for the next: the latter is the next iteration's reference."""
    present, upcoming = query.on_present_and_next(theta)
    gradient = query.dense(present)
    delta = recursion(gradient, query.numbers["coefficient"], query.dense(reference), previous)
    return Direction(delta, gradient, upcoming)


def _evaluations(work: Work) -> int:
    # g(θ_0; x_1), then a pair at each of θ_1 … θ_M; the last pair's second gradient has no iteration left to serve.
    return (2 * work.inner_iterations + 1) * work.inner_batch


srg = Estimator(
    begin=begin,
    direction=direction,
    queries=lambda work: 2 * work.inner_iterations * work.inner_batch,
    evaluations=_evaluations,
    formula="Δ_m = g(θ_m; x_m) - c (g(θ_{m-1}; x_m) - Δ_{m-1})",
    cost="2bM",
    reference="previous",
)
