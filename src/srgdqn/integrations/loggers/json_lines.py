"""A file of JSON lines that grows during training, which `srgdqn watch` reads.

The first line describes the run; every other has a round, a step, the seconds since the start, and numbers. A number
that is missing or not finite is null.
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
from srgdqn.integrations.loggers import Scalars
from srgdqn.runs.destination import write_file

if TYPE_CHECKING:
    from srgdqn.training.reports import RoundReport

Line = dict[str, Any]


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

    def log(self, reports: Sequence[RoundReport]) -> None:
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
