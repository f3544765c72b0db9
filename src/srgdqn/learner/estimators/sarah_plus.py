"""SARAH+ (Nguyen et al. 2017): SARAH that ends its inner iterations once the direction has become short.

    Δ_m = g(θ_m; x_m) - c (g(θ_{m-1}; x_m) - Δ_{m-1})   as long as ‖Δ_{m-1}‖² > r ‖Δ_0‖², and 0 from then on

The inner iterations that are left make no step (Adam's, if they are Adam's, go on by its momentum). They are counted
in the formula's queries, as how many there are is not known before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from srgdqn.learner.estimator import Direction, Number, recursion
from srgdqn.learner.estimators.srg import srg

if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float

    from srgdqn.learner.estimator import Query
    from srgdqn.learner.gradients import Compact
    from srgdqn.learner.networks import Parameters


class State(NamedTuple):
    """g(θ_{m-1}; x_m), r ‖Δ_0‖², and whether the inner iterations have not ended."""

    reference: Compact
    shortest: Float[Array, ""]
    open: Bool[Array, ""]


def begin(memory: None, theta: Parameters, anchor: Parameters, query: Query) -> State:
    """g(θ_0; x_1), and how short a direction ends the inner iterations."""
    del memory
    shortest = query.numbers["shortest"] * _squared_norm(anchor)
    return State(query.on_next(theta), shortest, _squared_norm(anchor) > shortest)


def direction(state: State, theta: Parameters, previous: Parameters, query: Query) -> Direction:
    """SARAH's direction, or 0."""
    import jax
    import jax.numpy as jnp

    present, upcoming = query.on_present_and_next(theta)
    gradient = query.dense(present)
    delta = recursion(gradient, query.numbers["coefficient"], query.dense(state.reference), previous)
    delta = jax.tree.map(lambda leaf: jnp.where(state.open, leaf, 0.0), delta)
    still = state.open & (_squared_norm(delta) > state.shortest)
    return Direction(delta, gradient, State(upcoming, state.shortest, still))


def _squared_norm(tree: Parameters) -> Float[Array, ""]:
    import optax

    norm: Float[Array, ""] = optax.tree.norm(tree, squared=True)
    return norm


sarah_plus = srg._replace(
    begin=begin,
    direction=direction,
    numbers=(Number("shortest", 1 / 8, "r, the share of ‖Δ_0‖² at which the inner iterations end.", 0, 1),),
    formula="Δ_m = g(θ_m; x_m) - c (g(θ_{m-1}; x_m) - Δ_{m-1}) while ‖Δ_{m-1}‖² > r ‖Δ_0‖², then 0",
)
