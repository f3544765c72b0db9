"""SARAH+ (Nguyen et al. 2017): SARAH that ends its inner iterations once the direction has become short.

    Δ_m = g(θ_m; x_m) - c (g(θ_{m-1}; x_m) - Δ_{m-1})   as long as ‖Δ_{m-1}‖² > r ‖Δ_0‖²

The inner iterations that are left change nothing: Δ_m stays the last one. How many there are is not known beforehand,
so that they are counted in the queries, and evaluated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from srgdqn.learner.estimator import Direction, Number
from srgdqn.learner.estimators import srg as recursive

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    from srgdqn.learner.estimator import Query
    from srgdqn.learner.gradients import Compact
    from srgdqn.learner.networks import Parameters


class State(NamedTuple):
    """SARAH's, which is g(θ_{m-1}; x_m); and r ‖Δ_0‖²."""

    reference: Compact
    shortest: Float[Array, ""]


def begin(memory: None, theta: Parameters, anchor: Parameters, query: Query) -> State:
    """SARAH's beginning, and how short a direction ends the inner iterations."""
    return State(recursive.begin(memory, theta, anchor, query), query.numbers["shortest"] * _squared_norm(anchor))


def direction(state: State, theta: Parameters, previous: Parameters, query: Query) -> Direction:
    """SARAH's direction, unless the one before was short."""
    made = recursive.direction(state.reference, theta, previous, query)
    return made._replace(state=State(made.state, state.shortest), ended=_squared_norm(previous) <= state.shortest)


def _squared_norm(tree: Parameters) -> Float[Array, ""]:
    import optax

    norm: Float[Array, ""] = optax.tree.norm(tree, squared=True)
    return norm


sarah_plus = recursive.srg._replace(
    begin=begin,
    direction=direction,
    numbers=(Number("shortest", 1 / 8, "r, the share of ‖Δ_0‖² at which the inner iterations end.", 0, 1),),
    formula="Δ_m = g(θ_m; x_m) - c (g(θ_{m-1}; x_m) - Δ_{m-1}) while ‖Δ_{m-1}‖² > r ‖Δ_0‖²",
)
