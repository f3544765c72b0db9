"""Where an outer iteration's batch D, its inner picks and, if need be, its anchor come from.

The replay is the usual source. Another, such as a recording of an earlier run with anchors over all that was
recorded (SVR-DQN with exact anchors), takes its place among a run's `Instruments`: the loop is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from srgdqn.config import Configuration
from srgdqn.learner.gradients import Transitions
from srgdqn.learner.networks import Network, Parameters
from srgdqn.learner.outer_iteration import LearnerState, batch_rows
from srgdqn.learner.replay import draw_slots, unpack
from srgdqn.training.draws import Draws


class OuterBatch(NamedTuple):
    """What an outer iteration is made on: D, and the picks from it."""

    transitions: Transitions
    picks: Int[Array, "M b"]
    slots: Int[Array, " rows"] | None = None  # of the replay that D was drawn from
    anchor: Parameters | None = None  # Δ_0, where it is not to be the gradient on D


Ring = Float[Array, "slots width"]


class BatchContext(NamedTuple):
    """What is known when an outer iteration is due."""

    configuration: Configuration
    network: Network
    learner: LearnerState | None  # None where the batch of a recording is drawn once more
    ring: Ring
    block: Int[Array, ""]  # the number of the one just done
    draws: Draws
    data: Any  # the round's own, where the run was given any


BatchSource = Callable[[BatchContext], OuterBatch]


def from_replay(context: BatchContext) -> OuterBatch:
    """D drawn from the replay, and the picks from D."""
    ring = context.ring
    slots, picks = choose_rows(context.configuration, ring.shape[0], context.block, context.draws)
    return OuterBatch(unpack(ring[slots]), picks, slots)


def choose_rows(
    configuration: Configuration, slots: int, block: Int[Array, ""], draws: Draws
) -> tuple[Int[Array, " rows"], Int[Array, "M b"]]:
    """Which of a replay's slots make up D once a block is done, and the picks from D."""
    inner, rows = configuration.estimator, batch_rows(configuration)
    written = (block + 1) * configuration.training.learning_frequency
    slots_key, picks_key = jax.random.split(draws.sampling)
    chosen = draw_slots(configuration.replay, slots, written, draws.batch, slots_key)
    if inner.inner_sampling == "with-replacement":
        picks = (draws.picks % rows).astype(jnp.int32)
    else:
        order = jax.random.uniform(picks_key, (inner.inner_iterations, rows))
        picks = jnp.argsort(order, axis=-1)[:, : inner.inner_batch]
    return chosen, picks
