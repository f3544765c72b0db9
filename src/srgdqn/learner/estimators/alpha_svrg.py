"""α-SVRG (Yin et al. 2023): SVRG whose correction is weighed by α, which falls linearly over training.

Δ_m = g(θ_m; x_m) - α (g(θ_0; x_m) - Δ_0),    α = α_start + (α_end - α_start) · progress
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from srgdqn.learner.estimator import Direction, Number, recursion
from srgdqn.learner.estimators.svrg import State, svrg

if TYPE_CHECKING:
    from srgdqn.learner.estimator import Query
    from srgdqn.learner.networks import Parameters


def direction(state: State, theta: Parameters, previous: Parameters, query: Query) -> Direction:
    """SVRG's direction with the present α for c."""
    start, end = query.numbers["svrg_start"], query.numbers["svrg_end"]
    alpha = start + (end - start) * query.clock.progress
    gradient = query.dense(query.on_present(theta))
    reference = query.dense(query.present_of(state.references))
    return Direction(recursion(gradient, alpha, reference, state.anchor), gradient, state)


alpha_svrg = svrg._replace(
    direction=direction,
    numbers=(
        Number("svrg_start", 0.5, "α at the start of training."),
        Number("svrg_end", 0.0, "α at the end of training."),
    ),
    coefficient=False,
    formula="Δ_m = g(θ_m; x_m) - α (g(θ_0; x_m) - Δ_0), α falling over training",
)
