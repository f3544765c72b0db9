"""What an estimator is: a few pure functions around one recursion, and its words in lists and traces; and what it may
ask for: gradients at any θ, on D, on the present pick, on the next, and on rows of the replay beyond D.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from srgdqn.config.estimator_numbers import Number

if TYPE_CHECKING:
    from types import SimpleNamespace

    from jaxtyping import Array, Bool, Float, Int

    from srgdqn.learner.gradients import Batch, Compact, GradientSource
    from srgdqn.learner.networks import Parameters

__all__ = ["Clock", "Direction", "Estimator", "Number", "Origin", "Query", "Work", "recursion"]


class Direction(NamedTuple):
    """The direction Δ_m, the gradient g_m on the present pick alone, and the estimator's state after it.

    `first` and `second` are what enters Adam's m and v; Δ_m where they are None. Where steps are -ηΔ they are refused,
    and the Adam process takes Δ_M or g_M alone.

    Where `ended` is given and true, the inner iterations have ended before this one, which then changes nothing.
    """

    delta: Parameters
    gradient: Parameters
    state: Any
    first: Parameters | None = None
    second: Parameters | None = None
    ended: Bool[Array, ""] | None = None


class Work(NamedTuple):
    """Sizes: N, M and b, on which the cost of an outer iteration depends, the slots of the replay, the outer iterations
    for which a target network stands still (None where it does not), and the estimator's own numbers.
    """

    batch_size: int
    inner_iterations: int
    inner_batch: int
    slots: int = 0
    window: float | None = None
    numbers: Mapping[str, Any] = {}  # those that are sizes as whole numbers; the others may be traced


class Estimator(NamedTuple):
    """An estimator of ∇F_D(θ_m) for m = 1 … M, or, `per` batch, of ∇F(θ) from one D after the other.

    Attributes:
      direction: (state, θ_m, Δ_{m-1}, query) -> Direction. Per batch θ_m is θ_0, and Δ_{m-1} None.
      queries: work -> gradients the formula asks for beside Δ_0 (the incremental first-order oracle's count; its mean
        where it is random).
      evaluations: gradients really evaluated there, by a round alone: of rounds side by side all pay for what one of
        them is due (`Query.where`).
      begin: (memory, θ_0, Δ_0, query) -> state, at the start of an outer iteration, before the first step. By default
        the state is the memory.
      init: (θ, work) -> memory, what survives outer iterations. Of its own numbers `work` has the sizes alone.
      finish: (state, θ) -> memory, with θ at the end of the outer iteration. By default the memory stays, or, per
        batch, becomes the state.
      numbers: its own options, which `query.numbers` has by name beside `coefficient`.
      coins: whether it uses `query.coin`, a random number for each of its directions.
      per: whether it gives a direction for every pick from D, or one for every D.
      coefficient: whether it uses c, the option `coefficient`, in `query.numbers`.
      anchor: whether it uses Δ_0, which is not computed where nobody does.
      replay_rows: work -> how many rows of the replay beyond D `query.on_replay` has. `work` is as for `init`.
      logged: names of columns in `curves`, each with a function (memory, θ) -> number; windows have its mean.
      evaluated: (memory, θ) -> the parameters that evaluations and saved policies have in place of θ.
      problem: options -> what is wrong with them beside each other for this estimator, and how to fix it; or None.
      formula: Δ_m in one line, for lists.
      cost: the queries beside Δ_0's as a formula, for lists.
      reference: θ_ref, for traces: θ_{m-1} (`previous`), θ_0 (`first`), or None where there is no reference gradient.
        Per batch it is another outer iteration's, and not traced.

    """

    direction: Callable[[Any, Parameters, Any, Query], Direction]
    queries: Callable[[Work], float]
    evaluations: Callable[[Work], float]
    begin: Callable[[Any, Parameters, Any, Query], Any] | None = None
    init: Callable[[Parameters, Work], Any] | None = None
    finish: Callable[[Any, Parameters], Any] | None = None
    numbers: tuple[Number, ...] = ()
    coins: bool = False
    per: Literal["pick", "batch"] = "pick"
    coefficient: bool = True
    anchor: bool = True
    replay_rows: Callable[[Work], int] | None = None
    logged: tuple[tuple[str, Callable[[Any, Parameters], Array]], ...] = ()
    evaluated: Callable[[Any, Parameters], Parameters] | None = None
    problem: Callable[[SimpleNamespace], str | None] | None = None
    formula: str = ""
    cost: str = ""
    reference: Literal["previous", "first"] | None = None


def recursion(
    gradient: Parameters, coefficient: Array | float, reference: Parameters, anchor: Parameters
) -> Parameters:
    """Δ = g - c (g_ref - A), leaf by leaf."""
    import jax  # here, as whoever only lists estimators does not need it

    return jax.tree.map(lambda g, g_ref, a: g - coefficient * (g_ref - a), gradient, reference, anchor)


class Clock(NamedTuple):
    """When an outer iteration is made."""

    iteration: Int[Array, ""]  # from 0
    progress: Float[Array, ""] | float  # the share of the budget that is spent
    synchronised: Bool[Array, ""]  # whether a hard target is new in this iteration; of any target, in the first


class Origin(NamedTuple):
    """Where the rows of D are in the replay."""

    slots: Int[Array, " rows"]
    made_at: Int[Array, " rows"]  # the steps, counted from 1, that made them
    written: Int[Array, ""]  # transitions written so far: the newest was made at this step
    stored: Int[Array, ""]  # of which D is drawn from as many of the newest


class Query(NamedTuple):
    """Gradient queries of inner iteration m (0 before the first, and per batch), whose pick is x_m.

    Compact gradients may be stored; `dense` gives them the form of the parameters where they enter a sum. Two picks at
    once cost little more than one, as both pass through the network together. All have the same targets y where these
    do not move with θ.

    `target` are the parameters of a target network, in the form of θ; with `target_networks` above 1 a stack of that
    many copies, newest first: θ's form with one more axis before every array's own.
    """

    source: GradientSource
    batch: Batch
    picks: Batch | None  # x_1 … x_M and x_M once more, so that there always is a next pick; None per batch
    m: Int[Array, ""] | int
    picked: Int[Array, "M b"]  # the rows of D that are x_1 … x_M
    numbers: Mapping[str, Array | float]
    clock: Clock
    target_network: Parameters | None = None
    origin: Origin | None = None
    replay: Callable[[], Batch] | None = None
    coins: Float[Array, " directions"] | None = None  # uniform in [0, 1)

    def dense(self, gradient: Compact) -> Parameters:
        """A compact gradient in the form of the parameters."""
        return self.source.dense(gradient)

    def on_batch(self, theta: Parameters) -> Parameters:
        """∇F_D(θ), the mean over all of D."""
        return self.source.mean(theta, self.batch)[0]

    def on_rows(self, theta: Parameters) -> Compact:
        """The gradient on every row of D, stacked, from one pass."""
        import jax

        return self.source.query(theta, jax.tree.map(lambda leaf: leaf[:, None], self.batch))[0]

    def on_replay(self, theta: Parameters) -> Parameters:
        """The mean gradient over `Estimator.replay_rows` rows drawn from the replay."""
        if self.replay is None:
            raise ValueError("this estimator has no replay_rows, so that there are no rows beyond D to ask about")
        return self.source.mean(theta, self.replay())[0]

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
        return self.source.query(theta, self._picks().rows(slice(None, -1)))[0]

    def present_of(self, stacked: Compact) -> Compact:
        """The gradient on x_m among those that `on_every_pick` stacked."""
        import jax  # here, as whoever only lists estimators does not need it

        return jax.tree.map(lambda leaf: leaf[self.m - 1], stacked)

    def on_each_present(self, theta: Parameters) -> Compact:
        """The gradients on the b rows of x_m one by one, stacked."""
        import jax

        rows = jax.tree.map(lambda leaf: leaf[self.m - 1][:, None], self._picks())
        return self.source.query(theta, rows)[0]

    def on_each_pick(self, theta: Parameters) -> Compact:
        """The gradients on the rows of x_1 … x_M one by one, stacked."""
        import jax

        def row_by_row(leaf: Array) -> Array:
            return leaf[:-1].reshape(-1, 1, *leaf.shape[2:])

        return self.source.query(theta, jax.tree.map(row_by_row, self._picks()))[0]

    @property
    def target(self) -> Parameters:
        """The target network's parameters."""
        if self.target_network is None:
            raise ValueError("there is no target network to ask about; give target = 'hard' or 'polyak'")
        return self.target_network

    @property
    def coin(self) -> Float[Array, ""]:
        """The random number, uniform in [0, 1), of this direction."""
        if self.coins is None:
            raise ValueError("this estimator asks for a coin. Give it coins=True.")
        return self.coins[0 if self.picks is None else self.m - 1]

    @property
    def present_rows(self) -> Int[Array, " b"]:
        """The rows of D that are x_m."""
        return self.picked[self.m - 1]

    def where(self, due: Bool[Array, ""], compute: Callable[[], Any], otherwise: Any) -> Any:
        """`compute()` where it is due, and `otherwise` elsewhere. Of rounds side by side nobody waits for a computation
        that none of them is due.
        """
        from srgdqn.learner.seldom import where_due

        return where_due(due, compute, otherwise)

    def _picks(self) -> Batch:
        if self.picks is None:
            raise ValueError("an estimator per batch has no picks from D. Ask on_batch, or leave out per='batch'.")
        return self.picks

    def _window(self, theta: Parameters, start: Array | int, size: int) -> list[Compact]:
        import jax

        rows = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, start, size), self._picks())
        gradients = self.source.query(theta, rows)[0]
        return [jax.tree.map(lambda leaf, i=i: leaf[i], gradients) for i in range(size)]
