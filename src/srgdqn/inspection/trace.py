"""Outer iterations traced in full, by the same functions as the run's programs, and as tables.

The norms here are scaled by the largest number, so that none overflows before a number itself does; those by which a
round counts as diverged are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
from jaxtyping import Array, Float, Int

from srgdqn.config import Configuration
from srgdqn.inspection.differences import relative_distance
from srgdqn.learner.estimators import Origin, estimator
from srgdqn.learner.gradients import Batch, Transitions, make_gradients
from srgdqn.learner.gradients.bellman import values_and_targets
from srgdqn.learner.networks import Network, Parameters
from srgdqn.learner.normalisation import Normaliser
from srgdqn.learner.optimiser import clip, denominator_of, direction_of, schedule
from srgdqn.learner.outer_iteration import LearnerState, outer_iteration
from srgdqn.training.jax_setup import hot_program_flags
from srgdqn.training.lane import normalised


class IterationInputs(NamedTuple):
    """Everything that one outer iteration was made from, and what the run's own program made of it, as NumPy arrays."""

    step: int  # environment steps by then
    before: LearnerState
    after: LearnerState | None  # the same as before where it was discarded; None where it is not at hand
    normaliser: Normaliser
    transitions: Transitions  # D as it is in the replay
    origin: Origin  # where D is in the replay, and the environment steps that made it
    weights: np.ndarray | None  # of the losses of D's rows, where they are not all 1
    beyond: Transitions | None  # rows of the replay beyond D, where the estimator may ask for them
    coins: np.ndarray | None  # random numbers, where it uses such
    renewed: np.ndarray | None  # whether a hard target is copied first, where environment steps say when
    picks: np.ndarray  # rows of D, with axes of inner iterations and of the inner batch
    progress: np.ndarray  # the share of the budget that was spent
    numbers: dict[str, Any]  # the configuration's, as the program was given them
    discarded: bool  # whether it led to non-finite numbers
    noise: np.ndarray | None = None  # a key's data, where the network has noise

    @property
    def made_at(self) -> np.ndarray:
        """Of every row of D, the environment step (counted from 1) that it was made in."""
        return np.asarray(self.origin.made_at)

    @property
    def number(self) -> int:
        """Which outer iteration of its round it is, from 1."""
        return int(self.before.iterations) + 1


class IterationTrace(NamedTuple):
    """An outer iteration: M inner ones with b transitions each."""

    after: LearnerState
    outer: dict[str, Float[Array, ""]]  # by column of `ITERATIONS`
    inner: dict[str, Float[Array, " M+1"]]  # by column of `INNER`
    picks: dict[str, Float[Array, "M b"]]  # of x_m at θ_m, by column of `INNER`
    td_errors: Float[Array, " rows"]  # of D at θ_0
    picked: Int[Array, "M b"]  # the rows of D that are x_m: all, where an estimator has a direction per batch


# The points θ_ref at which an estimator takes its reference gradients, given θ_0 … θ_M.
_REFERENCES: dict[str | None, Callable[[Parameters], Parameters]] = {
    "previous": lambda thetas: jax.tree.map(lambda leaf: leaf[:-1], thetas),
    "first": lambda thetas: jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[:1], leaf[1:].shape), thetas),
}


_TRACED = (
    "before",
    "normaliser",
    "transitions",
    "origin",
    "weights",
    "beyond",
    "coins",
    "renewed",
    "noise",
    "picks",
    "progress",
    "numbers",
)


def is_per_batch(configuration: Configuration) -> bool:
    """Whether there is one direction for all of D, and neither an anchor nor inner iterations."""
    name = configuration.estimator.estimator
    return name != "none" and estimator(name).per == "batch"


