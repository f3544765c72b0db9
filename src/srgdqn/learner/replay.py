"""First-in-first-out memory of one round, written a block of transitions at a time.

A transition is one packed row of numbers, so that writing a block is one copy and drawing a batch one gather. Rows lie
in a ring whose length is the capacity rounded up to whole blocks; only the newest `replay_capacity` transitions are
ever drawn, so the memory is exactly first-in-first-out at its nominal capacity.

Every replay has this layout, in a compiled program and on the host; one of images has the scalars alone.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from srgdqn.config import ReplaySettings
from srgdqn.config.discovery import OWN_RULES
from srgdqn.errors import UserCodeError
from srgdqn.learner.gradients import Transitions
from srgdqn.learner.guarded import calling
from srgdqn.learner.own_rules import Drawing, Drawn

Ring = Float[Array, "slots width"]

SCALARS = {"action": np.dtype(np.int32), "reward": np.dtype(np.float32), "terminated": np.dtype(np.float32)}
"""The numbers of a transition beside S and S', in the order of a row, with their types on the host."""

BACK = np.dtype(np.float32)
"""The type of what rows have beyond, for n-step returns: how many transitions before it the one before it in its
episode was written; 0 where it is the first.
"""


def ring_length(settings: ReplaySettings, block: int) -> int:
    """The capacity, rounded up to whole blocks."""
    return -(-settings.replay_capacity // block) * block


def row_width(size: int, n_step: int = 1) -> int:
    """The length of a row between observations of so many numbers; odd, and even where there are n-step returns."""
    return 2 * size + len(SCALARS) + (n_step > 1)


def observation_width(rows: Any) -> int:
    """The numbers of an observation in packed rows."""
    width: int = rows.shape[-1]
    return (width - len(SCALARS)) // 2


def pack(transitions: Transitions, back: Array | None = None) -> Float[Array, "*rows width"]:
    """Transitions as rows: S, S', then the scalars, and for n-step returns how far back the one before each is."""
    dtype = transitions.reward.dtype
    scalars = [getattr(transitions, name).astype(dtype) for name in SCALARS]
    if back is not None:
        scalars.append(back.astype(dtype))
    return jnp.concatenate(
        [transitions.observation, transitions.next_observation, jnp.stack(scalars, axis=-1)], axis=-1
    )


def pack_into(rows: np.ndarray, transitions: Transitions, back: np.ndarray | None = None) -> None:
    """Writes transitions on the host into as many rows."""
    size = observation_width(rows)
    rows[:, :size], rows[:, size : 2 * size] = transitions.observation, transitions.next_observation
    for place, name in enumerate(SCALARS):
        rows[:, 2 * size + place] = getattr(transitions, name)
    if back is not None:
        rows[:, -1] = back


def scalar_of(rows: Any, name: str) -> Any:
    """One of the scalars of packed rows."""
    return rows[..., column_of(rows, name)]


def column_of(rows: Any, name: str) -> int:
    """Where it is in them."""
    return 2 * observation_width(rows) + list(SCALARS).index(name)


def unpack(gathered: Float[Array, "*rows width"] | Transitions) -> Transitions:
    """The transitions that `pack` packed; those between images are not packed, and returned as they are."""
    if isinstance(gathered, Transitions):
        return gathered
    size = observation_width(gathered)
    scalars = {name: scalar_of(gathered, name) for name in SCALARS}
    scalars["action"] = scalars["action"].astype(jnp.int32)
    return Transitions(observation=gathered[..., :size], next_observation=gathered[..., size : 2 * size], **scalars)


def write(ring: Ring, written: Int[Array, ""], block: Float[Array, "block width"], keep: Array) -> Ring:
    """The ring after a block of rows, `written` transitions having been written before (a multiple of the block).

    Where `keep` is false the block is not written and the ring stays as it is.
    """
    start = written % ring.shape[0]
    old = jax.lax.dynamic_slice_in_dim(ring, start, block.shape[0])
    return jax.lax.dynamic_update_slice_in_dim(ring, jnp.where(keep, block, old), start, axis=0)


def made_at(slots: Any, length: int, written: Any) -> Any:
    """The steps, counted from 1, that made the transitions at some slots of a ring of that length; below 1 where there
    is none yet.
    """
    return written - (written - 1 - slots) % length


def _checked(name: str, drawn: Any, drawing: Drawing) -> Drawn:
    """What a rule of the user's draws: as many whole numbers as there are rows, none beyond what is stored."""
    problem = None
    if not isinstance(drawn, Drawn):
        problem = f"gives a {type(drawn).__name__}"
    elif jnp.shape(drawn.ages) != (drawing.rows,) or not jnp.issubdtype(jnp.result_type(drawn.ages), jnp.integer):
        problem = f"gives ages of shape {jnp.shape(drawn.ages)} and type {jnp.result_type(drawn.ages)}"
    elif drawn.weights is not None and jnp.shape(drawn.weights) != (drawing.rows,):
        problem = f"gives weights of shape {jnp.shape(drawn.weights)}"
    if problem is not None:
        raise UserCodeError(
            f"sampling = {name!r} {problem}. Return Drawn(ages, weights) with a whole number from 0 to stored - 1 for "
            f"each of the {drawing.rows} rows, and weights of as many rows, or none."
        )
    return drawn._replace(ages=jnp.clip(drawn.ages, 0, drawing.stored - 1))


def draw_ages(settings: ReplaySettings, drawing: Drawing) -> Drawn:
    """The transitions of a batch.

    The words are enough for drawing with replacement (their remainder by a few thousand stored transitions is uniform
    to within a relative 1e-6); the key serves drawing without.
    """
    rows, stored, words, key = drawing
    if settings.sampling in OWN_RULES["sampling"]:
        rule = calling(f"the rule {settings.sampling!r} for sampling", OWN_RULES["sampling"][settings.sampling])
        return _checked(settings.sampling, rule(drawing), drawing)
    if settings.sampling == "newest":
        return Drawn(jnp.arange(rows))
    if settings.sampling == "with-replacement":
        return Drawn((words % stored.astype(words.dtype)).astype(jnp.int32))
    order = jax.random.uniform(key, (settings.replay_capacity,))
    present = jnp.arange(settings.replay_capacity) < stored
    return Drawn(jax.lax.top_k(jnp.where(present, order, -1.0), rows)[1])
