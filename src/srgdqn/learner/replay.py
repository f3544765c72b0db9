"""First-in-first-out memory of one round, written a block of transitions at a time.

A transition is one packed row of numbers, so that writing a block is one copy and drawing a batch one gather. Rows lie
in a ring whose length is the capacity rounded up to whole blocks; only the newest `replay_capacity` transitions are
ever drawn, so the memory is exactly first-in-first-out at its nominal capacity.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt32

from srgdqn.config import ReplaySettings
from srgdqn.learner.gradients import Transitions

Ring = Float[Array, "slots width"]


def ring_length(settings: ReplaySettings, block: int) -> int:
    """The capacity, rounded up to whole blocks."""
    return -(-settings.replay_capacity // block) * block


def pack(transitions: Transitions) -> Float[Array, "*rows width"]:
    """Transitions as rows: S, S', A, R, whether terminated."""
    observation, action, reward, next_observation, terminated = transitions
    scalars = jnp.stack([action.astype(reward.dtype), reward, terminated.astype(reward.dtype)], axis=-1)
    return jnp.concatenate([observation, next_observation, scalars], axis=-1)


def unpack(rows: Float[Array, "*rows width"]) -> Transitions:
    """The transitions that `pack` packed."""
    size = (rows.shape[-1] - 3) // 2
    return Transitions(
        observation=rows[..., :size],
        action=rows[..., 2 * size].astype(jnp.int32),
        reward=rows[..., 2 * size + 1],
        next_observation=rows[..., size : 2 * size],
        terminated=rows[..., 2 * size + 2],
    )


def write(ring: Ring, written: Int[Array, ""], block: Float[Array, "block width"], keep: Array) -> Ring:
    """The ring after a block of rows, `written` transitions having been written before (a multiple of the block).

    Where `keep` is false the block is not written and the ring stays as it is.
    """
    start = written % ring.shape[0]
    old = jax.lax.dynamic_slice_in_dim(ring, start, block.shape[0])
    return jax.lax.dynamic_update_slice_in_dim(ring, jnp.where(keep, block, old), start, axis=0)


def draw_slots(
    settings: ReplaySettings, slots: int, written: Int[Array, ""], words: UInt32[Array, " rows"], key: PRNGKeyArray
) -> Int[Array, " rows"]:
    """The slots of a batch, `written` transitions having been written so far to a ring of `slots`.

    `words` are as many random 32-bit words as the batch has rows, enough for drawing with replacement (their remainder
    by a few thousand live transitions is uniform to within a relative 1e-6); `key` serves drawing without.
    """
    rows = words.shape[0]
    live = jnp.minimum(written, settings.replay_capacity)
    if settings.sampling == "newest":
        age = jnp.arange(rows)
    elif settings.sampling == "with-replacement":
        age = (words % live.astype(words.dtype)).astype(jnp.int32)
    else:
        priority = jax.random.uniform(key, (settings.replay_capacity,))
        alive = jnp.arange(settings.replay_capacity) < live
        age = jax.lax.top_k(jnp.where(alive, priority, -1.0), rows)[1]
    return (written - 1 - age) % slots
