"""Segments of a round recomputed where equal bits are not to be expected, each from a state that the run itself kept.

Rounds are chaotic: a difference in the last bit grows until two trajectories have nothing in common. So ends of runs
say nothing, and segments are compared, each from a checkpoint to the next. How much of an error rounding explains is
measured in the same segment: copies of the round begin with parameters of which every number is another one in its last
bit, and the distance at which they end, times a factor, is the bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import jax
import numpy as np
import polars as pl

from srgdqn.again.checkpoints import Kept, checkpoints_of
from srgdqn.again.living import lived_again
from srgdqn.again.subject import Subject

FACTOR = 100.0
"""Programs of another kind round in every operation of every iteration, the copies were changed but once."""
COPIES = 3
LEAST_BOUND = 1e-5

Finding = Literal["agrees", "differs", "undecided"]


@dataclass(frozen=True)
class SegmentCheck:
    """A segment that was recomputed."""

    number: int
    from_step: int
    until_step: int
    moved: float
    """How far the parameters went in it: the norm of the difference."""
    error: float
    """How far the recomputed ones ended from the stored ones."""
    largest_error: float
    """Of a single number."""
    largest_relative_error: float
    """Likewise, relative to the stored number's size, of numbers that are not tiny among their array's."""
    rounding: float
    """How far copies ended that began with another last bit."""
    parted_at: int | None
    """The environment step by which episodes ended otherwise than in the run; None if all ended alike."""

    @property
    def share(self) -> float:
        """The error relative to the distance moved."""
        return _ratio(self.error, self.moved)

    @property
    def bound(self) -> float:
        """What rounding may explain of that."""
        return max(LEAST_BOUND, FACTOR * _ratio(self.rounding, self.moved))

    @property
    def finding(self) -> Finding:
        """Whether it agrees. Where rounding explains any error, nothing can be told."""
        if self.error == 0.0:
            return "agrees"
        if not np.isfinite(self.bound) or self.bound >= 1.0:
            return "undecided"
        return "agrees" if self.share <= self.bound else "differs"

    @property
    def words(self) -> str:
        """What was found, in a sentence."""
        said = f"the error is {self.share:.2g} of the distance moved"
        if self.error == 0.0:
            return "the same to the bit"
        if self.finding == "undecided":
            return f"{said}; a change of the last bit grows so large here that nothing follows from that"
        return f"{said}, {'within' if self.finding == 'agrees' else 'BEYOND'} the bound of {self.bound:.2g}"


def check_segments(subject: Subject, number: int) -> Iterator[SegmentCheck]:
    """Every segment of a round: from its beginning to its first checkpoint, from each to the next, and from the last to
    its end, whose parameters the run has.
    """
    kept = checkpoints_of(subject, number)
    lived = subject.row_of(number)["steps"]
    end = -(-lived // subject.block)
    starts: list[Kept | None] = [None, *(each for each in kept if not each.at_the_end and each.blocks < end)]
    for start, upcoming in zip(starts, [*starts[1:], None], strict=True):
        blocks = end if upcoming is None else upcoming.blocks
        stored = subject.result.parameters_of(number) if upcoming is None else upcoming.policy()
        yield _check(subject, number, start, min(blocks * subject.block, lived), blocks, stored)


def _check(
    subject: Subject, number: int, start: Kept | None, until: int, blocks: int, stored: dict[str, np.ndarray]
) -> SegmentCheck:
    with lived_again(subject, number, start) as round_:
        first, begin = round_.steps, round_.policies()[0]
        round_.beside_copies([_nudged(round_.parameters(), seed) for seed in range(COPIES)])
        round_.advance(blocks)
        own, *copies = round_.policies()
        ends = np.concatenate(round_.ends) if round_.ends else np.zeros(0, int)
    apart = {path: own[path].astype(float) - array.astype(float) for path, array in stored.items()}
    return SegmentCheck(
        number,
        first,
        until,
        moved=_distance(stored, begin),
        error=_distance(own, stored),
        largest_error=max((float(np.abs(each).max()) for each in apart.values() if each.size), default=0.0),
        largest_relative_error=max((_relative(apart[path], array) for path, array in stored.items()), default=0.0),
        rounding=max((_distance(copy, own) for copy in copies), default=0.0),
        parted_at=parted_at(subject, number, first, until, ends),
    )


def _nudged(parameters: Any, seed: int) -> Any:
    """Parameters of which every number is the next one above or below."""
    generator = np.random.default_rng(seed)

    def nudge(leaf: np.ndarray) -> np.ndarray:
        towards = np.where(generator.random(leaf.shape) < 0.5, -np.inf, np.inf).astype(leaf.dtype)
        return np.nextafter(leaf, towards)

    return jax.tree.map(lambda leaf: nudge(np.asarray(leaf)), parameters)


def _distance(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> float:
    parts = [(one[path].astype(float) - other[path].astype(float)).ravel() for path in one if path in other]
    return float(np.linalg.norm(np.concatenate(parts)))


def _relative(apart: np.ndarray, stored: np.ndarray) -> float:
    if not stored.size:
        return 0.0
    sizes = np.abs(stored.astype(float))
    floor = 1e-3 * float(sizes.max()) or 1.0
    return float((np.abs(apart) / np.maximum(sizes, floor)).max())


def parted_at(subject: Subject, number: int, first: int, until: int, ends: np.ndarray) -> int | None:
    """When the ends of episodes first were others."""
    mine = subject.result.episodes.filter((pl.col("round") == number) & pl.col("step").is_between(first + 1, until))
    stored, found = mine["step"].to_numpy(), ends[ends <= until]
    common = min(len(stored), len(found))
    places = np.flatnonzero(stored[:common] != found[:common])
    if len(places):
        return int(min(stored[places[0]], found[places[0]]))
    if len(stored) != len(found):
        return int((stored if len(stored) > common else found)[common])
    return None


def _ratio(part: float, whole: float) -> float:
    if whole == 0.0:
        return 0.0 if part == 0.0 else float("inf")
    return part / whole
