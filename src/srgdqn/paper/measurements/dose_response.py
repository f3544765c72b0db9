"""Dose and response (claim C12): does a smaller estimator error go with a higher reward?

SRG-DQN is trained with the coefficient c of its recursion and the number b of transitions per inner iteration varied,
and the error of its estimates Δ_m from the exact gradient at θ_m is measured on the way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import polars as pl

from srgdqn.config import Configuration
from srgdqn.learner.networks import Network
from srgdqn.learner.outer_iteration import init_learner, outer_iteration
from srgdqn.paper.measurements.parts import Parts
from srgdqn.paper.measurements.recorded import Plan, Report, batch_at, call_compiled, exact_gradient, record_moments
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.training.interaction import action_count

_EVERY = 4  # inner iterations between two whose error is measured


def measure(
    plan: Plan, report: Report, stop: threading.Event, manager: CheckpointManager | None = None
) -> dict[str, pl.DataFrame]:
    """Errors by round and step, and the curves of the run."""
    parts = Parts(manager, {"errors": {"round": int, "step": int, "error": float, "norm": float}})
    run, moments = record_moments(plan, report, stop, parts, training_share=0.7)
    shape, numbers = run.configuration.shape(), run.configuration.numbers()
    error_of = _error_function(shape, run.network, action_count(run.task.environment))
    for moment in moments:
        error, norm = call_compiled((__name__, shape), error_of, moment.theta, *moment.batch_place, numbers)
        place = {"round": moment.number, "step": moment.step}
        parts.add(errors=[{**place, "error": float(error), "norm": float(norm)}])
    curves = run.trained.tables["curves"]
    rounds = run.trained.tables["rounds"]
    return {
        **parts.tables(),
        "curves": pl.DataFrame({name: np.asarray(curves[name]) for name in ("round", "step", "reward")}),
        "rounds": pl.DataFrame(
            {"round": np.asarray(rounds["round"]), "diverged": ~np.ma.getmaskarray(rounds["diverged_at"])}
        ),
    }


def _error_function(shape: Configuration, network: Network, actions: int) -> Callable[..., tuple[Any, Any]]:
    """From a moment to the mean over m of ‖Δ_m - exact(θ_m)‖, and of ‖exact(θ_m)‖; one for doses that differ in
    numbers only.
    """

    def errors(theta: Any, recording: Any, number: Any, block: Any, numbers: Any) -> tuple[Any, Any]:
        configuration = shape.with_numbers(numbers)
        transitions, picks = batch_at(configuration, network, recording, number, block, actions)
        state = init_learner(configuration, theta)
        _, trace = outer_iteration(configuration, network, state, transitions, picks, keep_iterates=True)
        chosen = jnp.arange(_EVERY, configuration.estimator.inner_iterations + 1, _EVERY)
        deltas, thetas = (jax.tree.map(lambda leaf: leaf[chosen], tree) for tree in (trace.deltas, trace.iterates))
        exact = jax.lax.map(lambda at: exact_gradient(configuration, network, at, recording), thetas)
        gaps = jax.tree.map(jnp.subtract, deltas, exact)
        return jax.vmap(optax.tree.norm)(gaps).mean(), jax.vmap(optax.tree.norm)(exact).mean()

    return errors
