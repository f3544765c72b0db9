"""When jobs are checkpointed, how many checkpoints stay, and warnings where the disk refuses."""

from __future__ import annotations

import contextlib
import math
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from srgdqn.errors import InputError
from srgdqn.runs.checkpoints import Checkpoint, CheckpointFolder, Snapshot
from srgdqn.runs.unfinished import DEFAULT_KEEP

EVERY = 60.0
"""Seconds between two checkpoints, where nobody says otherwise."""
_MAX_TIME_SHARE = 0.01
"""The share of time that they may then take: what takes longer to write is written less often,"""
_MAX_INTERVAL = 600.0
"""but not more seldom than after so many seconds: what is new by then may take the longer, the longer one waits."""

_STAMP = "stamp"
_OTHER_STAMP = "it was made by another version, on another kind of machine, in another precision or with other code"


class Pace(NamedTuple):
    """How often jobs are checkpointed, and how many checkpoints of each stay."""

    every: float | None = None  # seconds; None: a minute, or more, so that it stays cheap
    keep: int | None = DEFAULT_KEEP  # None: all


DEFAULT_PACE = Pace()


Built = TypeVar("Built")


def warn(text: str) -> None:
    """Warns without stopping training."""
    with contextlib.suppress(OSError, ValueError):  # what is printed may go to the very disk that is full
        print(f"warning: {text}", file=sys.stderr, flush=True)


class WarnOnce:
    """Prints every warning once; a copy in another process does not repeat what was printed before."""

    def __init__(self, printed: Iterable[str] = ()) -> None:
        self._lock = threading.Lock()
        self._printed = set(printed)

    def __reduce__(self) -> tuple[Any, ...]:
        return WarnOnce, (sorted(self._printed),)

    def __call__(self, text: str, about: str | None = None) -> None:
        """Prints a warning, unless one that is `about` the same was printed."""
        with self._lock:
            before = (about or text) in self._printed
            self._printed.add(about or text)
        if not before:
            warn(text)


