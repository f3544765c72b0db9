"""What Theorem 1 says, measured: its inequality, its count of queries beside SVRG's, and what its loop length comes to.

The problems are smooth and their targets y are frozen, as the theorem assumes (row 29 of the readings): see
`theorem_problems`. Everything is computed in double precision.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
import polars as pl

from srgdqn.errors import InputError
from srgdqn.interrupts import StopRequestedError
from srgdqn.paper.measurements.recorded import Report
from srgdqn.paper.measurements.smoothness import theory_step_size
from srgdqn.paper.measurements.theorem_inequality import RunLoop, inequality_rows, make_loop, with_verdicts
from srgdqn.paper.measurements.theorem_problems import Problem, first_terms, make_problem
from srgdqn.paper.measurements.theorem_queries import QUERIES_SCHEMA, Race, query_rows, start_of


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
    plan: TheoremPlan, report: Report = lambda share: None, stop: threading.Event | None = None
) -> dict[str, pl.DataFrame]:
    """The tables `inequality`, `queries` and `growth`."""
    if plan.replications < 2:
        raise InputError(f"replications is {plan.replications}, of which there is no interval. Give 2 or more.")
    if 1.0 not in plan.multiples:
        raise InputError(f"multiples are {plan.multiples}, but the theorem speaks of 1. Give 1 among them.")
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
        if stop is not None and stop.is_set():
            raise StopRequestedError

    with jax.enable_x64(True):
        for i, name in enumerate(plan.problems):
            whole = make_problem(name, max(setting.terms for setting in settings), [plan.seed, 0, i])
            programs: dict[tuple[int, int], RunLoop] = {}
            for j, setting in enumerate(settings):
                inequality += _inequality(plan, whole, setting, np.random.default_rng([plan.seed, 1, i, j]), programs)
                part_is_done()
            for j, (terms, loop_length) in enumerate(sizes):
                rng = np.random.default_rng([plan.seed, 2, i, j])
                queries += _queries(plan, first_terms(whole, terms), loop_length, rng)
                part_is_done()
            centre = [
                row for row in inequality if (row["problem"], row["varied"], row["multiple"]) == (name, "centre", 1)
            ]
            largest = max(row["largest_loss"] for row in centre)
            growth += growth_rows(first_terms(whole, plan.centre.terms), largest, plan.growth_precisions)
    return {
        "inequality": with_verdicts(inequality),
        "queries": pl.DataFrame(queries, schema=QUERIES_SCHEMA),
        "growth": pl.DataFrame(growth, schema=GROWTH_SCHEMA),
    }


def _inequality(
    plan: TheoremPlan,
    whole: Problem,
    setting: Setting,
    rng: np.random.Generator,
    programs: dict[tuple[int, int], RunLoop],
) -> list[dict[str, Any]]:
    """The rows of one setting; `programs` holds what was compiled for settings that differ in S alone."""
    terms, loop_length, outer_loops = setting
    problem = first_terms(whole, terms)
    if (terms, loop_length) not in programs:
        programs[terms, loop_length] = make_loop(problem, loop_length)
    theory = theory_step_size(problem.constants, loop_length)
    named = {"problem": whole.name, "varied": plan.settings()[setting], "n": terms, "M": loop_length, "S": outer_loops}
    rows = []
    for multiple in plan.multiples:
        measured = inequality_rows(
            problem,
            programs[terms, loop_length],
            loop_length=loop_length,
            outer_loops=outer_loops,
            eta=multiple * theory,
            replications=plan.replications,
            rng=rng,
        )
        rows += [{**named, "multiple": multiple, **row} for row in measured]
    return rows


def _queries(plan: TheoremPlan, problem: Problem, loop_length: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    race = Race(loop_length, plan.query_budget, plan.query_replications, plan.step_sizes)
    measured = query_rows(problem, race, plan.precisions, rng)
    return [{"problem": problem.name, "n": problem.terms, "M": loop_length, **row} for row in measured]


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