class Tracer:
    """Traces outer iterations of one configuration, compiled once with the lanes and compiler flags of the run's own
    program, so that both compute the same bits where possible.
    """

    def __init__(self, configuration: Configuration, network: Network, lanes: int | None = None) -> None:
        """`lanes`: of the run's program; None for a program of a single round, on the host."""
        self._shape, self._network, self._lanes = configuration.shape(), network, lanes
        self._program: Any = None

    def trace(self, inputs: IterationInputs) -> IterationTrace:
        """The trace of an outer iteration, as NumPy arrays."""
        given = tuple(getattr(inputs, name) for name in _TRACED)
        lanes = self._lanes
        if lanes is None:
            self._program = self._program or jax.jit(self._trace)
            return jax.tree.map(np.asarray, self._program(*given))
        many = jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf)[None], lanes, axis=0), given)
        self._program = self._program or jax.jit(jax.vmap(self._trace)).lower(*many).compile(hot_program_flags())
        return jax.tree.map(lambda leaf: np.asarray(leaf[0]), self._program(*many))

    def _trace(
        self,
        before: LearnerState,
        normaliser: Any,
        transitions: Any,
        origin: Origin,
        weights: Any,
        beyond: Any,
        coins: Any,
        renewed: Any,
        noise: Any,
        picks: Int[Array, "M b"],
        progress: Float[Array, ""],
        numbers: dict[str, Array],
    ) -> IterationTrace:
        configuration, network = self._shape.with_numbers(numbers), self._network
        seen = normalised(normaliser, transitions)
        after, trace = outer_iteration(
            configuration,
            network,
            before,
            seen,
            picks,
            weights=weights,
            origin=origin,
            replay=None if beyond is None else lambda: normalised(normaliser, beyond),
            coins=coins,
            renewed=renewed,
            noise=noise,
            progress=progress,
            keep_iterates=True,
        )
        source = make_gradients(configuration.gradients, network)
        batch = trace.batch
        assert batch is not None
        inner = jax.tree.leaves(trace.deltas)[0].shape[0] - 1
        name = configuration.estimator.estimator
        chosen, per_batch = None if name == "none" else estimator(name), is_per_batch(configuration)
        picked = jnp.arange(batch.reward.shape[0])[None] if per_batch else picks[:inner]
        rows = batch.rows(picked)

        def gradients(thetas: Parameters) -> Parameters:
            def one(theta: Parameters, pick: Batch) -> Parameters:
                compact = source.query(theta, jax.tree.map(lambda leaf: leaf[None], pick))[0]
                return source.dense(jax.tree.map(lambda leaf: leaf[0], compact))

            return jax.vmap(one)(thetas, rows)

        thetas = jax.tree.map(lambda leaf: leaf[:-1], trace.iterates)  # θ_0 … θ_M
        at_picks = jax.tree.map(lambda leaf: leaf[1:], thetas)
        # That of a direction per batch is of another outer iteration.
        reference = None if chosen is None or per_batch else _REFERENCES.get(chosen.reference)
        deltas = _norms(trace.deltas)
        columns = {
            "theta_norm": _norms(thetas),
            "delta_norm": deltas,
            "step_norm": _norms(jax.tree.map(lambda leaf: leaf[1:] - leaf[:-1], trace.iterates)),
            "gradient_norm": jnp.append(deltas[:1], _norms(gradients(at_picks))) if inner else deltas,
        }
        if inner and reference is not None:
            columns["reference_norm"] = jnp.append(jnp.nan, _norms(gradients(reference(thetas))))
        return IterationTrace(
            after,
            {
                "loss": trace.loss,
                "max_q": trace.max_q,
                "after_norm": scaled_norm(after.parameters),
                **_adam(configuration, after, trace, progress),
            },
            columns,
            jax.vmap(lambda theta, pick: _errors(configuration, network, theta, pick))(at_picks, rows) if inner else {},
            _errors(configuration, network, before.parameters, batch)["td_error"],
            picked,
        )


def _errors(
    configuration: Configuration, network: Network, theta: Parameters, batch: Batch
) -> dict[str, Float[Array, " rows"]]:
    """Q(S, A; θ), y and its error for every row."""
    q, target = values_and_targets(configuration.gradients, network, theta, batch)
    return {"q": q, "target": target, "td_error": target - q}


