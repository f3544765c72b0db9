"""What Theorem 1 says, measured: its inequality, its count of queries beside SVRG's, and what its loop length comes to.

The problems are smooth and their targets y are frozen, as the theorem assumes: see `theorem_problems`. The paper's M is
both the number of terms of F and the length of the loop; here they are n and M (row 29 of the readings). Everything is
computed in double precision.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import polars as pl
import scipy.stats
from jaxtyping import Array, Float, Int

from srgdqn.errors import InputError
from srgdqn.interrupts import StopRequestedError
from srgdqn.learner.gradients import make_batch, make_gradients
from srgdqn.learner.networks import Parameters
from srgdqn.learner.outer_iteration import init_learner, outer_iteration
from srgdqn.paper.measurements.recorded import Report
from srgdqn.paper.measurements.smoothness import theory_step_size
from srgdqn.paper.measurements.theorem_problems import Problem, at, compiled, first_terms, make_problem
from srgdqn.results.statistics import Interval
from srgdqn.runs.checkpoint_manager import CheckpointManager


class Setting(NamedTuple):
    """The number of terms n, the loop length M and the number of outer loops S."""

    terms: int
    loop_length: int
    outer_loops: int


_CENTRE = Setting(terms=64, loop_length=16, outer_loops=4)


@dataclass(frozen=True)
class TheoremPlan:
    """How much is measured: n, M and S are varied one at a time around a centre."""

    seed: int = 0
    """Decides the problems and every pick."""
    problems: tuple[str, ...] = ("convex", "network")
    """Which problems: least squares, and a tanh network on Bellman targets."""
    centre: Setting = _CENTRE
    """Where the sizes that are not varied stay."""
    terms: tuple[int, ...] = (16, 64, 256)
    """Numbers of terms n."""
    loop_lengths: tuple[int, ...] = (4, 16, 64)
    """Loop lengths M."""
    outer_loops: tuple[int, ...] = (1, 4, 16)
    """Numbers of outer loops S."""
    multiples: tuple[float, ...] = (1.0, 10.0, 100.0)
    """Multiples of the theory's η at which the inequality is measured; the theorem speaks of 1."""
    replications: int = 64
    """Sequences of picks behind each row of the inequality."""
    precisions: tuple[float, ...] = (1e-1, 1e-2, 1e-3)
    """Each ε of the query counts as a share of ‖∇F(θ_0)‖²."""
    query_replications: int = 24
    """Sequences of picks behind each query count."""
    query_budget: int = 20_000
    """Queries after which a replication that has not reached ε is censored."""
    step_sizes: int = 12
    """Step sizes on the grid that the tuned ones are chosen from."""
    growth_precisions: tuple[float, ...] = (1e-1, 1e-2, 1e-3, 1e-4)
    """Each ε of the loop length that the theorem asks for, as a share of ‖∇F(θ_0)‖²."""

    def __post_init__(self) -> None:
        if self.replications < 2:
            raise InputError(f"replications is {self.replications}, of which there is no interval. Give 2 or more.")
        if 1.0 not in self.multiples:
            raise InputError(f"multiples are {self.multiples}, but the theorem speaks of 1. Give 1 among them.")

    @classmethod
    def quick(cls, seed: int = 0) -> TheoremPlan:
        """A plan of a few seconds, to see whether everything works; its intervals are wide."""
        return cls(
            seed=seed,
            centre=Setting(16, 4, 2),
            terms=(16,),
            loop_lengths=(4,),
            outer_loops=(1, 2),
            replications=20,
            precisions=(1e-1, 1e-2),
            query_replications=6,
            query_budget=2_400,
            step_sizes=6,
        )

    def settings(self) -> dict[Setting, str]:
        """Every setting, and which of its sizes is not the centre's."""
        varied = {self.centre: "centre"}
        for name, field, values in (
            ("n", "terms", self.terms),
            ("M", "loop_length", self.loop_lengths),
            ("S", "outer_loops", self.outer_loops),
        ):
            for value in values:
                varied.setdefault(self.centre._replace(**{field: value}), name)
        return varied


