"""A sum tree: draws of slots in proportion to their numbers, in as many steps as the tree has levels.

What is stored is one array, the tree's leaves. The sums above them are made where slots are drawn, level by level: one
addition per slot, in vectors, costs less than copying arrays for the paths of the leaves that change, and no rounding
error grows, as sums of pairs are never added to.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

Leaves = Float[Array, " leaves"]


def empty(slots: int) -> Leaves:
    """Zeros for at least as many slots: the least power of two that is enough."""
    return jnp.zeros(1 << (slots - 1).bit_length())


def update(leaves: Leaves, slots: Int[Array, " rows"], new: Float[Array, " rows"]) -> Leaves:
    """The leaves with other numbers in some slots; of several for one slot the largest counts."""
    return leaves.at[slots].set(0.0).at[slots].max(new)


def sums(leaves: Leaves) -> list[Float[Array, " nodes"]]:
    """The levels of the tree, from the root, which is the total, to the leaves."""
    levels = [leaves]
    while levels[0].shape[0] > 1:
        levels.insert(0, levels[0][::2] + levels[0][1::2])
    return levels


def find(levels: list[Array], mass: Float[Array, " rows"]) -> Int[Array, " rows"]:
    """The slots at which the sum of the numbers up to there first exceeds each mass, from 0 to below the total. One
    whose number is 0 is never found, however sums are rounded.
    """
    node = jnp.zeros(mass.shape, jnp.int32)
    for level in levels[1:]:
        left, right = level[2 * node], level[2 * node + 1]
        goes_right = (right > 0) & ((mass >= left) | (left <= 0))
        mass = jnp.where(goes_right, mass - left, mass)
        node = 2 * node + goes_right
    return node


def draw(leaves: Leaves, uniform: Float[Array, " rows"]) -> Int[Array, " rows"]:
    """Slots in proportion to their numbers, one from each of as many equal parts of the total (stratified)."""
    rows, levels = uniform.shape[0], sums(leaves)
    return find(levels, (jnp.arange(rows) + uniform) / rows * levels[0][0])
