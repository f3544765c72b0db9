"""STORM (Cutkosky and Orabona 2019) within D: SRG's recursion, which forgets by a.

Δ_m = g(θ_m; x_m) - (1 - a) (g(θ_{m-1}; x_m) - Δ_{m-1})
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from srgdqn.learner.estimator import Direction, Number, recursion
from srgdqn.learner.estimators.srg import srg

if TYPE_CHECKING:
    from srgdqn.learner.estimator import Query
    from srgdqn.learner.gradients import Compact
    from srgdqn.learner.networks import Parameters


def direction(reference: Compact, theta: Parameters, previous: Parameters, query: Query) -> Direction:
    """SRG's direction with c = 1 - a."""
    present, upcoming = query.on_present_and_next(theta)
    gradient = query.dense(present)
    delta = recursion(gradient, 1 - query.numbers["a"], query.dense(reference), previous)
    return Direction(delta, gradient, upcoming)


storm_inner = srg._replace(
    direction=direction,
    numbers=(Number("a", 0.1, "Weight of the new gradient; 0 is SRG, 1 the plain gradient.", 0, 1),),
    coefficient=False,
    formula="Δ_m = g(θ_m; x_m) - (1 - a) (g(θ_{m-1}; x_m) - Δ_{m-1})",
)