def _adam(
    configuration: Configuration, after: LearnerState, trace: Any, progress: Float[Array, ""]
) -> dict[str, Float[Array, ""]]:
    """Input and output of the Adam process (or of Adam's last step, where all steps are Adam's)."""
    settings = configuration.optimiser
    if not settings.adam_process and settings.step != "adam":
        return {}
    entered = clip(settings, trace.entered)
    denominators = jax.tree.leaves(denominator_of(settings, after.adam))
    factor = schedule(settings, progress) * settings.alpha
    return {
        "adam_input_norm": scaled_norm(entered),
        "adam_first_norm": scaled_norm(after.adam.first),
        "adam_second_norm": scaled_norm(after.adam.second),
        "adam_least_denominator": jnp.stack([leaf.min() for leaf in denominators]).min(),
        "adam_largest_denominator": jnp.stack([leaf.max() for leaf in denominators]).max(),
        "adam_step_norm": factor * scaled_norm(direction_of(settings, after.adam)),
    }


def scaled_norm(tree: Parameters) -> Float[Array, ""]:
    """The norm of all numbers in a tree, infinite only where one of them is, and NaN where one is NaN."""
    leaves = [leaf.ravel() for leaf in jax.tree.leaves(tree)]
    largest = jnp.stack([jnp.abs(leaf).max() for leaf in leaves]).max()
    scale = jnp.where((largest > 0) & jnp.isfinite(largest), largest, 1.0)
    squares = jnp.stack([((leaf / scale) ** 2).sum() for leaf in leaves]).sum()
    return jnp.where(jnp.isfinite(largest), scale * jnp.sqrt(squares), largest)


def _norms(stack: Parameters) -> Float[Array, " stacked"]:
    return jax.vmap(scaled_norm)(stack)


# Observations with more numbers than these, such as images, are not written out.
_MOST_NUMBERS = 64

ITERATIONS: dict[str, pl.DataType] = {
    "outer_iteration": pl.Int64(),  # from 1
    "step": pl.Int64(),  # environment steps by then
    "loss": pl.Float64(),  # mean on D at θ_0
    "max_q": pl.Float64(),  # mean over D of max_a Q(S, a; θ_0)
    "theta_norm": pl.Float64(),  # of θ_0
    "anchor_norm": pl.Float64(),  # of Δ_0; null where there is one direction for all of D
    "largest_delta_norm": pl.Float64(),  # of Δ_0 … Δ_M, or of that direction; no number if one of them is none
    "largest_td_error": pl.Float64(),  # in size, on D at θ_0, with its sign
    "largest_td_row": pl.Int64(),  # the row of D that has it
    "largest_td_made_at": pl.Int64(),  # the environment step that this transition was made in, from 1
    "adam_input_norm": pl.Float64(),  # of what entered Adam; these six are null where there is no Adam
    "adam_first_norm": pl.Float64(),  # of m after it
    "adam_second_norm": pl.Float64(),  # of v after it
    "adam_least_denominator": pl.Float64(),  # of √v̂ + ϵ
    "adam_largest_denominator": pl.Float64(),
    "adam_step_norm": pl.Float64(),  # of the step
    "after_norm": pl.Float64(),  # of the parameters that it ended with
    "discarded": pl.Boolean(),  # whether the run froze the round instead of taking them
    "difference": pl.Float64(),  # of the traced parameters from the run's own, relative to their norm; or null
}

INNER: dict[str, pl.DataType] = {
    "outer_iteration": pl.Int64(),
    "step": pl.Int64(),
    "m": pl.Int64(),  # from 0, the anchor; 1 where there is one direction for all of D
    "sample": pl.Int64(),  # which transition of the pick, or of D, from 0
    "theta_norm": pl.Float64(),  # of θ_m
    "gradient_norm": pl.Float64(),  # of g(θ_m; x_m); on all of D for m = 0
    "reference_norm": pl.Float64(),  # of g(θ_ref; x_m), null where there is none
    "delta_norm": pl.Float64(),  # of Δ_m
    "step_norm": pl.Float64(),  # of θ_{m+1} - θ_m
    "q": pl.Float64(),  # Q(S, A; θ_m) of the transition; this and all below are null for m = 0
    "target": pl.Float64(),  # y
    "td_error": pl.Float64(),  # y - Q
    "row": pl.Int64(),  # of D
    "made_at": pl.Int64(),  # environment step, from 1
    "observation": pl.List(pl.Float64()),  # S as it is in the replay; null where it has too many numbers
    "action": pl.Int64(),
    "reward": pl.Float64(),  # R as it is in the replay; of n steps their discounted sum
    "next_observation": pl.List(pl.Float64()),  # after the last of them
    "terminated": pl.Boolean(),
}


