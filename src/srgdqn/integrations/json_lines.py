"""Rows as JSON, one on each line, in a file that grows while a run goes on; and reading it at the same time.

The first line tells what the run is; every other a round, a step, the seconds since the start, and numbers. A number
that there is not, or that is none, is null.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srgdqn.config import Configuration
from srgdqn.config.checks import BUDGETS
from srgdqn.errors import InputError
from srgdqn.integrations.scalars import Scalars
from srgdqn.runs import strict_json
from srgdqn.runs.destination import write_file
from srgdqn.runs.folders import open_ordinary

if TYPE_CHECKING:
    from srgdqn.training.reports import RoundReport

Line = dict[str, Any]

_MOST_AT_ONCE = 2**24  # bytes


class JsonLines:
    """Writes what each round does into a file, which replaces an older one at once."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.abspath(path))
        if not self.path.parent.is_dir() or self.path.is_dir():
            raise InputError(f"{self.path} cannot be a file. Give one in a folder that exists.")
        write_file(self.path, b"")
        self.has_rows = False

    def __str__(self) -> str:
        return str(self.path)

    def start(self, configuration: Configuration, about: Mapping[str, Any]) -> None:
        """Writes what the run is."""
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
        """Writes that no more will come."""
        self._write([{"ended": True}])

    def _write(self, lines: Sequence[Line]) -> None:
        # Never made anew: where the file was removed, nobody would find another one's beginning.
        with open(os.open(self.path, os.O_WRONLY | os.O_APPEND), "w", encoding="utf-8") as file:
            file.write("".join(json.dumps(line, allow_nan=False) + "\n" for line in lines))


def header(configuration: Configuration) -> Line:
    """What a run is, in brief."""
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
    """Reads the lines of a growing file as they come. What is no whole line of JSON is left alone."""

    def __init__(self, path: Path) -> None:
        self._path, self._place, self._identity = path, 0, -1

    def read(self) -> list[Line] | None:
        """The lines that are new since the last call; None if there is no file. A file that was replaced is read from
        its beginning.
        """
        try:
            with open_ordinary(self._path, follow=True) as file:
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
        # What has no end in so many bytes is no line, and is passed over.
        self._place += len(data) if not whole and len(data) == _MOST_AT_ONCE else len(whole)
        return [line for line in map(_parsed, whole.splitlines()) if line is not None]


def _parsed(text: bytes) -> Line | None:
    try:
        line = strict_json.parse(text)
    except InputError:
        return None
    return line if isinstance(line, dict) else None
