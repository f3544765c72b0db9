"""Rows as JSON lines, in a file that grows while a run goes on: writing it, reading it at the same time, and the hidden
file of rows that `srgdqn watch` reads.

The first line describes the run; every other has a round, a step, the seconds since the start, and numbers. A number
that is missing or not finite is null.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srgdqn.config import Configuration
from srgdqn.config.checks import BUDGETS
from srgdqn.errors import InputError
from srgdqn.integrations.loggers import Scalars
from srgdqn.runs.destination import write_file
from srgdqn.runs.untrusted import open_file, parse_json

try:
    import fcntl
except ImportError:  # pragma: no cover, where the system has no such locks
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from srgdqn.training.reports import RoundReport

Line = dict[str, Any]

_MOST_AT_ONCE = 2**24  # bytes


class JsonLines:
    """Writes a row for every report into a file, which replaces an older one at once."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.abspath(path))
        if not self.path.parent.is_dir() or self.path.is_dir():
            raise InputError(f"{self.path} cannot be a file. Give one in a folder that exists.")
        write_file(self.path, b"")
        self.has_rows = False

    def __str__(self) -> str:
        return str(self.path)

    def start(self, configuration: Configuration, about: Mapping[str, Any]) -> None:
        """Writes the line that describes the run."""
        self._began, self._scalars = time.monotonic(), Scalars()
        self._write([{**header(configuration), "started": time.time(), "about": dict(about)}])

    def hear(self, reports: Sequence[RoundReport]) -> None:
        """Writes a line for every round and step."""
        seconds = time.monotonic() - self._began
        lines = []
        for report in reports:
            for step, values in self._scalars.rows(report, seconds):
                known = {"round": report.round, "step": step, "seconds": round(seconds, 3)}
                lines.append({**known, **values, "diverged_at": report.diverged_at})
        self._write(lines)
        self.has_rows = True

    def close(self) -> None:
        """Writes the last line."""
        self._write([{"ended": True}])

    def _write(self, lines: Sequence[Line]) -> None:
        # Without O_CREAT: if the file was removed, a new one would lack its beginning.
        with open(os.open(self.path, os.O_WRONLY | os.O_APPEND), "w", encoding="utf-8") as file:
            file.write("".join(json.dumps(line, allow_nan=False) + "\n" for line in lines))


def header(configuration: Configuration) -> Line:
    """A short description of a run."""
    training = configuration.training
    (unit,) = (unit for unit in BUDGETS if getattr(training, unit) is not None)
    return {
        "task": configuration.task.task,
        "algorithm": configuration.algorithm,
        "readings": configuration.readings,
        "rounds": training.rounds,
        "budget": {"unit": unit, "amount": getattr(training, unit)},
    }


class LineReader:
    """Reads the lines of a growing file as they come; skips what is not a whole line of JSON."""

    def __init__(self, path: Path) -> None:
        self._path, self._place, self._identity = path, 0, -1

    def read(self) -> list[Line] | None:
        """The new lines since the last call; None if there is no file. A replaced file is read from its beginning."""
        try:
            with open_file(self._path, follow=True) as file:
                identity = os.fstat(file.fileno()).st_ino
                if identity != self._identity:
                    self._place, self._identity = 0, identity
                file.seek(self._place)
                data = file.read(_MOST_AT_ONCE)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputError(f"{self._path} cannot be read ({error.strerror}). Give the file of a run.") from error
        whole = data[: data.rfind(b"\n") + 1]
        # What does not end within so many bytes is not a line, and is skipped.
        self._place += len(data) if not whole and len(data) == _MOST_AT_ONCE else len(whole)
        return [line for line in map(_parsed, whole.splitlines()) if line is not None]


def _parsed(text: bytes) -> Line | None:
    try:
        line = parse_json(text)
    except InputError:
        return None
    return line if isinstance(line, dict) else None


def live_file(folder: str | os.PathLike[str]) -> Path:
    """The hidden file of rows beside the folder that a run will be saved in."""
    path = Path(os.path.abspath(folder))
    return path.with_name(f".{path.name}.live.jsonl")


@contextmanager
def live_rows(folder: str | os.PathLike[str] | None) -> Iterator[list[JsonLines]]:
    """A logger for `srgdqn watch`, if the run has a folder and the file can be written; it is locked until this ends.

    The run is saved by then, and the file is removed. If an exception ends the run, the file is left, unless it has no
    rows.
    """
    if folder is None:
        yield []
        return
    path = live_file(folder)
    made = [parent for parent in path.parents if not parent.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = JsonLines(path)
        lock = os.open(path, os.O_RDONLY)
    except (InputError, OSError) as error:
        print(f"warning: this run cannot be watched: {error}", file=sys.stderr)
        yield []
        return
    try:
        if fcntl is not None:
            with contextlib.suppress(OSError):  # not every file system has locks
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield [rows]
    except BaseException:
        if not rows.has_rows:
            _remove(path, lock)
            for parent in made:
                with contextlib.suppress(OSError):
                    parent.rmdir()
        raise
    else:
        _remove(path, lock)
    finally:
        os.close(lock)


def is_abandoned(path: Path) -> bool:
    """Whether the process that wrote a run's rows is gone; False where that is not known."""
    if fcntl is None:
        return False
    try:
        with open_file(path, follow=True) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (OSError, InputError):
        return False
    return True


def _remove(path: Path, handle: int) -> None:
    """Removes the file, unless a later run to the same folder has replaced it."""
    with contextlib.suppress(OSError):
        if os.path.samestat(os.stat(path), os.fstat(handle)):
            path.unlink()
