"""Gradient queries that SGD, SVRG and SRG need until ‖∇F(θ)‖² ≤ ε, at the step sizes of theory and at tuned ones.

SRG and SVRG run Algorithm 1's skeleton without the Adam process, with the same loop length M, the same picks and
n + 2M queries per outer iteration (row 29 of the readings). SGD makes one query a step, and n + 2M steps between two
looks at the exact gradient, so that all three are looked at after the same numbers of queries.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import polars as pl
from jaxtyping import Array, Float

from srgdqn.config import Configuration
from srgdqn.learner.gradients import make_batch, make_gradients
from srgdqn.learner.networks import Parameters
from srgdqn.learner.outer_iteration import init_learner, outer_iteration
from srgdqn.paper.measurements.smoothness import theory_step_size
from srgdqn.paper.measurements.theorem_problems import Problem, compiled

CONTESTANTS = ("sgd", "svrg", "srg")

QUERIES_SCHEMA = {
    "problem": pl.String,
    "n": pl.Int64,
    "M": pl.Int64,
    "epsilon": pl.Float64,
    "relative": pl.Float64,
    "step": pl.String,
    "estimator": pl.String,
    "eta": pl.Float64,
    "replication": pl.Int64,
    "queries": pl.Int64,
    "reached": pl.Boolean,
}

Descend = Callable[[Parameters, np.ndarray, np.ndarray, np.ndarray], tuple[Parameters, Array]]

# A descent is followed in so many pieces, after each of which it may turn out to be long enough.
_PIECES = 8


class Race(NamedTuple):
    """The sizes of one comparison."""

    loop_length: int  # M
    budget: int  # queries, of which as many are spent as fill a whole number of pieces
    replications: int
    step_sizes: int  # on the grid that the tuned ones are chosen from


def queries_between_looks(problem: Problem, loop_length: int) -> int:
    """N + 2bM with b = 1."""
    return problem.terms + 2 * loop_length


def looks_within(problem: Problem, race: Race) -> int:
    """How often the exact gradient is looked at before the budget is spent."""
    each = queries_between_looks(problem, race.loop_length)
    return _PIECES * max(race.budget // (_PIECES * each), 1)


def contestant(problem: Problem, estimator: str, loop_length: int) -> Configuration:
    """The settings of what is done between two looks at the exact gradient."""
    if estimator == "sgd":  # plain steps only, as many as the others have queries
        steps = {"inner_iterations": queries_between_looks(problem, loop_length), "anchor_step": False}
    else:
        steps = {"inner_iterations": loop_length}
    return problem.configuration.with_options({"estimator": estimator, **steps})


def make_descent(problem: Problem, estimator: str, loop_length: int) -> Descend:
    """A compiled function of each lane's θ, η and row of the picks (rows, looks, steps, 1), and these.

    It gives each lane's last θ, and its ‖∇F(θ)‖² at the start of every outer iteration, where line 5 of Algorithm 1
    computes that gradient anyway.
    """
    configuration = contestant(problem, estimator, loop_length)
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


def query_rows(
    problem: Problem, race: Race, precisions: Sequence[float], rng: np.random.Generator
) -> list[dict[str, Any]]:
    """One row per precision ε (relative to ‖∇F(θ_0)‖²), kind of step size, estimator and replication.

    Tuned step sizes are chosen for each estimator and ε on pilot replications, and measured on fresh ones.
    """
    start = start_of(problem)
    epsilons = [relative * start.square for relative in precisions]
    grid = step_size_grid(problem, start, race.loop_length, race.step_sizes)
    each = queries_between_looks(problem, race.loop_length)
    looks = looks_within(problem, race)
    shape = (race.replications, looks, each, 1)  # as many picks as SGD needs, of which the others use the first M
    picks = {kind: rng.integers(problem.terms, size=shape, dtype=np.int32) for kind in ("pilot", "fresh")}
    rows: list[dict[str, Any]] = []
    for estimator in CONTESTANTS:
        follow = functools.partial(_follow, problem, make_descent(problem, estimator, race.loop_length))
        pilot, fresh = (p if estimator == "sgd" else p[:, :, : race.loop_length] for p in picks.values())
        # Pilots fill as many lanes as the fresh replications, so that one compiled program serves both.
        pilots = max(len(epsilons) * race.replications // race.step_sizes, 1)
        tried = follow(grid, pilot, pilots, lambda squares: _medians_known(squares, epsilons))
        tuned = [
            best_step_size(grid, np.stack([first_below(squares, epsilon, each, looks * each)[0] for squares in tried]))
            for epsilon in epsilons
        ]
        theory = [theory_step_sizes(problem, start, race.loop_length, epsilon)[estimator] for epsilon in epsilons]
        for step, etas in (("theory", theory), ("tuned", tuned)):
            seen = follow(np.array(etas), fresh, race.replications, lambda squares: _all_reached(squares, epsilons))
            for relative, epsilon, eta, squares in zip(precisions, epsilons, etas, seen, strict=True):
                shared = {"epsilon": epsilon, "relative": relative, "step": step, "estimator": estimator, "eta": eta}
                queries, reached = first_below(squares, epsilon, each, looks * each)
                rows += [
                    {**shared, "replication": i, "queries": int(queries[i]), "reached": bool(reached[i])}
                    for i in range(race.replications)
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
    lanes = len(etas) * replications
    eta, row = np.repeat(etas, replications), np.tile(np.arange(replications, dtype=np.int32), len(etas))
    theta = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (lanes, *leaf.shape)), problem.start)
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
