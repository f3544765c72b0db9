"""Gradient queries that SGD, SVRG and SRG need until ‖∇F(θ)‖² ≤ ε, at the step sizes of theory and at tuned ones.

SRG and SVRG run Algorithm 1's skeleton without the Adam process, with the same loop length M, the same picks and
n + 2M queries per outer iteration (row 29 of the readings). SGD makes one query a step, and n + 2M steps between two
looks at the exact gradient, so that all three are looked at after the same numbers of queries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray

from srgdqn.learner import init_learner, outer_iteration
from srgdqn.measurements.theorem_problems import Problem, at, term_losses
from srgdqn.networks import Parameters
from srgdqn.settings import Configuration
from srgdqn.smoothness import theory_step_size

__all__ = [
    "CONTESTANTS",
    "QUERIES_SCHEMA",
    "best_step_size",
    "first_below",
    "make_descent",
    "query_rows",
    "step_size_grid",
    "theory_step_sizes",
]

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

Descend = Callable[[Float[Array, " lanes"], PRNGKeyArray], Float[Array, "lanes looks"]]


class Race(NamedTuple):
    """The sizes of one comparison."""

    loop_length: int  # M
    looks: int  # outer iterations, after each of which the exact gradient is looked at: the budget
    replications: int
    step_sizes: int  # on the grid among which the tuned ones are


def queries_between_looks(problem: Problem, loop_length: int) -> int:
    """N + 2bM with b = 1."""
    return problem.terms + 2 * loop_length


def contestant(problem: Problem, estimator: str, loop_length: int) -> Configuration:
    """The settings of what is done between two looks at the exact gradient."""
    if estimator == "sgd":  # plain steps only, as many as the others have queries
        steps = {"inner_iterations": queries_between_looks(problem, loop_length), "anchor_step": False}
    else:
        steps = {"inner_iterations": loop_length}
    return problem.configuration.with_options({"estimator": estimator, **steps})


def make_descent(problem: Problem, estimator: str, loop_length: int, looks: int) -> Descend:
    """A compiled function of each lane's η and random key; gives each one's ‖∇F(θ)‖² at every look."""
    configuration = contestant(problem, estimator, loop_length)
    shape = (configuration.estimator.inner_iterations, 1)

    def one(eta: Array, key: PRNGKeyArray) -> Float[Array, " looks"]:
        settings = configuration.with_options({"eta": eta})

        def until_next_look(theta: Parameters, key: PRNGKeyArray) -> tuple[Parameters, Array]:
            picks = jax.random.randint(key, shape, 0, problem.terms)
            state = init_learner(settings, theta)
            state, _ = outer_iteration(settings, problem.network, state, problem.transitions, picks)
            return state.parameters, at(problem, state.parameters).square

        return jax.lax.scan(until_next_look, problem.start, jax.random.split(key, looks))[1]

    return jax.jit(jax.vmap(one))


def theory_step_sizes(problem: Problem, loop_length: int, epsilon: float) -> dict[str, float]:
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
        "sgd": min(1 / smoothness, epsilon / (2 * smoothness * _gradient_variance(problem))),
    }


def step_size_grid(problem: Problem, loop_length: int, count: int) -> np.ndarray:
    """From the smaller of SRG's and SVRG's theory to 2/λ, beyond which even gradient descent diverges from θ_0.

    λ is the largest curvature of F at θ_0.
    """
    theory = theory_step_sizes(problem, loop_length, 1.0)
    flat, unravel = ravel_pytree(problem.start)
    hessian = jax.jit(jax.hessian(lambda theta: term_losses(problem, unravel(theta)).mean()))(flat)
    return np.geomspace(min(theory["srg"], theory["svrg"]), 2 / np.linalg.eigvalsh(hessian).max(), count)


def first_below(squares: np.ndarray, epsilon: float, queries: int) -> tuple[np.ndarray, np.ndarray]:
    """Per lane the queries made when ‖∇F‖² was first seen at or below ε, or the whole budget; and whether it was."""
    below = np.asarray(squares) <= epsilon  # what is not finite is not below
    reached = below.any(1)
    looks = np.where(reached, below.argmax(1) + 1, below.shape[1])
    return looks * queries, reached


def best_step_size(grid: np.ndarray, queries: np.ndarray) -> float:
    """Of pilots' queries (step sizes, replications): the step size of the least median, then mean, then the smaller."""
    order = np.lexsort((grid, queries.mean(1), np.median(queries, axis=1)))
    return float(grid[order[0]])


def query_rows(problem: Problem, race: Race, precisions: Sequence[float], key: PRNGKeyArray) -> list[dict[str, Any]]:
    """One row per precision ε (relative to the start's ‖∇F‖²), kind of step size, estimator and replication.

    Tuned step sizes are chosen for each estimator and ε on pilot replications, and measured on fresh ones.
    """
    start = float(jax.jit(lambda: at(problem, problem.start).square)())
    epsilons = [relative * start for relative in precisions]
    grid = step_size_grid(problem, race.loop_length, race.step_sizes)
    each = queries_between_looks(problem, race.loop_length)
    lanes = 2 * len(epsilons) * race.replications
    pilots = max(lanes // race.step_sizes, 1)
    pilot_key, fresh_key = jax.random.split(key)
    rows: list[dict[str, Any]] = []
    for estimator in CONTESTANTS:
        descend = make_descent(problem, estimator, race.loop_length, race.looks)

        # Pilots and fresh replications fill as many lanes, so that one compiled program serves both.
        def run(etas: np.ndarray, key: PRNGKeyArray, copies: int, descend: Descend = descend) -> np.ndarray:
            keys = jnp.tile(jax.random.split(key, copies), len(etas))
            filled = np.resize(np.repeat(etas, copies), lanes)
            squares = descend(jnp.asarray(filled, float), keys[np.resize(np.arange(len(keys)), lanes)])
            return np.asarray(squares)[: len(etas) * copies].reshape(len(etas), copies, race.looks)

        pilot = run(grid, pilot_key, pilots)
        chosen: list[tuple[float, float, str, float]] = []
        for relative, epsilon in zip(precisions, epsilons, strict=True):
            spent = np.stack([first_below(squares, epsilon, each)[0] for squares in pilot])
            theory = theory_step_sizes(problem, race.loop_length, epsilon)[estimator]
            chosen += [(relative, epsilon, "theory", theory), (relative, epsilon, "tuned", best_step_size(grid, spent))]
        fresh = run(np.array([eta for *_, eta in chosen]), fresh_key, race.replications)
        for (relative, epsilon, step, eta), squares in zip(chosen, fresh, strict=True):
            shared = {"epsilon": epsilon, "relative": relative, "step": step, "estimator": estimator, "eta": eta}
            for replication, (spent, reached) in enumerate(zip(*first_below(squares, epsilon, each), strict=True)):
                rows.append({**shared, "replication": replication, "queries": int(spent), "reached": bool(reached)})
    return rows


def _gradient_variance(problem: Problem) -> float:
    """σ² = E‖∇f_i - ∇F‖² at θ_0."""
    flat, unravel = ravel_pytree(problem.start)
    gradients = np.asarray(jax.jit(jax.jacrev(lambda theta: term_losses(problem, unravel(theta))))(flat))
    return float(((gradients - gradients.mean(0)) ** 2).sum(1).mean())
