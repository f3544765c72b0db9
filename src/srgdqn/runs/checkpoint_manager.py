"""When a run's strands of work are kept, and what is done where the disk refuses: training goes on."""

from __future__ import annotations

import contextlib
import functools
import math
import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from srgdqn.errors import InputError
from srgdqn.runs.checkpoint_options import KEPT
from srgdqn.runs.checkpoints import Checkpoint, Journal, Snapshot

EVERY = 60.0
"""Seconds between two checkpoints, where nobody says otherwise."""
_MOST = 0.01
"""The share of time that they may then take: what takes longer to write is written less often,"""
_LONGEST = 600.0
"""but not more seldom than after so many seconds: what is new by then may take the longer, the longer one waits."""

_STAMP = "stamp"
_OTHER_STAMP = "it was made by another version or on another kind of machine"


class Pace(NamedTuple):
    """How often strands are kept, and how many checkpoints of each."""

    every: float | None = None  # seconds; None: a minute, or as seldom as keeps it cheap
    keep: int | None = KEPT  # None: all


USUAL = Pace()


Built = TypeVar("Built")


def warn(text: str) -> None:
    """Tells the user of something that training goes on in spite of."""
    with contextlib.suppress(OSError, ValueError):  # what is printed may go to the very disk that is full
        print(f"warning: {text}", file=sys.stderr, flush=True)


class Complaint:
    """Tells, once, that the disk refuses, of however many strands and cells that is so; and of every checkpoint that
    cannot be used, however often it is tried.
    """

    def __init__(self, *, made: bool = False) -> None:
        self._lock = threading.Lock()
        self._made = made
        self._unusable: set[str] = set()

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process, nothing more is told of what was told before it began."""
        return functools.partial(Complaint, made=self._made), ()

    def __call__(self, error: Exception) -> None:
        """Tells what the disk said, if nobody has."""
        with self._lock:
            before, self._made = self._made, True
        if not before:
            warn(f"no checkpoint could be made: {error} The run goes on without, and tries again.")

    def of_checkpoint(self, problem: str) -> None:
        """Tells what is wrong with a checkpoint, if nobody has."""
        with self._lock:
            before = problem in self._unusable
            self._unusable.add(problem)
        if not before:
            warn(problem)


class Keeping:
    """Where the strands of a run are kept, each in a journal of its own, and how often.

    A strand is what one thread or process works on: a chunk of compiled rounds, or a round on the host. Strands depend
    on nothing but themselves, so each is kept when its own time has come.
    """

    def __init__(
        self,
        folder: Path,
        every: float | None = None,
        keep: int | None = KEPT,
        stamp: str = "",
        complain: Complaint | None = None,
    ) -> None:
        """`every` so many seconds (None: a minute, or as seldom as keeps it cheap), the `keep` newest (None: all), but
        never fewer than can do without the newest.

        What was kept with another `stamp`, which stands for versions and the like, is not gone on with. A `complain`
        that others have as well tells for all of them that the disk refuses.
        """
        self.folder, self.every, self._stamp = folder, every, stamp
        self._keep = None if keep is None else max(KEPT, keep)
        self._lock = threading.Lock()
        self._waiting: list[tuple[float, Strand, Snapshot]] = []
        self.waiting_since = math.inf  # of the first of them; read at every block, and so without the lock
        self.complain = Complaint() if complain is None else complain

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process, which may be in another folder, it begins with nothing waiting."""
        return Keeping, (self.folder.absolute(), self.every, self._keep, self._stamp, self.complain)

    def stamped(self, stamp: str, below: str = "") -> Keeping:
        """The same with another stamp, perhaps in a folder below."""
        return Keeping(self.folder / below, self.every, self._keep, stamp, self.complain)

    def strands(self) -> list[str]:
        """The names of those that are there."""
        try:
            return sorted(entry.name for entry in self.folder.iterdir() if entry.is_dir())
        except OSError:
            return []

    def strand(self, name: str) -> Strand:
        """The strand of that name, there or not."""
        return Strand(self, Journal(self.folder / name, self._keep), self._stamp)

    def look(self, name: str, read: Callable[[Checkpoint], Built]) -> Built | None:
        """What `read` gives of the strand's newest checkpoint that is whole in itself; None if there is none.

        Damaged ones are told of: their rounds may be shared out to strands of other names, which would not meet them.
        Another stamp is not, as strands of others may lie in the same folder.
        """

        def tell(problem: str) -> None:
            if not problem.endswith(_OTHER_STAMP):
                self.complain.of_checkpoint(problem)

        return Journal(self.folder / name, self._keep).restore(_if_stamped(self._stamp, read), tell)

    def forget(self, below: str = "") -> None:
        """Removes what is kept, or what is kept in a folder below, as it is saved elsewhere."""
        shutil.rmtree(self.folder / below, ignore_errors=True)

    def flush(self) -> None:
        """Keeps the strands that have come to their end and are not kept yet."""
        with self._lock:
            waiting, self._waiting, self.waiting_since = self._waiting, [], math.inf
        for _, strand, end in waiting:
            if not strand.write(end):
                self.put_off(time.monotonic(), strand, end)

    def put_off(self, since: float, strand: Strand, end: Snapshot) -> None:
        """Keeps the end of a strand, whose work waits for that `since` some moment, with the next `flush`."""
        with self._lock:
            self._waiting.append((since, strand, end))
            self.waiting_since = min(self.waiting_since, since)


