"""What an estimator may ask for: gradients at any θ, on D, on the present pick and on the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from jaxtyping import Array, Int

    from srgdqn.learner.gradients import Batch, Compact, GradientSource
    from srgdqn.learner.networks import Parameters


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
