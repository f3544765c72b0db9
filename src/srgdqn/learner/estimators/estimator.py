"""What an estimator is: a few pure functions around one recursion, and what is said of it in lists and traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from jaxtyping import Array

    from srgdqn.learner.estimators.query import Query
    from srgdqn.learner.networks import Parameters


class Direction(NamedTuple):
    """The direction Δ_m, the gradient g_m on the present pick alone, and the estimator's state after it."""

    delta: Parameters
    gradient: Parameters
    state: Any


class Work(NamedTuple):
    """Sizes that the cost of an outer iteration depends on: N, M and b."""

    batch_size: int
    inner_iterations: int
    inner_batch: int


def _nothing(*_: Any) -> None:
    return None


class Estimator(NamedTuple):
    """An estimator of ∇F_D(θ_m) for m = 1 … M.

    Attributes:
      direction: (state, θ_m, Δ_{m-1}, query, c) -> Direction.
      queries: gradients the formula asks for in the inner iterations (the incremental first-order oracle's count).
      evaluations: gradients really evaluated there.
      begin: (memory, θ_0, Δ_0, query) -> state, at the start of an outer iteration, before the first step.
      init: θ -> memory, what survives outer iterations.
      finish: state -> memory.
      formula: Δ_m in one line, for lists.
      cost: the queries of all M inner iterations as a formula, for lists.
      reference: θ_ref, for traces: θ_{m-1} (`previous`), θ_0 (`first`), or None where there is no reference gradient.

    """

    direction: Callable[[Any, Parameters, Parameters, Query, Array | float], Direction]
    queries: Callable[[Work], int]
    evaluations: Callable[[Work], int]
    begin: Callable[[Any, Parameters, Parameters, Query], Any] = _nothing
    init: Callable[[Parameters], Any] = _nothing
    finish: Callable[[Any], Any] = _nothing
    formula: str = ""
    cost: str = ""
    reference: Literal["previous", "first"] | None = None


def recursion(
    gradient: Parameters, coefficient: Array | float, reference: Parameters, anchor: Parameters
) -> Parameters:
    """Δ = g - c (g_ref - A), leaf by leaf."""
    import jax  # here, as whoever only lists estimators does not need it

    return jax.tree.map(lambda g, g_ref, a: g - coefficient * (g_ref - a), gradient, reference, anchor)
