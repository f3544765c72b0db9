"""How the rounds of a run are shared out among jobs: checkpointed ones as they were, the others anew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.training.loop import Owners, owners_of, position_of
from srgdqn.training.program import Programs

# More chunks to a job leave fewer lanes idle, but a page of their logs and two copies of their states are in memory.
_MOST_CHUNKS, _MOST_BYTES = 4, 2**25


class Share(NamedTuple):
    """The rounds of one configuration in a job."""

    digest: str  # of the configuration
    rounds: range
    place: int | None = None  # of the configuration among those asked for; None: nobody asks for these rounds


Shares = tuple[Share, ...]


def most_rounds(programs: Programs) -> int:
    """The rounds that a job may have."""
    return programs.width * max(1, min(_MOST_CHUNKS, _MOST_BYTES // programs.chunk_bytes))


def shared_out(left: Sequence[range], together: int, workers: int, most: int) -> list[range]:
    """Ranges of at most so many rounds, whole groups of those that run together, with a share for every worker.

    >>> shared_out([range(50)], together=8, workers=2, most=100)
    [range(0, 32), range(32, 50)]
    """
    groups = -(-sum(map(len, left)) // together)
    size = together * max(1, min(most // together, -(-groups // workers)))
    return [rounds[start : start + size] for rounds in left for start in range(0, len(rounds), size)]


def shares_of(stretch: range, digests: Sequence[str], rounds: int) -> Shares:
    """Whose rounds are in a range of all, where every configuration has so many, one after the other.

    >>> [(share.place, share.rounds) for share in shares_of(range(5, 11), ["a", "b", "c"], rounds=4)]
    [(1, range(1, 4)), (2, range(0, 3))]
    """
    places = range(stretch.start // rounds, -(-stretch.stop // rounds))
    firsts = [max(stretch.start - place * rounds, 0) for place in places]
    stops = [min(stretch.stop - place * rounds, rounds) for place in places]
    return tuple(Share(digests[p], range(a, b), p) for p, a, b in zip(places, firsts, stops, strict=True))


def saved_shares(manager: CheckpointManager, digests: Sequence[str], rounds: int) -> dict[str, Shares]:
    """The shares of checkpointed jobs, by name, that have rounds of these configurations, each of which has so many.
    A job that has rounds of others as well serves only if it is at its end.
    """
    found: dict[str, Shares] = {}
    taken: set[tuple[str, int]] = set()
    for name in manager.jobs():
        looked = manager.look(name, lambda checkpoint: (owners_of(checkpoint), position_of(checkpoint)[1]))
        if looked is None:
            continue
        shares = owned_shares(looked[0], digests)
        mine = {(each.digest, number) for each in shares if each.place is not None for number in each.rounds}
        all_asked_for = all(each.place is not None for each in shares)
        usable = mine and (looked[1] or all_asked_for) and all(number < rounds for _, number in mine)
        if usable and not mine & taken:
            found[name] = shares
            taken |= mine
    return found


def owned_shares(owners: Owners, digests: Sequence[str]) -> Shares:
    """The shares of a checkpointed job, with the places of those who ask now."""
    places = {each: place for place, each in enumerate(digests)}
    return tuple(Share(who, range(first, stop), places.get(who)) for who, first, stop in owners)


def rounds_left(configurations: int, rounds: int, saved: Iterable[Shares]) -> list[range]:
    """Of the rounds of all configurations, one after the other, those that no job has yet.

    >>> rounds_left(2, 3, [(Share("a", range(1, 3), 0), Share("b", range(0, 1), 1))])
    [range(0, 1), range(4, 6)]
    """
    gone = {
        share.place * rounds + number
        for shares in saved
        for share in shares
        if share.place is not None
        for number in share.rounds
    }
    left: list[range] = []
    for number in (number for number in range(configurations * rounds) if number not in gone):
        if left and left[-1].stop == number:
            left[-1] = range(left[-1].start, number + 1)
        else:
            left.append(range(number, number + 1))
    return left
