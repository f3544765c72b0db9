"""What an estimator is: a few pure functions around one recursion, and its words in lists and traces; and what it may
ask for: gradients at any θ, on D, on the present pick and on the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from jaxtyping import Array, Int

    from srgdqn.learner.gradients import Batch, Compact, GradientSource
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


class Query(NamedTuple):
    """Gradient queries of inner iteration m (0 before the first), whose pick is x_m.

    Compact gradients may be stored; `dense` gives them the form of the parameters where they enter a sum. Two picks at
    once cost little more than one, as both pass through the network together.
    """

    source: GradientSource
    batch: Batch
    picks: Batch  # x_1 … x_M and x_M once more, so that there always is a next pick
    m: Int[Array, ""] | int

    def dense(self, gradient: Compact) -> Parameters:
        """A compact gradient in the form of the parameters."""
        return self.source.dense(gradient)

    def on_batch(self, theta: Parameters) -> Parameters:
        """∇F_D(θ), the mean over all of D."""
        return self.source.mean(theta, self.batch)[0]

    def on_present(self, theta: Parameters) -> Compact:
        """g(θ; x_m)."""
        return self._window(theta, self.m - 1, 1)[0]

    def on_next(self, theta: Parameters) -> Compact:
        """g(θ; x_{m+1})."""
        return self._window(theta, self.m, 1)[0]

    def on_present_and_next(self, theta: Parameters) -> tuple[Compact, Compact]:
        """g(θ; x_m) and g(θ; x_{m+1}) from one pass."""
        present, upcoming = self._window(theta, self.m - 1, 2)
        return present, upcoming

    def on_every_pick(self, theta: Parameters) -> Compact:
        """g(θ; x_1) … g(θ; x_M), stacked, from one pass."""
        return self.source.query(theta, self.picks.rows(slice(None, -1)))[0]

    def present_of(self, stacked: Compact) -> Compact:
        """The gradient on x_m among those that `on_every_pick` stacked."""
        import jax  # here, as whoever only lists estimators does not need it

        return jax.tree.map(lambda leaf: leaf[self.m - 1], stacked)

    def _window(self, theta: Parameters, start: Array | int, size: int) -> list[Compact]:
        import jax

        rows = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, start, size), self.picks)
        gradients = self.source.query(theta, rows)[0]
        return [jax.tree.map(lambda leaf, i=i: leaf[i], gradients) for i in range(size)]
