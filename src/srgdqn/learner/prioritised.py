"""Prioritised replay (Schaul et al. 2016), proportional: transitions are drawn in proportion to p_i = (|δ_i| + ε)^α.

    P(i) = p_i / Σ_k p_k,    w_i = (1 / (stored · P(i)))^β, divided by the largest w in D

New transitions have the largest p so far. After an outer iteration the p of D's rows are those of δ = y - Q(S, A) at
its θ_0. β rises linearly to 1 over the budget.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from srgdqn.config import Configuration, ReplaySettings
from srgdqn.learner import sum_tree
from srgdqn.learner.replay import ring_length


class Priorities(NamedTuple):
    """The p of every slot of the replay, and the largest that any has had."""

    p: sum_tree.Leaves
    largest: Float[Array, ""]


def init_priorities(configuration: Configuration) -> Priorities | None:
    """Those of an empty replay; None where D is not drawn by them."""
    if configuration.replay.sampling != "prioritised":
        return None
    slots = ring_length(configuration.replay, configuration.training.learning_frequency)
    return Priorities(sum_tree.empty(slots), jnp.ones(()))


def remember(configuration: Configuration, priorities: Priorities, written: Array | int) -> Priorities:
    """Once a block of transitions has been written, of `written` ever: the new ones have the largest p, and those that
    are in the ring beyond the replay's capacity 0.
    """
    block, capacity = configuration.training.learning_frequency, configuration.replay.replay_capacity
    slots = ring_length(configuration.replay, block)
    changed = (written - block + jnp.arange(block + slots - capacity)) % slots
    new = jnp.where(jnp.arange(changed.shape[0]) < block, priorities.largest, 0.0)
    return priorities._replace(p=sum_tree.update(priorities.p, changed, new))


def draw_slots(priorities: Priorities, key: PRNGKeyArray, rows: int) -> Int[Array, " rows"]:
    """The slots of D."""
    return sum_tree.draw(priorities.p, jax.random.uniform(key, (rows,), priorities.p.dtype))


def weights(
    settings: ReplaySettings, priorities: Priorities, slots: Int[Array, " rows"], progress: Array | float
) -> Float[Array, " rows"]:
    """Of the losses of D's rows: of w over the largest w nothing is left but (min p / p_i)^β."""
    exponent = settings.importance_exponent + (1 - settings.importance_exponent) * jnp.clip(progress, 0.0, 1.0)
    p = priorities.p[slots]
    return (p.min() / p) ** exponent


def learned(
    settings: ReplaySettings, priorities: Priorities, slots: Int[Array, " rows"], errors: Float[Array, " rows"]
) -> Priorities:
    """After an outer iteration in which the rows of D had these errors δ."""
    most = jnp.finfo(errors.dtype).max / priorities.p.shape[0]  # so that sums are finite
    new = jnp.minimum((jnp.abs(errors) + settings.priority_floor) ** settings.priority_exponent, most)
    return Priorities(sum_tree.update(priorities.p, slots, new), jnp.maximum(priorities.largest, new.max()))
