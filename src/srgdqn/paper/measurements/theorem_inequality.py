"""The inequality behind Theorem 1, both sides measured over many sequences of picks.

Within one outer loop at a step size η ≤ 2 / (√μ (√(4M + 1) + 1)), Appendix A has

    1/(M + 1) Σ_{m=0}^{M} E‖∇F(θ_m)‖²  ≤  2/(η (M + 1)) E[F(θ_0) - F(θ_{M+1})]  ≤  4 B_max / (η (M + 1)).

The paper's M is both the number of terms of F and the length of the loop; here they are n and M (row 29 of the
readings). Replications share θ_0 and differ in their picks; the next loop starts where each has arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import polars as pl
import scipy.stats
from jaxtyping import Array, Float, Int

from srgdqn.config import Configuration
from srgdqn.learner.networks import Parameters
from srgdqn.learner.outer_iteration import init_learner, outer_iteration
from srgdqn.paper.measurements.theorem_problems import Problem, at, compiled
from srgdqn.results.statistics import Interval

INEQUALITY_SCHEMA = {
    "problem": pl.String,
    "varied": pl.String,
    "n": pl.Int64,
    "M": pl.Int64,
    "S": pl.Int64,
    "multiple": pl.Float64,
    "eta": pl.Float64,
    "outer_loop": pl.Int64,
    "left": pl.Float64,
    "right": pl.Float64,
    "difference": pl.Float64,
    "above": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "violated": pl.Boolean,
    "largest_loss": pl.Float64,
    "paper_right": pl.Float64,
    "paper_violated": pl.Boolean,
    "in_region": pl.Boolean,
    "replications": pl.Int64,
    "diverged": pl.Int64,
}


class Loop(NamedTuple):
    """One outer loop, per replication."""

    mean_square: Float[Array, " replications"]  # 1/(M + 1) Σ ‖∇F(θ_m)‖² over m = 0 … M
    fall: Float[Array, " replications"]  # F(θ_0) - F(θ_{M+1})
    largest: Float[Array, " replications"]  # the largest f_i at any of θ_0 … θ_{M+1}
    inside: Array  # whether θ_0 … θ_{M+1} all lie where the β_i hold


RunLoop = Callable[[float, Parameters, np.ndarray], tuple[Parameters, Loop]]


def loop_configuration(problem: Problem, loop_length: int, estimator: str = "srg") -> Configuration:
    """Algorithm 1 without the Adam process: a step along the full gradient, then M inner ones."""
    return problem.configuration.with_options({"estimator": estimator, "inner_iterations": loop_length})


def make_loop(problem: Problem, loop_length: int) -> RunLoop:
    """A compiled function of η, each replication's θ_0, and the picks (replications, M, 1).

    It gives each replication's θ_{M+1} and what it met on the way.
    """
    configuration = loop_configuration(problem, loop_length)

    def one(eta: Array, theta: Parameters, picks: Int[Array, "M 1"]) -> tuple[Parameters, Loop]:
        settings = configuration.with_options({"eta": eta})
        state, trace = outer_iteration(
            settings, problem.network, init_learner(settings, theta), problem.transitions, picks, keep_iterates=True
        )
        met = jax.lax.map(lambda parameters: (at(problem, parameters), problem.inside(parameters)), trace.iterates)
        points, inside = met
        fall = points.loss[0] - points.loss[-1]
        return state.parameters, Loop(points.square[:-1].mean(), fall, points.largest.max(), inside.all())

    return compiled(jax.vmap(one, in_axes=(None, 0, 0)))


def inequality_rows(
    problem: Problem,
    run: RunLoop,
    *,
    loop_length: int,
    outer_loops: int,
    eta: float,
    replications: int,
    rng: np.random.Generator,
) -> list[dict[str, Any]]:
    """Both sides of the inequality for each of S outer loops, without verdicts: these need the number of all rows."""
    theta = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (replications, *leaf.shape)), problem.start)
    shape = (replications, loop_length, 1)
    rows = []
    for s in range(outer_loops):
        theta, loop = run(eta, theta, rng.integers(problem.terms, size=shape, dtype=np.int32))
        scale = 2 / (eta * (loop_length + 1))
        largest = float(np.nan_to_num(loop.largest, nan=np.inf).max())
        left, right = np.asarray(loop.mean_square), scale * np.asarray(loop.fall)
        rows.append(
            {
                "eta": eta,
                "outer_loop": s + 1,
                "left": _mean_or_infinity(left),
                "right": -_mean_or_infinity(-right),
                "largest_loss": largest,
                "paper_right": 2 * scale * largest,
                "in_region": bool(np.all(loop.inside)),
                "replications": replications,
                "differences": _differences(left, right),
            }
        )
    return rows


def with_verdicts(rows: list[dict[str, Any]], level: float = 0.95) -> pl.DataFrame:
    """The table: `low` and `high` bound left - right at the level that Bonferroni gives each row at the theory's η.

    A row is *violated* if `low` is above 0. It speaks of the theorem only if `multiple` is 1 and `in_region` holds.
    `above` is the share of replications whose left side is the larger: it shows divergence where a few replications
    make up the whole mean, which then says nothing.
    """
    judged = sum(row["multiple"] == 1 for row in rows)
    each = 1 - (1 - level) / max(judged, 1)
    table = []
    for row in rows:
        differences = row["differences"]
        interval = mean_interval(differences, each)
        table.append(
            {name: value for name, value in row.items() if name != "differences"}
            | {
                "difference": interval.estimate,
                "above": float(np.mean(differences > 0)),
                "low": interval.low,
                "high": interval.high,
                "violated": interval.low > 0,
                "paper_violated": row["left"] > row["paper_right"],
                "diverged": int(np.isinf(differences).sum()),
            }
        )
    return pl.DataFrame(table, schema=INEQUALITY_SCHEMA)


def mean_interval(values: np.ndarray, level: float) -> Interval:
    """The mean and Student's interval. Bootstrap tails as far out as Bonferroni's would need far more resamples.

    Infinite values are those of diverged replications: the mean is then beyond any bound.
    """
    if not np.all(np.isfinite(values)):
        return Interval(np.inf, np.inf, np.inf)
    size = float(np.abs(values).max()) or 1.0  # so that squares of what is about to overflow do not
    mean, error = np.mean(values / size), scipy.stats.sem(values / size)
    reach = float(scipy.stats.t.ppf((1 + level) / 2, len(values) - 1) * error)
    return Interval(float(size * mean), float(size * (mean - reach)), float(size * (mean + reach)))


def _differences(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Left - right; infinity where numbers overflowed, because F has then risen beyond any number."""
    with np.errstate(invalid="ignore", over="ignore"):
        difference = left - right
    return np.where(np.isfinite(difference), difference, np.inf)


def _mean_or_infinity(values: np.ndarray) -> float:
    with np.errstate(over="ignore"):
        return float(np.mean(values)) if np.all(np.isfinite(values)) else np.inf
