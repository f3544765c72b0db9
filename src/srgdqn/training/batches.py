"""Where an outer iteration's batch D, its inner picks and, if need be, its anchor come from.

The live replay is the one source there is. Another, such as a recording of an earlier run with anchors over all that
was recorded (SVR-DQN with exact anchors), takes its place as `Program.source`: the loop is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from srgdqn.gradients import Transitions
from srgdqn.learner import LearnerState, batch_rows
from srgdqn.networks import Parameters
from srgdqn.replay import draw_slots, unpack
from srgdqn.settings import Configuration
from srgdqn.training.draws import Draws


class Served(NamedTuple):
    """What an outer iteration is made on."""

    transitions: Transitions
    picks: Int[Array, "M b"]
    anchor: Parameters | None = None  # Δ_0, where it is not to be the gradient on D


Ring = Float[Array, "slots width"]
BatchSource = Callable[[Configuration, LearnerState, Ring, Int[Array, ""], Draws], Served]
"""From (configuration, learner, ring, block, draws) to what the outer iteration after that block is made on."""


def from_replay(
    configuration: Configuration, learner: LearnerState, ring: Ring, index: Int[Array, ""], draws: Draws
) -> Served:
    """D drawn from the live replay, and the picks from D."""
    del learner
    inner, rows = configuration.estimator, batch_rows(configuration)
    written = (index + 1) * configuration.training.learning_frequency
    slots_key, picks_key = jax.random.split(draws.sampling)
    slots = draw_slots(configuration.replay, ring.shape[0], written, draws.batch, slots_key)
    if inner.inner_sampling == "with-replacement":
        picks = (draws.picks % rows).astype(jnp.int32)
    else:
        order = jax.random.uniform(picks_key, (inner.inner_iterations, rows))
        picks = jnp.argsort(order, axis=-1)[:, : inner.inner_batch]
    return Served(unpack(ring[slots]), picks)
