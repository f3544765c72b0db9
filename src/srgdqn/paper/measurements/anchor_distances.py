"""How far anchors and estimates are from the exact gradient (the paper's Figure 3, right, and claim C7).

From one θ_0, one D and the same picks, SRG and SVRG each make an outer iteration. At its inner iteration m, SRG's
anchor is Δ_{m-1} and SVRG's is Δ_0. The exact gradient at a θ is that over all recorded transitions.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from srgdqn.config import Configuration
from srgdqn.learner.gradients import Transitions, make_batch, make_gradients
from srgdqn.learner.networks import Network, Parameters
from srgdqn.learner.outer_iteration import init_learner, outer_iteration
from srgdqn.paper.measurements.recorded import exact_gradient

ESTIMATORS = ("srg", "svrg")


class Distances(NamedTuple):
    """For m = 1 … M. The first three are claim C7's definitions."""

    own: Float[Array, " M"]  # of the anchor from the exact gradient at the anchor's own θ
    present: Float[Array, " M"]  # of the anchor from the exact gradient at θ_m
    estimate: Float[Array, " M"]  # of Δ_m from the exact gradient at θ_m
    floor: Float[Array, " M"]  # of the gradient on D from the exact gradient at θ_m: D's own error
    own_norm: Float[Array, " M"]  # of the exact gradient at the anchor's own θ
    norm: Float[Array, " M"]  # of the exact gradient at θ_m


def anchor_distances(
    configuration: Configuration,
    network: Network,
    theta: Parameters,
    batch: Transitions,
    picks: Int[Array, "M b"],
    recording: Float[Array, "steps width"],
    estimator: str,
) -> Distances:
    """The distances within one outer iteration, made without the Adam process, of one estimator."""
    chosen = alike(configuration, estimator)
    _, trace = outer_iteration(chosen, network, init_learner(chosen, theta), batch, picks, keep_iterates=True)
    before = jax.tree.map(lambda leaf: leaf[:-1], trace.iterates)  # θ_0 … θ_M
    exact = jax.lax.map(lambda at: exact_gradient(configuration, network, at, recording), before)
    source = make_gradients(configuration.gradients, network)
    rows = make_batch(configuration.gradients, network, batch, None)
    on_batch = jax.vmap(lambda at: source.mean(at, rows)[0])(before)

    deltas = trace.deltas
    later, earlier = slice(1, None), slice(None, -1)
    if estimator == "srg":
        anchor, exact_at_anchor = _at(deltas, earlier), _at(exact, earlier)
    else:
        anchor, exact_at_anchor = (_first_repeated(tree) for tree in (deltas, exact))
    return Distances(
        own=_norms(_minus(anchor, exact_at_anchor)),
        present=_norms(_minus(anchor, _at(exact, later))),
        estimate=_norms(_minus(_at(deltas, later), _at(exact, later))),
        floor=_norms(_minus(_at(on_batch, later), _at(exact, later))),
        own_norm=_norms(exact_at_anchor),
        norm=_norms(_at(exact, later)),
    )


def alike(configuration: Configuration, estimator: str) -> Configuration:
    """The configuration with another estimator and without the Adam process, which ends an outer iteration: the same
    for all algorithms that differ in these only.
    """
    return dataclasses.replace(
        configuration,
        algorithm="",
        estimator=dataclasses.replace(configuration.estimator, estimator=estimator),
        optimiser=dataclasses.replace(configuration.optimiser, adam_process=False),
    )


def _at(tree: Parameters, index: slice) -> Parameters:
    return jax.tree.map(lambda leaf: leaf[index], tree)


def _first_repeated(tree: Parameters) -> Parameters:
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[:1], leaf[1:].shape), tree)


def _minus(a: Parameters, b: Parameters) -> Parameters:
    return jax.tree.map(jnp.subtract, a, b)


def _norms(stack: Parameters) -> Float[Array, " M"]:
    return jax.vmap(optax.tree.norm)(stack)
