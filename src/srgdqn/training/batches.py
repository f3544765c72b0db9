"""Where an outer iteration's batch D, its inner picks and, if need be, its anchor come from.

The replay is the usual source. Another, such as a recording of an earlier run with anchors over all that was
recorded (SVR-DQN with exact anchors), takes its place among a run's `Instruments`: the loop is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, UInt32

from srgdqn.config import Configuration
from srgdqn.learner.estimator import Origin
from srgdqn.learner.gradients import Transitions
from srgdqn.learner.n_step import gather
from srgdqn.learner.networks import Network, Parameters
from srgdqn.learner.outer_iteration import LearnerState, batch_rows, coins_needed, replay_rows
from srgdqn.learner.own_rules import Drawing
from srgdqn.learner.prioritised import Priorities, draw_slots
from srgdqn.learner.replay import Ring, draw_ages, made_at, unpack
from srgdqn.training.draws import BatchDraws


class OuterBatch(NamedTuple):
    """What an outer iteration is made on: D, and the picks from it."""

    transitions: Transitions
    picks: Int[Array, "M b"]
    origin: Origin | None = None  # where D is in the replay
    anchor: Parameters | None = None  # Δ_0, where it is not to be the gradient on D
    weights: Float[Array, " rows"] | None = None  # of the rows' losses, where they are not all 1
    beyond: Callable[[], Transitions] | None = None  # rows of the replay beyond D, where the estimator may ask for them
    coins: Float[Array, " directions"] | None = None  # random numbers, where the estimator uses such
    renewed: Bool[Array, ""] | None = None  # whether a hard target is copied first, where environment steps say when
    noise: UInt32[Array, " words"] | None = None  # a key's data, where the network has noise


class BatchContext(NamedTuple):
    """What is known when an outer iteration is due."""

    configuration: Configuration
    network: Network
    learner: LearnerState | None  # None where the batch of a recording is drawn once more
    ring: Ring
    block: Int[Array, ""]  # the number of the one just done
    draws: BatchDraws
    data: Any  # the round's own, where the run was given any


BatchSource = Callable[[BatchContext], OuterBatch]


def from_replay(context: BatchContext) -> OuterBatch:
    """D drawn from the replay, and the picks from D."""
    ring, configuration = context.ring, context.configuration
    priorities = None if context.learner is None else context.learner.priorities
    chosen = choose_rows(configuration, ring.shape[0], context.block, context.draws, priorities=priorities)

    def gathered(slots: Any) -> Transitions:
        return unpack(gather(ring, slots, chosen.origin.written, configuration.replay.n_step))

    beyond = None if chosen.beyond is None else lambda: gathered(chosen.beyond)
    return OuterBatch(
        gathered(chosen.origin.slots),
        chosen.picks,
        chosen.origin,
        None,
        chosen.weights,
        beyond,
        chosen.coins,
        chosen.renewed,
        chosen.noise,
    )


class ChosenRows(NamedTuple):
    """Which of a replay's slots an outer iteration is made on."""

    origin: Origin  # of D
    weights: Float[Array, " rows"] | None  # of the losses of its rows, where they are not all 1
    picks: Int[Array, "M b"]  # rows of D
    beyond: Int[Array, " more"] | None  # slots of the rows beyond D, where the estimator may ask for them
    coins: Float[Array, " directions"] | None  # random numbers, where it uses such
    renewed: Bool[Array, ""] | None = None  # whether a hard target is copied first, where environment steps say when
    noise: UInt32[Array, " words"] | None = None  # a key's data, where the network has noise


def choose_rows(
    configuration: Configuration,
    slots: int,
    block: Int[Array, ""],
    draws: BatchDraws,
    before: Array | int = 0,
    priorities: Priorities | None = None,
) -> ChosenRows:
    """The rows for the outer iteration once a block is done, from a replay of so many slots, which was empty when so
    many blocks had been done `before`. `priorities` are those at its start, where D is drawn by them.
    """
    inner, rows = configuration.estimator, batch_rows(configuration)
    written = (block + 1 - before) * configuration.training.learning_frequency
    slots_key, picks_key = jax.random.split(draws.sampling)
    stored = jnp.minimum(written, configuration.replay.replay_capacity)
    weights = None
    if configuration.replay.sampling == "prioritised":
        if priorities is None:
            raise ValueError("sampling = 'prioritised' depends on the learner's state: give its priorities")
        chosen = draw_slots(priorities, slots_key, rows)
    else:
        drawn = draw_ages(configuration.replay, Drawing(rows, stored, draws.batch, slots_key))
        chosen, weights = (written - 1 - drawn.ages) % slots, drawn.weights
    if inner.inner_sampling == "with-replacement":
        picks = (draws.picks % rows).astype(jnp.int32)
    else:
        order = jax.random.uniform(picks_key, (inner.inner_iterations, rows))
        picks = jnp.argsort(order, axis=-1)[:, : inner.inner_batch]
    more, beyond = replay_rows(configuration), None
    if more:
        age = jax.random.randint(draws.beyond, (more,), 0, stored)
        beyond = (written - 1 - age) % slots
    count = coins_needed(configuration)
    coins = draws.coins(count) if count else None
    earlier = before * configuration.training.learning_frequency
    origin = Origin(chosen, earlier + made_at(chosen, slots, written), earlier + written, stored)
    renewed = target_renewed(configuration, block, draws.which)
    noise = draws.noise if configuration.network.has_noise else None
    return ChosenRows(origin, weights, picks, beyond, coins, renewed, noise)


def target_renewed(configuration: Configuration, block: Int[Array, ""], which: Int[Array, ""]) -> Any:
    """Whether a hard target network is copied before an outer iteration after this block: before the first of them, if
    the block's steps, counted from 1, have a multiple of `target_update_interval` among them. None without such.
    """
    interval = configuration.gradients.target_update_interval
    if interval is None:
        return None
    steps, every = configuration.training.learning_frequency, jnp.asarray(interval).astype(jnp.int32)
    return (which == 0) & ((block + 1) * steps // every > block * steps // every)
