"""The loop length that Theorem 1's own proof asks for, which grows as 1/ε² (row 29 of the readings)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from srgdqn.paper.measurements.theorem_problems import Problem
from srgdqn.paper.measurements.theorem_queries import start_of

__all__ = ["GROWTH_SCHEMA", "growth_rows", "loop_length_needed"]

GROWTH_SCHEMA = {
    "problem": pl.String,
    "n": pl.Int64,
    "epsilon": pl.Float64,
    "relative": pl.Float64,
    "eta": pl.Float64,
    "loop_length": pl.Float64,
    "queries": pl.Float64,
    "root_length_by_epsilon": pl.Float64,
    "exponent": pl.Float64,
}


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
