"""Traces as tables: a row per outer iteration, and a row per inner iteration and transition of its pick."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import polars as pl

from srgdqn.inspection.iteration import Moment
from srgdqn.inspection.trace import IterationTrace

# Observations with more numbers than these, such as images, are not written out.
_MOST_NUMBERS = 64

ITERATIONS: dict[str, pl.DataType] = {
    "outer_iteration": pl.Int64(),  # from 1
    "step": pl.Int64(),  # environment steps lived when it was made
    "loss": pl.Float64(),  # mean on D at θ_0
    "max_q": pl.Float64(),  # mean over D of max_a Q(S, a; θ_0)
    "theta_norm": pl.Float64(),  # of θ_0
    "anchor_norm": pl.Float64(),  # of Δ_0
    "largest_delta_norm": pl.Float64(),  # of Δ_0 … Δ_M; no number if one of them is none
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
    "m": pl.Int64(),  # from 0, the anchor
    "sample": pl.Int64(),  # which transition of the pick, from 0
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
    "reward": pl.Float64(),  # R as it is in the replay
    "next_observation": pl.List(pl.Float64()),
    "terminated": pl.Boolean(),
}


class Traced(NamedTuple):
    """An outer iteration of the run, and its trace."""

    moment: Moment
    trace: IterationTrace

    @property
    def number(self) -> int:
        """Which outer iteration of its round it is, from 1."""
        return int(self.moment.before.iterations) + 1


def iterations_table(traced: Sequence[Traced]) -> pl.DataFrame:
    """A row per outer iteration."""
    return pl.DataFrame([_iteration(each) for each in traced], schema=ITERATIONS, orient="row")


def inner_table(traced: Sequence[Traced]) -> pl.DataFrame:
    """A row per inner iteration, counted from 0 (the anchor), and transition of its pick."""
    return pl.DataFrame([row for each in traced for row in _inner(each)], schema=INNER, orient="row")


def joined(iterations: pl.DataFrame, inner: pl.DataFrame) -> pl.DataFrame:
    """Both in one: the rows of the second, each with the columns of its outer iteration that the first alone has."""
    own = {name: f"outer_{name}" for name in iterations.columns if name in inner.columns}
    kept = iterations.rename({name: new for name, new in own.items() if name not in ("outer_iteration", "step")})
    return inner.join(kept.drop("step"), on="outer_iteration", how="left", maintain_order="left")


def difference(one: Any, other: Any) -> float:
    """The norm of the difference of two trees relative to that of the second, in double precision; 0 if they are the
    same bits.
    """
    pairs = list(zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))
    if all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs):
        return 0.0
    apart = np.concatenate([(np.asarray(a, float) - np.asarray(b, float)).ravel() for a, b in pairs])
    whole = np.concatenate([np.asarray(b, float).ravel() for _, b in pairs])
    return float(np.linalg.norm(apart) / max(np.linalg.norm(whole), np.finfo(float).tiny))


def _iteration(traced: Traced) -> dict[str, Any]:
    moment, trace = traced
    errors = np.asarray(trace.on_batch.td_error, float)
    worst = int(np.argmax(np.where(np.isnan(errors), np.inf, np.abs(errors))))
    row = {
        "outer_iteration": traced.number,
        "step": moment.step,
        "loss": float(trace.loss),
        "max_q": float(trace.max_q),
        "theta_norm": float(trace.theta_norm[0]),
        "anchor_norm": float(trace.delta_norm[0]),
        "largest_delta_norm": float(np.max(trace.delta_norm)),
        "largest_td_error": float(errors[worst]),
        "largest_td_row": worst,
        "largest_td_made_at": int(moment.made_at[worst]),
        "after_norm": float(trace.after_norm),
        "discarded": moment.discarded,
        "difference": None if moment.discarded else difference(trace.after.parameters, moment.after.parameters),
    }
    told = {} if trace.adam is None else {f"adam_{name}": float(value) for name, value in trace.adam._asdict().items()}
    return dict.fromkeys(ITERATIONS) | row | told


def _inner(traced: Traced) -> list[dict[str, Any]]:
    moment, trace = traced
    shared = {"outer_iteration": traced.number, "step": moment.step}
    none = dict.fromkeys(INNER)
    rows = [none | shared | _norms(trace, 0) | {"m": 0, "sample": 0}]
    size = int(np.prod(moment.transitions.observation.shape[1:]))
    for m in range(1, len(trace.delta_norm)):
        for sample, row in enumerate(np.asarray(moment.picks[m - 1]).tolist()):
            said = {name: float(value[m - 1, sample]) for name, value in trace.on_picks._asdict().items()}
            rows.append(
                none | shared | _norms(trace, m) | said | _transition(moment, row, size) | {"m": m, "sample": sample}
            )
    return rows


def _norms(trace: IterationTrace, m: int) -> dict[str, Any]:
    reference = None if trace.reference_norm is None or m == 0 else float(trace.reference_norm[m - 1])
    return {
        "theta_norm": float(trace.theta_norm[m]),
        "gradient_norm": float(trace.delta_norm[0] if m == 0 else trace.gradient_norm[m - 1]),
        "reference_norm": reference,
        "delta_norm": float(trace.delta_norm[m]),
        "step_norm": float(trace.step_norm[m]),
    }


def _transition(moment: Moment, row: int, size: int) -> dict[str, Any]:
    transitions = moment.transitions
    shown = size <= _MOST_NUMBERS
    return {
        "row": row,
        "made_at": int(moment.made_at[row]),
        "observation": _numbers(transitions.observation[row]) if shown else None,
        "action": int(transitions.action[row]),
        "reward": float(transitions.reward[row]),
        "next_observation": _numbers(transitions.next_observation[row]) if shown else None,
        "terminated": bool(transitions.terminated[row]),
    }


def _numbers(observation: Any) -> list[float]:
    return [float(value) for value in np.asarray(observation).ravel()]