class Strand:
    """One strand, as whoever works on it keeps it."""

    def __init__(self, keeping: Keeping, journal: Journal, stamp: str) -> None:
        self._keeping, self._journal, self._stamp = keeping, journal, stamp
        self._since = time.monotonic()  # when the work began that is not kept yet; no clock that may be set
        self._last = 0.0  # seconds that the last one took
        self._closed = False
        self.bytes = 0  # written so far

    def close(self) -> None:
        """Keeps nothing from now on, though somebody may still be at work on it."""
        self._closed = True

    def restore(self, build: Callable[[Checkpoint], Built]) -> Built | None:
        """What `build` makes of the newest good checkpoint; None if there is none."""
        return self._journal.restore(_if_stamped(self._stamp, build), self._keeping.complain.of_checkpoint)

    def due(self) -> bool:
        """Whether it is time for a checkpoint, of this or of a strand that ended and waits for it."""
        every = self._keeping.every
        pause = min(max(EVERY, self._last / _MOST), _LONGEST) if every is None else every
        return time.monotonic() - min(self._since, self._keeping.waiting_since) >= pause

    def save(self, snapshot: Snapshot) -> float:
        """Keeps what is there now, and what waits; tells how many seconds that took."""
        before = time.perf_counter()
        self.write(snapshot)
        self._keeping.flush()
        self._last = time.perf_counter() - before
        self._since = time.monotonic()
        return self._last

    def finish(self, end: Snapshot) -> None:
        """Keeps the end of the strand: at once if it is time, otherwise with the next that is kept."""
        due = self.due()
        self._keeping.put_off(self._since, self, end)
        if due:
            self._keeping.flush()

    def write(self, snapshot: Snapshot) -> bool:
        """Keeps what is there now. Tells whether the disk took it, or nobody wants it any more."""
        if self._closed:
            return True
        try:
            self.bytes += self._journal.save(snapshot._replace(about={**snapshot.about, _STAMP: self._stamp}))
        except InputError as error:
            self._keeping.complain(error)
            return False
        return True


def leave_newest(folder: Path, keep: int) -> None:
    """Leaves so many checkpoints of every strand that is kept in a folder, when all have come to their end."""
    for name in Keeping(folder).strands():
        Journal(folder / name, keep).prune()


def _if_stamped(stamp: str, build: Callable[[Checkpoint], Built]) -> Callable[[Checkpoint], Built]:
    def checked(checkpoint: Checkpoint) -> Built:
        if checkpoint.about.get(_STAMP) != stamp:
            raise InputError(_OTHER_STAMP)
        return build(checkpoint)

    return checked