def measure(
    plan: TheoremPlan, report: Report, stop: threading.Event, manager: CheckpointManager | None = None
) -> dict[str, pl.DataFrame]:
    """The tables `inequality`, `queries` and `growth`. It is too short for checkpoints."""
    del manager
    settings = plan.settings()
    sizes = list(dict.fromkeys((setting.terms, setting.loop_length) for setting in settings))
    parts = len(plan.problems) * (len(settings) + len(sizes))
    inequality: list[dict[str, Any]] = []
    queries: list[dict[str, Any]] = []
    growth: list[dict[str, Any]] = []
    done = 0

    def part_is_done() -> None:
        nonlocal done
        done += 1
        report(done / parts)
        if stop.is_set():
            raise StopRequestedError

    with jax.enable_x64(True):
        for i, name in enumerate(plan.problems):
            whole = make_problem(name, max(setting.terms for setting in settings), [plan.seed, 0, i])
            problems = {terms: first_terms(whole, terms) for terms, _ in sizes}
            loops = {(terms, length): make_loop(problems[terms], length) for terms, length in sizes}
            largest = 0.0
            for j, (setting, varied) in enumerate(settings.items()):
                problem, loop = problems[setting.terms], loops[setting.terms, setting.loop_length]
                rng = np.random.default_rng([plan.seed, 1, i, j])
                for multiple in plan.multiples:
                    rows = inequality_rows(problem, loop, setting, multiple, plan.replications, rng)
                    inequality += [{"varied": varied, **row} for row in rows]
                    if varied == "centre" and multiple == 1:
                        largest = max(row["largest_loss"] for row in rows)
                part_is_done()
            for j, (terms, length) in enumerate(sizes):
                queries += query_rows(plan, problems[terms], length, np.random.default_rng([plan.seed, 2, i, j]))
                part_is_done()
            growth += growth_rows(problems[plan.centre.terms], largest, plan.growth_precisions)
    return {
        "inequality": with_verdicts(inequality),
        "queries": pl.DataFrame(queries),
        "growth": pl.DataFrame(growth),
    }


# The inequality: within one outer loop at a step size η ≤ 2 / (√μ (√(4M + 1) + 1)), Appendix A has
#
#   1/(M + 1) Σ_{m=0}^{M} E‖∇F(θ_m)‖²  ≤  2/(η (M + 1)) E[F(θ_0) - F(θ_{M+1})]  ≤  4 B_max / (η (M + 1)).
#
# Replications share θ_0 and differ in their picks; the next loop starts where each has arrived.


class Loop(NamedTuple):
    """One outer loop, per replication."""

    mean_square: Float[Array, " replications"]  # 1/(M + 1) Σ ‖∇F(θ_m)‖² over m = 0 … M
    fall: Float[Array, " replications"]  # F(θ_0) - F(θ_{M+1})
    largest: Float[Array, " replications"]  # the largest f_i at any of θ_0 … θ_{M+1}
    inside: Array  # whether θ_0 … θ_{M+1} all lie where the β_i hold


RunLoop = Callable[[float, Parameters, np.ndarray], tuple[Parameters, Loop]]


