"""SAG (Le Roux, Schmidt and Bach 2012): the mean of a table of every row's last gradient.

    T[x_m] = g(θ_m; x_m),    Δ_m = the mean of T

The table is over D, and begins at θ_0. Its direction is biased, and varies less than SAGA's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from srgdqn.learner.estimator import Direction
from srgdqn.learner.estimators.saga import Table, looked_up, saga

if TYPE_CHECKING:
    from srgdqn.learner.estimator import Query
    from srgdqn.learner.networks import Parameters


def direction(table: Table, theta: Parameters, previous: Parameters, query: Query) -> Direction:
    """The table's mean, with the present gradient in it."""
    del previous
    gradient, _, after = looked_up(table, theta, query)
    return Direction(after.mean, gradient, after)


sag = saga._replace(
    direction=direction, coefficient=False, formula="Δ_m = the mean of T over D, after T[x_m] = g(θ_m; x_m)"
)
