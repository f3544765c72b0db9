"""One outer iteration traced in full, by the very functions that the run's programs are made of.

The norms here are of numbers scaled by the largest of them, so that none overflows before a number itself does; those
by which a run is judged to have diverged are not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from srgdqn.config import Configuration
from srgdqn.inspection.iteration import Moment
from srgdqn.learner.estimators import estimator
from srgdqn.learner.gradients import Batch, make_batch, make_gradients
from srgdqn.learner.gradients.bellman import bellman_target
from srgdqn.learner.networks import Network, Parameters
from srgdqn.learner.optimiser import clip, denominator_of, direction_of, schedule
from srgdqn.learner.outer_iteration import LearnerState, frozen_parameters, outer_iteration
from srgdqn.training.lane import normalised
from srgdqn.training.xla_flags import some_effort


class AdamTrace(NamedTuple):
    """What the Adam process (or Adam's last step, where all steps are Adam's) was given and made of it."""

    input_norm: Float[Array, ""]  # of what entered it, clipped where that is asked for
    first_norm: Float[Array, ""]  # of m
    second_norm: Float[Array, ""]  # of v
    least_denominator: Float[Array, ""]  # of all numbers √v̂ + ϵ
    largest_denominator: Float[Array, ""]
    step_norm: Float[Array, ""]  # of α m̂ / (√v̂ + ϵ)


class PickTrace(NamedTuple):
    """What a network with some parameters says of transitions."""

    q: Float[Array, "*rows"]  # Q(S, A; θ)
    target: Float[Array, "*rows"]  # y
    td_error: Float[Array, "*rows"]  # y - Q


class IterationTrace(NamedTuple):
    """An outer iteration: M inner ones with b transitions each."""

    after: LearnerState
    loss: Float[Array, ""]
    max_q: Float[Array, ""]
    theta_norm: Float[Array, " M+2"]  # of θ_0 … θ_{M+1}
    delta_norm: Float[Array, " M+1"]  # of Δ_0 … Δ_M
    step_norm: Float[Array, " M+1"]  # of θ_{m+1} - θ_m
    gradient_norm: Float[Array, " M"]  # of g(θ_m; x_m), m = 1 … M
    reference_norm: Float[Array, " M"] | None  # of g(θ_ref; x_m), where the estimator has a reference
    on_batch: PickTrace  # of D at θ_0
    on_picks: PickTrace  # of x_m at θ_m; axes of M and b
    after_norm: Float[Array, ""]  # of the parameters that the iteration ends with
    adam: AdamTrace | None


# The points θ_ref at which an estimator takes its reference gradients, given θ_0 … θ_M.
_REFERENCES: dict[str | None, Callable[[Parameters], Parameters]] = {
    "previous": lambda thetas: jax.tree.map(lambda leaf: leaf[:-1], thetas),
    "first": lambda thetas: jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[:1], leaf[1:].shape), thetas),
}


class Tracer:
    """Traces outer iterations of one configuration, compiled once and as the run's own program was: so that the bits of
    both are as near as can be, for as many lanes and with the same effort.
    """

    def __init__(self, configuration: Configuration, network: Network, lanes: int | None = None) -> None:
        """`lanes`: those of the run's program; None for a program of a single round, on the host."""
        self._shape, self._network, self._lanes = configuration.shape(), network, lanes
        self._program: Any = None

    def trace(self, moment: Moment) -> IterationTrace:
        """What happened in an outer iteration, as arrays of the host's."""
        given = (moment.before, moment.normaliser, moment.transitions, moment.picks, moment.progress, moment.numbers)
        lanes = self._lanes
        if lanes is None:
            self._program = self._program or jax.jit(self._trace)
            return jax.tree.map(np.asarray, self._program(*given))
        many = jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf)[None], lanes, axis=0), given)
        self._program = self._program or jax.jit(jax.vmap(self._trace)).lower(*many).compile(some_effort())
        return jax.tree.map(lambda leaf: np.asarray(leaf[0]), self._program(*many))

    def _trace(
        self,
        before: LearnerState,
        normaliser: Any,
        transitions: Any,
        picks: Int[Array, "M b"],
        progress: Float[Array, ""],
        numbers: dict[str, Array],
    ) -> IterationTrace:
        configuration, network = self._shape.with_numbers(numbers), self._network
        seen = normalised(normaliser, transitions)
        after, trace = outer_iteration(
            configuration, network, before, seen, picks, progress=progress, keep_iterates=True
        )
        source = make_gradients(configuration.gradients, network)
        batch = make_batch(configuration.gradients, network, seen, frozen_parameters(configuration, before))
        inner = jax.tree.leaves(trace.deltas)[0].shape[0] - 1
        rows = batch.rows(picks[:inner])

        def gradients(thetas: Parameters) -> Parameters:
            def one(theta: Parameters, pick: Batch) -> Parameters:
                compact = source.query(theta, jax.tree.map(lambda leaf: leaf[None], pick))[0]
                return source.dense(jax.tree.map(lambda leaf: leaf[0], compact))

            return jax.vmap(one)(thetas, rows)

        thetas = jax.tree.map(lambda leaf: leaf[:-1], trace.iterates)  # θ_0 … θ_M
        at_picks = jax.tree.map(lambda leaf: leaf[1:], thetas)
        name = configuration.estimator.estimator
        reference = None if name == "none" else _REFERENCES.get(estimator(name).reference)
        return IterationTrace(
            after,
            trace.loss,
            trace.max_q,
            _norms(trace.iterates),
            _norms(trace.deltas),
            _norms(jax.tree.map(lambda leaf: leaf[1:] - leaf[:-1], trace.iterates)),
            _norms(gradients(at_picks)) if inner else jnp.zeros(0),
            _norms(gradients(reference(thetas))) if inner and reference is not None else None,
            _said(network, before.parameters, batch),
            jax.vmap(lambda theta, pick: _said(network, theta, pick))(at_picks, rows)
            if inner
            else PickTrace(*[jnp.zeros((0, 1))] * 3),
            scaled_norm(after.parameters),
            _adam(configuration, after, trace, progress),
        )


