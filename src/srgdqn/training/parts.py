"""The rounds of one configuration in a chunk that has rounds of several: where they sit, and what is theirs."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from srgdqn.training.tables import Tables


class Part(NamedTuple):
    """The rounds of one configuration in a chunk."""

    configuration: int  # its place among all
    rounds: range
    seats: slice  # where they sit among the rounds of the chunk


class PartResult(NamedTuple):
    """What they left."""

    part: Part
    tables: Tables
    policies: dict[str, np.ndarray]
    whole: bool  # not cut short
    probed: list[tuple[np.ndarray, Any]]  # numbers of blocks, and their rows
    ring: np.ndarray | None = None  # where it is a recording


def parts_of(chunk: range, rounds: int) -> list[Part]:
    """Whose rounds sit on the seats of a chunk, where every configuration has so many, one after the other.

    >>> [(part.configuration, part.rounds) for part in parts_of(range(5, 11), rounds=4)]
    [(1, range(1, 4)), (2, range(0, 3))]
    """
    parts = []
    for place in range(chunk.start // rounds, -(-chunk.stop // rounds)):
        first, last = max(chunk.start, place * rounds), min(chunk.stop, (place + 1) * rounds)
        numbers = range(first - place * rounds, last - place * rounds)
        parts.append(Part(place, numbers, slice(first - chunk.start, last - chunk.start)))
    return parts


def taken(tree: Any, seats: slice) -> Any:
    """The rows of some seats, of anything that has an axis of seats first."""
    return jax.tree.map(lambda leaf: leaf[seats], tree)
