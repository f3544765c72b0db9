"""How accurate the directions of each dose are (claim C12): all doses from the same θ_0 and D.

A dose is a coefficient c of SRG's recursion and a number b of transitions in an inner iteration. Its error is
Σ‖Δ_m − ∇F_D(θ_m)‖² / Σ‖∇F_D(θ_m)‖², where F_D is the loss on D and sums are over moments of a run of `sgd-inner-adam`,
over redraws of the picks, and over m = 1, …, M. The θ_m are those of the dose's own inner iterations from θ_0.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax
import polars as pl
from jaxtyping import Array

from srgdqn.config import Configuration
from srgdqn.learner.gradients import Transitions, make_batch, make_gradients
from srgdqn.learner.networks import Network, Parameters
from srgdqn.learner.outer_iteration import outer_iteration
from srgdqn.paper.measurements import recorded
from srgdqn.paper.measurements.parts import Parts
from srgdqn.paper.measurements.recorded import (
    Report,
    alike,
    batch_at,
    call_compiled,
    frozen_parameters,
    learner_at,
    record_moments,
    rounds_table,
)
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.training.interaction import action_count

Dose = tuple[float, int]
"""c and b."""


@dataclass(frozen=True)
class Plan(recorded.Plan):
    """Whose run, at which steps to look, the doses, and how often the picks are redrawn."""

    doses: tuple[Dose, ...] = ()
    redraws: int = 8


def measure(
    plan: Plan, report: Report, stop: threading.Event, manager: CheckpointManager | None = None
) -> dict[str, pl.DataFrame]:
    """Of every dose, round and step: the two sums, over redraws and m."""
    schema = {"round": int, "step": int, "c": float, "b": int, "error": float, "norm": float}
    parts = Parts(manager, {"errors": schema})
    run, moments = record_moments(plan, report, stop, parts, training_share=0.3)
    functions = {dose: _sums(dosed(run.configuration, dose), run.network, plan.redraws) for dose in plan.doses}
    root = jax.random.key(run.configuration.training.seed)
    actions = action_count(run.task.environment)
    for moment in moments:
        recording, number, block = moment.batch_place
        drawn, _ = batch_at(run.configuration, run.network, jnp.asarray(recording), jnp.asarray(number), block, actions)
        key = jax.random.fold_in(jax.random.fold_in(root, moment.number), moment.block)
        rows: list[dict[str, Any]] = []
        for (c, b), function in functions.items():
            name = (__name__, run.configuration, (c, b), plan.redraws)
            error, norm = call_compiled(name, function, moment.learner, drawn, key)
            place = {"round": moment.number, "step": moment.step, "c": c, "b": b}
            rows.append({**place, "error": float(error), "norm": float(norm)})
        parts.add(errors=rows)
    return {**parts.tables(), "rounds": rounds_table(run)}


def dosed(configuration: Configuration, dose: Dose) -> Configuration:
    """The configuration with SRG's recursion at a dose, whatever its estimator was."""
    c, b = dose
    return alike(configuration, "srg").with_options({"coefficient": c, "inner_batch": b})


def errors_of(table: pl.DataFrame) -> dict[Dose, float]:
    """The error of each dose: a ratio of sums."""
    sums = table.group_by("c", "b").agg(pl.col("error", "norm").sum()).sort("c", "b")
    return {(c, b): error / norm for c, b, error, norm in sums.iter_rows()}


def _sums(configuration: Configuration, network: Network, redraws: int) -> Callable[..., tuple[Array, Array]]:
    """From a learner, D and a key to Σ‖Δ_m − ∇F_D(θ_m)‖² and Σ‖∇F_D(θ_m)‖²."""
    inner, settings = configuration.estimator, configuration.gradients
    source = make_gradients(settings, network)

    def sums(learner: tuple[Parameters, Parameters | None], drawn: Transitions, key: Array) -> tuple[Array, Array]:
        state = learner_at(configuration, *learner)
        frozen = frozen_parameters(configuration, *learner)
        batch = make_batch(settings, network, drawn, frozen)

        def one(picks: Array) -> tuple[Array, Array]:
            _, trace = outer_iteration(configuration, network, state, drawn, picks, keep_iterates=True)
            deltas = jax.tree.map(lambda leaf: leaf[1:], trace.deltas)
            thetas = jax.tree.map(lambda leaf: leaf[1:-1], trace.iterates)
            whole = jax.lax.map(lambda theta: source.mean(theta, batch)[0], thetas)
            gaps = jax.tree.map(jnp.subtract, deltas, whole)
            return tuple(jax.vmap(_square)(tree).sum() for tree in (gaps, whole))  # type: ignore[return-value]

        shape = (redraws, inner.inner_iterations, inner.inner_batch)
        errors, norms = jax.lax.map(one, jax.random.randint(key, shape, 0, configuration.replay.batch_size))
        return errors.sum(), norms.sum()

    return sums


def _square(tree: Parameters) -> Array:
    return optax.tree.norm(tree, squared=True)