class CheckpointManager:
    """The checkpoints of a run's jobs, each in a folder of its own below `folder`.

    Jobs are independent of each other, so each is checkpointed when its own time has come.
    """

    def __init__(
        self,
        folder: Path,
        every: float | None = None,
        keep: int | None = DEFAULT_KEEP,
        stamp: str = "",
        warn_once: WarnOnce | None = None,
    ) -> None:
        """A manager of the checkpoints below a folder.

        Args:
          folder: where they are.
          every: seconds between checkpoints; None: a minute, or more if writing takes more than 1 % of the time.
          keep: how many of each job stay (None: all); at least two, should the newest be damaged.
          stamp: a digest of what determines the bits. Checkpoints with another stamp are not resumed from.
          warn_once: shared by managers that should warn only once together.

        """
        self.folder, self.every, self._stamp = folder, every, stamp
        self._keep = None if keep is None else max(DEFAULT_KEEP, keep)
        self._lock = threading.Lock()
        self._waiting: list[tuple[float, JobCheckpoints, Snapshot]] = []
        self._open: list[JobCheckpoints] = []
        self.waiting_since = math.inf  # of the first of them; read at every block, and so without the lock
        self.warn_once = WarnOnce() if warn_once is None else warn_once

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process starts with nothing waiting."""
        return CheckpointManager, (self.folder.absolute(), self.every, self._keep, self._stamp, self.warn_once)

    def warn_not_written(self, error: Exception) -> None:
        """Warns once that checkpoints cannot be written."""
        text = f"no checkpoint could be made: {error} Training continues without, and tries again."
        self.warn_once(text, about="checkpoints that cannot be written")

    def stamped(self, stamp: str, below: str = "") -> CheckpointManager:
        """The same with another stamp, perhaps in a folder below."""
        return CheckpointManager(self.folder / below, self.every, self._keep, stamp, self.warn_once)

    def below(self, folder: str) -> CheckpointManager:
        """The same in a folder below."""
        return self.stamped(self._stamp, folder)

    def jobs(self) -> list[str]:
        """The names of jobs that have a folder."""
        try:
            return sorted(entry.name for entry in self.folder.iterdir() if entry.is_dir())
        except OSError:
            return []

    def job(self, name: str) -> JobCheckpoints:
        """The checkpoints of the job of that name, there or not."""
        opened = JobCheckpoints(self, CheckpointFolder(self.folder / name, self._keep), self._stamp)
        with self._lock:
            self._open.append(opened)
        return opened

    def look(self, name: str, read: Callable[[Checkpoint], Built]) -> Built | None:
        """What `read` gives of the job's newest checkpoint that is whole in itself; None if there is none.

        Warns of damaged ones, as their rounds may go to jobs of other names, which would not read them; not of another
        stamp, as jobs of other runs may be in the same folder.
        """

        def report(problem: str) -> None:
            if not problem.endswith(_OTHER_STAMP):
                self.warn_once(problem)

        return CheckpointFolder(self.folder / name, self._keep).restore(_if_stamped(self._stamp, read), report)

    def forget(self, below: str = "") -> None:
        """Removes the checkpoints, or those in a folder below."""
        shutil.rmtree(self.folder / below, ignore_errors=True)

    def flush(self) -> None:
        """Writes the final snapshots that wait."""
        with self._lock:
            waiting, self._waiting, self.waiting_since = self._waiting, [], math.inf
        for _, job, end in waiting:
            if not job.write(end):
                self.defer(time.monotonic(), job, end)

    def release(self) -> None:
        """Writes the final snapshots that wait; jobs that still run write nothing from now on."""
        self.flush()
        with self._lock:
            released, self._open = self._open, []
        for job in released:
            job.close()

    def defer(self, since: float, job: JobCheckpoints, end: Snapshot) -> None:
        """Lets the final snapshot of a job wait for the next `flush`; its work is unsaved `since` then."""
        with self._lock:
            self._waiting.append((since, job, end))
            self.waiting_since = min(self.waiting_since, since)


class JobCheckpoints:
    """The checkpoints of one job."""

    def __init__(self, manager: CheckpointManager, checkpoints: CheckpointFolder, stamp: str) -> None:
        self._manager, self._checkpoints, self._stamp = manager, checkpoints, stamp
        self._since = time.monotonic()  # when the unsaved work began; a clock that nobody sets
        self._last = 0.0  # seconds that the last one took
        self._closed = False
        self.bytes = 0  # written so far

    def close(self) -> None:
        """Writes nothing from now on, though the job may still run."""
        self._closed = True

    def restore(self, build: Callable[[Checkpoint], Built]) -> Built | None:
        """What `build` makes of the newest good checkpoint; None if there is none."""
        return self._checkpoints.restore(_if_stamped(self._stamp, build), self._manager.warn_once)

    def due(self) -> bool:
        """Whether it is time for a checkpoint, of this job or of an ended one that waits."""
        every = self._manager.every
        pause = min(max(EVERY, self._last / _MAX_TIME_SHARE), _MAX_INTERVAL) if every is None else every
        return time.monotonic() - min(self._since, self._manager.waiting_since) >= pause

    def save(self, snapshot: Snapshot) -> float:
        """Writes a checkpoint, and final snapshots that wait; returns the seconds it took."""
        before = time.perf_counter()
        self.write(snapshot)
        self._manager.flush()
        self._last = time.perf_counter() - before
        self._since = time.monotonic()
        return self._last

    def finish(self, end: Snapshot) -> None:
        """Writes the final snapshot: now if it is due, otherwise with the next checkpoint of any job."""
        due = self.due()
        self._manager.defer(self._since, self, end)
        if due:
            self._manager.flush()

    def write(self, snapshot: Snapshot) -> bool:
        """Writes a checkpoint; returns False if the disk refused."""
        if self._closed:
            return True
        try:
            self.bytes += self._checkpoints.save(snapshot._replace(about={**snapshot.about, _STAMP: self._stamp}))
        except InputError as error:
            self._manager.warn_not_written(error)
            return False
        return True


def _if_stamped(stamp: str, build: Callable[[Checkpoint], Built]) -> Callable[[Checkpoint], Built]:
    def checked(checkpoint: Checkpoint) -> Built:
        if checkpoint.about.get(_STAMP) != stamp:
            raise InputError(_OTHER_STAMP)
        return build(checkpoint)

    return checked
