"""How the rounds of a run are shared out among chunks: those that were kept as they were, the others anew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from srgdqn.runs.checkpoint_manager import Keeping
from srgdqn.training.chunk_checkpoint import Seats, seats_of
from srgdqn.training.parts import Part
from srgdqn.training.program import Programs

# More boards to a chunk leave fewer lanes idle, but logs of a page and two copies of its rounds' states are in memory.
_MOST_BOARDS, _MOST_BYTES = 4, 2**25


class Chunk(NamedTuple):
    """Rounds that run side by side."""

    seats: Seats  # whose rounds sit in it
    parts: list[Part]  # of those that are asked for
    kept_as: str | None = None  # the strand that it was found in


def most_boards(programs: Programs) -> int:
    """The boards that a chunk may have."""
    return max(1, min(_MOST_BOARDS, _MOST_BYTES // programs.board_bytes))


def chunks_of(left: Sequence[range], together: int, workers: int, most: int) -> list[range]:
    """Ranges of at most so many rounds, whole groups of those that run together, with a share for every worker.

    >>> chunks_of([range(50)], together=8, workers=2, most=100)
    [range(0, 32), range(32, 50)]
    """
    groups = -(-sum(map(len, left)) // together)
    size = together * max(1, min(most // together, -(-groups // workers)))
    return [rounds[start : start + size] for rounds in left for start in range(0, len(rounds), size)]


def saved_chunks(keeping: Keeping, who: Sequence[str], rounds: int) -> list[Chunk]:
    """The chunks that are kept of rounds of these configurations, each of which has so many. One that has rounds of
    others as well serves only if it is at its end.
    """
    places = {each: place for place, each in enumerate(who)}
    found: list[Chunk] = []
    taken: set[tuple[str, int]] = set()
    for name in keeping.strands():
        kept = keeping.look(name, lambda checkpoint: (seats_of(checkpoint), checkpoint.about.get("last") is True))
        if kept is None:
            continue
        seats, last = kept
        parts = list(_parts(seats, places))
        mine = {(each, number) for each, first, stop in seats if each in places for number in range(first, stop)}
        usable = parts and (last or len(parts) == len(seats)) and all(number < rounds for _, number in mine)
        if usable and not mine & taken:
            found.append(Chunk(seats, parts, name))
            taken |= mine
    return found


def seats_left(count: int, rounds: int, saved: Iterable[Chunk]) -> list[range]:
    """Of so many seats, those that no chunk has yet, where every configuration has so many rounds.

    >>> seats_left(6, 3, [Chunk([], [Part(0, range(1, 3), slice(0, 2)), Part(1, range(0, 1), slice(2, 3))])])
    [range(0, 1), range(4, 6)]
    """
    gone = {part.configuration * rounds + number for chunk in saved for part in chunk.parts for number in part.rounds}
    left: list[range] = []
    for seat in (seat for seat in range(count) if seat not in gone):
        if left and left[-1].stop == seat:
            left[-1] = range(left[-1].start, seat + 1)
        else:
            left.append(range(seat, seat + 1))
    return left


def _parts(seats: Seats, places: dict[str, int]) -> Iterable[Part]:
    before = 0
    for who, first, stop in seats:
        if who in places:
            yield Part(places[who], range(first, stop), slice(before, before + stop - first))
        before += stop - first
