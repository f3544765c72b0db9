"""Segments of a round recomputed where equal bits are not to be expected, each from a state that the run itself kept.
Where they are to be expected after all, any other bit is a difference.

Rounds are chaotic: a difference in the last bit grows until two trajectories have nothing in common. So ends of runs
say nothing, and segments are compared, each from a checkpoint to the next. How much of an error rounding explains is
measured in the same segment: copies of the round begin with a state of which every number is another one in its last
bit, and the distance at which they typically end, times a factor, is the bound.

An error beyond it may still be rounding's: where two actions were as good as each other, the other one may have been
taken. Then the segment's learning is repeated on the transitions that the run itself made, which its checkpoints hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from srgdqn.errors import InputError
from srgdqn.inspection.differences import parameter_differences
from srgdqn.inspection.open_round import lived_again
from srgdqn.inspection.relearn import forced_learning
from srgdqn.inspection.saved_checkpoints import Kept, checkpoints_of
from srgdqn.inspection.saved_run import Subject
from srgdqn.tasks import Task

FACTOR = 100.0
"""Programs of another kind round in every operation of every iteration, the copies were changed but once."""
COPIES = {True: 15, False: 2}
"""How many, of compiled rounds (where they are all but free) and of rounds on the host."""
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
    """How far copies typically ended that began with other last bits: the median."""
    forced: bool
    """Whether it was learned again on the transitions that the run made, as those made here were others."""
    parted_at: int | None
    """The environment step by which episodes ended otherwise here than in the run; None if all ended alike."""
    same_bits: bool
    """Whether every recomputed number is the stored one to the bit."""
    exact: bool
    """Whether conditions are as when the run was made, so that every bit is to be the same."""

    @property
    def identical(self) -> bool:
        """Whether the parameters at its end are the same to the bit."""
        return self.same_bits and not self.forced

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
        """Whether it agrees: to the bit where that is to be expected. Elsewhere, where rounding explains any error, or
        may have led to other transitions and those of the run are not at hand, nothing can be told.
        """
        if self.exact:
            return "agrees" if self.same_bits else "differs"
        if self.error == 0.0:
            return "agrees"
        if not (np.isfinite(self.share) and self.bound < 1.0):
            return "undecided"
        if self.share <= self.bound:
            return "agrees"
        return "differs" if self.forced else "undecided"

    @property
    def words(self) -> str:
        """What was found, in a sentence."""
        if self.identical:
            return "the same to the bit"
        on_its_own = " on the transitions that the run made" if self.forced else ""
        said = f"the error{on_its_own} is {self.share:.2g} of the distance moved"
        if self.exact:
            return f"{said}, where conditions are as when the run was made and every bit is to be the same"
        if self.finding != "undecided":
            return f"{said}, {'within' if self.finding == 'agrees' else 'BEYOND'} the bound of {self.bound:.2g}"
        if self.bound >= 1.0:
            return f"{said}; a change of the last bit grows so large here that nothing follows from that"
        return f"{said}, beyond the bound of {self.bound:.2g}, but other actions may have been taken here"


def check_segments(subject: Subject, number: int, *, exact: bool) -> Iterator[SegmentCheck]:
    """Every segment of a round: from its beginning to its first checkpoint, from each to the next, and from the last to
    its end, whose parameters the run has. Where a checkpoint is damaged, segments go from the one before to the next.

    `exact`: whether conditions are as when the run was made.
    """
    lived = subject.row_of(number)["steps"]
    end = -(-lived // subject.block)
    kept = [each for each in checkpoints_of(subject, number) if not each.at_the_end and each.blocks < end]
    starts: list[Kept] = []
    for upcoming in [*kept, None]:
        blocks = end if upcoming is None else upcoming.blocks
        stored = subject.result.parameters_of(number) if upcoming is None else upcoming.policy()
        check = _lived(subject, number, starts, min(blocks * subject.block, lived), blocks, stored, exact)
        starts = [each for each in starts if each.blocks * subject.block <= check.from_step]  # those after it are bad
        if check.finding == "undecided" and starts and upcoming is not None:
            check = _forced(subject, check, starts[-1], upcoming, stored) or check
        yield check
        if upcoming is not None:
            starts.append(upcoming)


def _lived(
    subject: Subject,
    number: int,
    starts: Sequence[Kept],
    until: int,
    blocks: int,
    stored: dict[str, np.ndarray],
    exact: bool,
) -> SegmentCheck:
    with lived_again(subject, number, *starts) as round_:
        first, begin = round_.steps, round_.policies()[0]
        round_.beside_copies(_copies(subject), _nudge(np.random.default_rng(0)))
        round_.advance(blocks)
        policies = round_.policies()
        ends = np.concatenate(round_.ends) if round_.ends else np.zeros(0, int)
    parted = parted_at(subject, number, first, until, ends)
    return _found((number, first, until), begin, stored, policies, forced=False, parted=parted, exact=exact)


def _forced(
    subject: Subject, check: SegmentCheck, start: Kept, end: Kept, stored: dict[str, np.ndarray]
) -> SegmentCheck | None:
    """The same on the transitions that the run made; None where they are not at hand."""
    if not isinstance(subject.task, Task):
        return None
    learning = forced_learning(subject)
    try:
        states = start.open(), end.open()
    except InputError:  # the end's replay is damaged, which is told of when the next segment begins
        return None
    if not learning.possible(*states):
        return None
    policies = learning.learned(*states, _copies(subject), _nudge(np.random.default_rng(0)))
    span = check.number, check.from_step, check.until_step
    return _found(span, start.policy(), stored, policies, forced=True, parted=check.parted_at, exact=check.exact)


def _copies(subject: Subject) -> int:
    return COPIES[isinstance(subject.task, Task)]


def _found(
    span: tuple[int, int, int],
    begin: dict[str, np.ndarray],
    stored: dict[str, np.ndarray],
    policies: list[dict[str, np.ndarray]],
    *,
    forced: bool,
    parted: int | None,
    exact: bool,
) -> SegmentCheck:
    own, *copies = policies
    apart = {path: own[path].astype(float) - array.astype(float) for path, array in stored.items()}
    return SegmentCheck(
        *span,
        moved=_distance(stored, begin),
        error=_distance(own, stored),
        largest_error=max((float(np.abs(each).max()) for each in apart.values() if each.size), default=0.0),
        largest_relative_error=max((_relative(apart[path], array) for path, array in stored.items()), default=0.0),
        rounding=float(np.median([_distance(copy, own) for copy in copies])),
        forced=forced,
        parted_at=parted,
        same_bits=not parameter_differences(stored, own)[0],
        exact=exact,
    )


def _nudge(generator: np.random.Generator) -> Callable[[np.ndarray], np.ndarray]:
    """From numbers to the next ones above or below, at random. Whole numbers, such as actions, stay what they are."""

    def nudge(numbers: np.ndarray) -> np.ndarray:
        towards = np.where(generator.random(numbers.shape) < 0.5, -np.inf, np.inf).astype(numbers.dtype)
        return np.where(numbers == np.round(numbers), numbers, np.nextafter(numbers, towards))

    return nudge


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