def _said(network: Network, theta: Parameters, batch: Batch) -> PickTrace:
    """Q(S, A; θ), y and its error for every row."""
    values = network.q_values(theta, batch.observation)
    q = jnp.take_along_axis(values, batch.action[..., None], axis=-1)[..., 0]
    if batch.frozen_target is not None:
        target = batch.frozen_target
    else:
        target = bellman_target(batch.reward, batch.discount, network.q_values(theta, batch.next_observation))
    return PickTrace(q, target, target - q)


def _adam(
    configuration: Configuration, after: LearnerState, trace: Any, progress: Float[Array, ""]
) -> AdamTrace | None:
    settings = configuration.optimiser
    if not settings.adam_process and settings.step != "adam":
        return None
    from_gradient = settings.adam_process and settings.adam_input == "gradient"
    entered = clip(settings, trace.last_gradient if from_gradient else trace.last_delta)
    denominators = jax.tree.leaves(denominator_of(settings, after.adam))
    factor = schedule(settings, progress) * settings.alpha
    return AdamTrace(
        scaled_norm(entered),
        scaled_norm(after.adam.first),
        scaled_norm(after.adam.second),
        jnp.stack([leaf.min() for leaf in denominators]).min(),
        jnp.stack([leaf.max() for leaf in denominators]).max(),
        factor * scaled_norm(direction_of(settings, after.adam)),
    )


def scaled_norm(tree: Parameters) -> Float[Array, ""]:
    """The norm of all numbers in a tree, infinite only where one of them is, and no number where one is none."""
    leaves = [leaf.ravel() for leaf in jax.tree.leaves(tree)]
    largest = jnp.stack([jnp.abs(leaf).max() for leaf in leaves]).max()
    scale = jnp.where((largest > 0) & jnp.isfinite(largest), largest, 1.0)
    squares = jnp.stack([((leaf / scale) ** 2).sum() for leaf in leaves]).sum()
    return jnp.where(jnp.isfinite(largest), scale * jnp.sqrt(squares), largest)


def _norms(stack: Parameters) -> Float[Array, " stacked"]:
    return jax.vmap(scaled_norm)(stack)