def make_loop(problem: Problem, loop_length: int) -> RunLoop:
    """A compiled function of η, each replication's θ_0, and the picks (replications, M, 1), which makes Algorithm 1's
    outer loop without the Adam process: a step along the full gradient, then M inner ones.

    It gives each replication's θ_{M+1} and what it met on the way.
    """
    configuration = problem.configuration.with_options({"estimator": "srg", "inner_iterations": loop_length})

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
    problem: Problem, run: RunLoop, setting: Setting, multiple: float, replications: int, rng: np.random.Generator
) -> list[dict[str, Any]]:
    """Both sides of the inequality at a multiple of the theory's η for each of S outer loops, without verdicts: these
    need the number of all rows.
    """
    eta = multiple * theory_step_size(problem.constants, setting.loop_length)
    scale = 2 / (eta * (setting.loop_length + 1))
    theta = _repeated(problem.start, replications)
    shape = (replications, setting.loop_length, 1)
    rows = []
    for s in range(setting.outer_loops):
        theta, loop = run(eta, theta, rng.integers(problem.terms, size=shape, dtype=np.int32))
        largest = float(np.nan_to_num(loop.largest, nan=np.inf).max())
        left, right = np.asarray(loop.mean_square), scale * np.asarray(loop.fall)
        rows.append(
            {
                "problem": problem.name,
                "n": setting.terms,
                "M": setting.loop_length,
                "S": setting.outer_loops,
                "multiple": multiple,
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


_COLUMNS = (
    *("problem", "varied", "n", "M", "S", "multiple", "eta", "outer_loop", "left", "right", "difference", "above"),
    *("low", "high", "violated", "largest_loss", "paper_right", "paper_violated", "in_region", "replications"),
    "diverged",
)


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
    return pl.DataFrame(table).select(_COLUMNS)


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


# Queries until ‖∇F(θ)‖² ≤ ε, at the step sizes of theory and at tuned ones. SRG and SVRG run Algorithm 1's skeleton
# without the Adam process, with the same loop length M, the same picks and n + 2M queries per outer iteration. SGD
# makes one query a step, and n + 2M steps between two looks at the exact gradient, so that all three are looked at
# after the same numbers of queries.

ESTIMATORS = ("sgd", "svrg", "srg")

Descend = Callable[[Parameters, np.ndarray, np.ndarray, np.ndarray], tuple[Parameters, Array]]

# A descent is followed in so many pieces, after each of which it may turn out to be long enough.
_PIECES = 8


def make_descent(problem: Problem, estimator: str, loop_length: int) -> Descend:
    """A compiled function of each lane's θ, η and row of the picks (rows, looks, steps, 1), and these.

    It gives each lane's last θ, and its ‖∇F(θ)‖² at the start of every outer iteration, where line 5 of Algorithm 1
    computes that gradient anyway.
    """
    if estimator == "sgd":  # plain steps only, as many as the others have queries
        steps = {"inner_iterations": problem.terms + 2 * loop_length, "anchor_step": False}
    else:
        steps = {"inner_iterations": loop_length}
    configuration = problem.configuration.with_options({"estimator": estimator, **steps})
    source = make_gradients(configuration.gradients, problem.network)

    def one(theta: Parameters, eta: Array, row: Array, picks: Array) -> tuple[Parameters, Float[Array, " looks"]]:
        settings = configuration.with_options({"eta": eta})

        def look_and_descend(theta: Parameters, look: Array) -> tuple[Parameters, Array]:
            batch = make_batch(settings.gradients, problem.network, problem.transitions, theta)
            square = optax.tree.norm(source.mean(theta, batch)[0], squared=True)
            state = init_learner(settings, theta)
            state, _ = outer_iteration(settings, problem.network, state, problem.transitions, picks[row, look])
            return state.parameters, square

        return jax.lax.scan(look_and_descend, theta, jnp.arange(picks.shape[1]))

    return compiled(jax.vmap(one, in_axes=(0, 0, 0, None)))


class Start(NamedTuple):
    """What step sizes depend on besides the β_i, all at θ_0."""

    square: float  # ‖∇F‖²
    variance: float  # σ² = E‖∇f_i - ∇F‖² of a random term
    curvature: float  # the largest eigenvalue of 2 E[∇Q_i ∇Q_iᵀ], the Hessian of F but for that of Q


def start_of(problem: Problem) -> Start:
    """The problem's start."""
    gradients = 2 * problem.errors[:, None] * problem.slopes
    mean = gradients.mean(0)
    return Start(
        float(mean @ mean),
        float(((gradients - mean) ** 2).sum(1).mean()),
        float(2 * np.linalg.norm(problem.slopes, 2) ** 2 / problem.terms),
    )


def theory_step_sizes(problem: Problem, start: Start, loop_length: int, epsilon: float) -> dict[str, float]:
    """The step size that each one's own theory gives.

    srg: Theorem 1's bound. svrg: 1/(4 L n^(2/3)) with L the largest β_i (Reddi et al. 2016, "Stochastic variance
    reduction for nonconvex optimization", Theorem 3 with μ_0 = 1/4). Their loop has 4n/3 steps; that their recursion
    allows the M used here too is tested. sgd: min(1/L, ε/(2 L σ²)) with L the mean of the β_i, at which the bound of
    Ghadimi and Lan (2013), 2 (F(θ_0) - F*)/(ηT) + η L σ², leaves ε/2 to the noise; σ² is the variance at θ_0.
    """
    betas = problem.constants
    smoothness = float(betas.mean())
    return {
        "srg": theory_step_size(betas, loop_length),
        "svrg": float(1 / (4 * betas.max() * problem.terms ** (2 / 3))),
        "sgd": min(1 / smoothness, epsilon / (2 * smoothness * start.variance)),
    }


def step_size_grid(problem: Problem, start: Start, loop_length: int, count: int) -> np.ndarray:
    """From the smaller of SRG's and SVRG's theory to 2/λ, beyond which even gradient descent diverges from θ_0."""
    theory = theory_step_sizes(problem, start, loop_length, epsilon=1.0)
    return np.geomspace(min(theory["srg"], theory["svrg"]), 2 / start.curvature, count)


def first_below(squares: np.ndarray, epsilon: float, each: int, budget: int) -> tuple[np.ndarray, np.ndarray]:
    """Per lane the queries made when ‖∇F‖² was first seen at or below ε, or else the budget; and whether it was seen.

    There are `each` queries between two looks, and none before the first.
    """
    below: np.ndarray = np.asarray(squares) <= epsilon  # what is not finite is not below
    reached: np.ndarray = np.any(below, axis=1)
    return np.where(reached, each * below.argmax(1), budget), reached


def best_step_size(grid: np.ndarray, queries: np.ndarray) -> float:
    """Of pilots' queries (step sizes, replications): the step size of the least median, then mean, then the smaller."""
    order = np.lexsort((grid, queries.mean(1), np.median(queries, axis=1)))
    return float(grid[order[0]])


def query_rows(plan: TheoremPlan, problem: Problem, loop_length: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    """One row per precision ε (relative to ‖∇F(θ_0)‖²), kind of step size, estimator and replication.

    Tuned step sizes are chosen for each estimator and ε on pilot replications, and measured on fresh ones. As many
    queries of the budget are spent as fill a whole number of pieces.
    """
    start, replications = start_of(problem), plan.query_replications
    epsilons = [relative * start.square for relative in plan.precisions]
    grid = step_size_grid(problem, start, loop_length, plan.step_sizes)
    each = problem.terms + 2 * loop_length  # queries between two looks: N + 2bM with b = 1
    looks = _PIECES * max(plan.query_budget // (_PIECES * each), 1)
    shape = (replications, looks, each, 1)  # as many picks as SGD needs, of which the others use the first M
    picks = {kind: rng.integers(problem.terms, size=shape, dtype=np.int32) for kind in ("pilot", "fresh")}
    rows: list[dict[str, Any]] = []
    for estimator in ESTIMATORS:
        follow = functools.partial(_follow, problem, make_descent(problem, estimator, loop_length))
        pilot, fresh = (p if estimator == "sgd" else p[:, :, :loop_length] for p in picks.values())
        # Pilots fill as many lanes as the fresh replications, so that one compiled program serves both.
        pilots = max(len(epsilons) * replications // plan.step_sizes, 1)
        tried = follow(grid, pilot, pilots, lambda squares: _medians_known(squares, epsilons))
        tuned = [
            best_step_size(grid, np.stack([first_below(squares, epsilon, each, looks * each)[0] for squares in tried]))
            for epsilon in epsilons
        ]
        theory = [theory_step_sizes(problem, start, loop_length, epsilon)[estimator] for epsilon in epsilons]
        for step, etas in (("theory", theory), ("tuned", tuned)):
            seen = follow(np.array(etas), fresh, replications, lambda squares: _all_reached(squares, epsilons))
            for relative, epsilon, eta, squares in zip(plan.precisions, epsilons, etas, seen, strict=True):
                shared = {"problem": problem.name, "n": problem.terms, "M": loop_length, "epsilon": epsilon}
                shared |= {"relative": relative, "step": step, "estimator": estimator, "eta": eta}
                queries, reached = first_below(squares, epsilon, each, looks * each)
                rows += [
                    {**shared, "replication": i, "queries": int(queries[i]), "reached": bool(reached[i])}
                    for i in range(replications)
                ]
    return rows


def _follow(
    problem: Problem,
    descend: Descend,
    etas: np.ndarray,
    picks: np.ndarray,
    replications: int,
    ended: Callable[[np.ndarray], bool],
) -> np.ndarray:
    """‖∇F‖² by step size, replication and look, from θ_0 until the picks are used up or enough has been seen."""
    eta, row = np.repeat(etas, replications), np.tile(np.arange(replications, dtype=np.int32), len(etas))
    theta = _repeated(problem.start, len(eta))
    piece = picks.shape[1] // _PIECES
    seen = np.empty((len(etas), replications, 0))
    for first in range(0, picks.shape[1], piece):
        theta, squares = descend(theta, eta, row, picks[:, first : first + piece])
        seen = np.concatenate([seen, np.reshape(squares, (len(etas), replications, -1))], axis=2)
        if ended(seen):
            break
    return seen


def _all_reached(squares: np.ndarray, epsilons: Sequence[float]) -> bool:
    """Whether each step size's replications have all come down to the ε it is meant for."""
    return all((lanes <= epsilon).any(1).all() for lanes, epsilon in zip(squares, epsilons, strict=True))


def _medians_known(squares: np.ndarray, epsilons: Sequence[float]) -> bool:
    """Whether for each ε most replications of some step size have reached it: every other's median is then larger."""
    return all(((squares <= epsilon).any(2).mean(1) > 0.5).any() for epsilon in epsilons)


def _repeated(parameters: Parameters, count: int) -> Parameters:
    return jax.tree.map(lambda leaf: np.broadcast_to(leaf, (count, *leaf.shape)), parameters)


# The loop length that the proof asks for


def loop_length_needed(epsilon: float, largest_loss: float, root_mu: float) -> float:
    """The M that solves Appendix A's M + 1 = 4 B_max / (η ε) at the largest η allowed, 2/(√μ (√(4M + 1) + 1)).

    With r = √(4M + 1) and K = 2 B_max √μ / ε it reads (r² + 3)/4 = K (r + 1), hence r = 2K + √(4K² + 4K - 3): M is
    about 4K², of order 1/ε². For K < 1/2 every M will do, and 0 is given.
    """
    k = 2 * largest_loss * root_mu / epsilon
    if k < 0.5:
        return 0.0
    r = 2 * k + (4 * k**2 + 4 * k - 3) ** 0.5
    return (r**2 - 1) / 4


def growth_rows(problem: Problem, largest_loss: float, precisions: Sequence[float]) -> list[dict[str, Any]]:
    """The loop length and the queries that the theorem's own proof asks for, and the exponent of 1/ε in the latter.

    B_max is the largest f_i met: the paper's is over all θ, and no smaller.
    """
    root_mu = float(np.sqrt(np.mean(problem.constants**2)))
    epsilons = np.array(precisions) * start_of(problem).square
    lengths = np.array([np.ceil(loop_length_needed(epsilon, largest_loss, root_mu)) for epsilon in epsilons])
    queries = problem.terms + 2 * lengths
    exponent = float(np.polyfit(-np.log(epsilons), np.log(queries), 1)[0]) if len(epsilons) > 1 else np.nan
    return [
        {
            "problem": problem.name,
            "n": problem.terms,
            "epsilon": epsilon,
            "relative": relative,
            "eta": 2 / (root_mu * (np.sqrt(4 * length + 1) + 1)),
            "loop_length": length,
            "queries": spent,
            "root_length_by_epsilon": np.sqrt(length) / epsilon,
            "exponent": exponent,
        }
        for epsilon, relative, length, spent in zip(epsilons, precisions, lengths, queries, strict=True)
    ]