Traced = tuple[IterationInputs, IterationTrace]


def tables_of(traced: Sequence[Traced], *, per_batch: bool = False) -> tuple[pl.DataFrame, pl.DataFrame]:
    """A row per outer iteration; and a row per inner iteration, counted from 0 (the anchor), and transition of its
    pick; or, where there is one direction per batch, a row per transition of D.
    """
    first = 1 if per_batch else 0
    inner = [row for each in traced for row in _inner(*each, first)]
    return (
        pl.DataFrame([_iteration(*each, first) for each in traced], schema=ITERATIONS, orient="row"),
        pl.DataFrame(inner, schema=INNER, orient="row"),
    )


def joined(iterations: pl.DataFrame, inner: pl.DataFrame) -> pl.DataFrame:
    """Both in one: the rows of the second, each with the columns of its outer iteration that the first alone has."""
    others = iterations.drop("step")
    own = {name: f"outer_{name}" for name in others.columns if name in inner.columns and name != "outer_iteration"}
    return inner.join(others.rename(own), on="outer_iteration", how="left", maintain_order="left")


def _iteration(inputs: IterationInputs, trace: IterationTrace, first: int) -> dict[str, Any]:
    errors, deltas = np.asarray(trace.td_errors, float), trace.inner["delta_norm"]
    worst = int(np.argmax(np.where(np.isnan(errors), np.inf, np.abs(errors))))
    difference = None
    if inputs.after is not None and not inputs.discarded:
        difference = relative_distance(*(jax.tree.leaves(each.parameters) for each in (trace.after, inputs.after)))
    return {
        **dict.fromkeys(ITERATIONS),
        **{name: float(value) for name, value in trace.outer.items()},
        "outer_iteration": inputs.number,
        "step": inputs.step,
        "theta_norm": float(trace.inner["theta_norm"][0]),
        "anchor_norm": float(deltas[0]) if first == 0 else None,
        "largest_delta_norm": float(np.max(deltas[first:])),
        "largest_td_error": float(errors[worst]),
        "largest_td_row": worst,
        "largest_td_made_at": int(inputs.made_at[worst]),
        "discarded": inputs.discarded,
        "difference": difference,
    }


def _inner(inputs: IterationInputs, trace: IterationTrace, first: int) -> Iterator[dict[str, Any]]:
    nothing = dict.fromkeys(INNER)
    for m in range(first, len(trace.inner["delta_norm"])):
        norms = {name: float(column[m]) for name, column in trace.inner.items() if m or name != "reference_norm"}
        shared = nothing | norms | {"outer_iteration": inputs.number, "step": inputs.step, "m": m, "sample": 0}
        if m == 0:
            yield shared
            continue
        for sample, row in enumerate(trace.picked[m - 1].tolist()):
            errors = {name: float(column[m - 1, sample]) for name, column in trace.picks.items()}
            yield shared | {"sample": sample} | errors | _transition(inputs, row)


def _transition(inputs: IterationInputs, row: int) -> dict[str, Any]:
    made: Transitions = jax.tree.map(lambda column: column[row], inputs.transitions)
    observation, next_observation, reward = made.observation, made.next_observation, made.reward
    if made.steps is not None:  # R_1 + γ R_2 + …
        reward = (reward * inputs.numbers["gamma"] ** np.arange(len(reward))).sum()
    shown = observation.size <= _MOST_NUMBERS
    return {
        "row": row,
        "made_at": int(inputs.made_at[row]),
        "observation": observation.ravel().tolist() if shown else None,
        "action": int(made.action),
        "reward": float(reward),
        "next_observation": next_observation.ravel().tolist() if shown else None,
        "terminated": bool(made.terminated),
    }
