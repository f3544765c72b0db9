"""The stochastic variance-reduced gradient (Johnson and Zhang 2013), which SVR-DQN descends along.

    Δ_m = g(θ_m; x_m) - c (g(θ_0; x_m) - Δ_0)

The anchor stays at the start of the outer iteration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from srgdqn.learner.estimator import Direction, Estimator, Work, recursion

if TYPE_CHECKING:
    from srgdqn.learner.estimator import Query
    from srgdqn.learner.gradients import Compact
    from srgdqn.learner.networks import Parameters


class State(NamedTuple):
    """The anchor Δ_0, and the reference gradients g(θ_0; x_1) … g(θ_0; x_M)."""

    anchor: Parameters
    references: Compact


def begin(memory: None, theta: Parameters, anchor: Parameters, query: Query) -> State:
    """Asks for all M reference gradients at once: they share θ_0."""
    del memory
    return State(anchor, query.on_every_pick(theta))


def direction(state: State, theta: Parameters, previous: Parameters, query: Query) -> Direction:
    """The paper's Δ = g_m - g_0 + g̃."""
    del previous
    gradient = query.dense(query.on_present(theta))
    reference = query.dense(query.present_of(state.references))
    return Direction(recursion(gradient, query.numbers["coefficient"], reference, state.anchor), gradient, state)


def _both_gradients(work: Work) -> int:
    return 2 * work.inner_iterations * work.inner_batch


svrg = Estimator(
    begin=begin,
    direction=direction,
    queries=_both_gradients,
    evaluations=_both_gradients,
    formula="Δ_m = g(θ_m; x_m) - c (g(θ_0; x_m) - Δ_0)",
    cost="2bM",
    reference="first",
)
