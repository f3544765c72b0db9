"""What `srgdqn watch` shows of a run: the file of rows it reads, and the run's state by these or by its tables."""

from __future__ import annotations

import os
import sys
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srgdqn.errors import InputError
from srgdqn.integrations.loggers import EPISODES, ITERATIONS, LENGTH, LOSS, MAX_Q, RECENT, RETURN, REWARD
from srgdqn.integrations.loggers.json_lines import JsonLines, Line, header
from srgdqn.runs.locks import is_locked
from srgdqn.runs.provenance import is_count
from srgdqn.runs.unfinished import beside
from srgdqn.runs.untrusted import open_file, parse_json

if TYPE_CHECKING:
    from srgdqn.results.result import Result

_MOST_AT_ONCE = 2**24  # bytes
_RECENT_SECONDS = 10.0  # over which speed is measured
_HEADER = {"task", "algorithm", "rounds", "budget"}
_AMOUNTS = {"steps": "step", "outer_iterations": ITERATIONS, "episodes": EPISODES}

Curve = list[tuple[int, float]]
"""Steps, and a value at each."""

_LARGEST = 1e100  # so that sums of such numbers are finite, too


class RunState:
    """The state of a run that is being trained, from its lines as they arrive."""

    def __init__(self) -> None:
        self._begin({})

    def _begin(self, header: Line) -> None:
        self.header = header
        self.rounds: dict[int, dict[str, Any]] = {}  # the last known values of each round, by name
        self.ended = False
        self.seconds = 0.0  # from the start to the last line
        self._curves: dict[str, dict[int, Curve]] = {name: defaultdict(list) for name in (RETURN, REWARD)}
        self._points: deque[tuple[float, int, float]] = deque()  # seconds, steps and share, recently

    def update(self, line: Line) -> None:
        """Takes in a line of the file. One that describes a run starts over."""
        if line.keys() >= _HEADER:
            if _is_header(line):
                self._begin(line)
        elif line.get("ended"):
            self.ended = True
        elif self.header and is_count(line.get("round")) and _is_whole(line.get("step")):
            self._update_round({name: value for name, value in line.items() if _is_number(value)})

    def _update_round(self, line: Line) -> None:
        seconds = line.get("seconds") or 0.0
        if self.rounds and seconds > self.seconds:
            self._points.append((self.seconds, self.steps, self.share))
            while len(self._points) > 1 and self._points[1][0] < seconds - _RECENT_SECONDS:
                self._points.popleft()
        self.seconds = max(self.seconds, seconds)
        known = self.rounds.setdefault(line["round"], {})
        known.update(line)
        for name, curves in self._curves.items():
            if name in line:
                curves[line["round"]].append((line["step"], line[name]))

    @property
    def steps(self) -> int:
        """Environment steps of all rounds together."""
        return sum(known["step"] for known in self.rounds.values())

    @property
    def speed(self) -> float | None:
        """Recent environment steps per second."""
        if not self._points:
            return None
        seconds, steps, _ = self._points[0]
        return (self.steps - steps) / (self.seconds - seconds)

    @property
    def share(self) -> float:
        """Of the whole run's budget; a round that diverged is done."""
        if not self.rounds:
            return 0.0
        amount = self.header["budget"]["amount"]
        name = _AMOUNTS[self.header["budget"]["unit"]]
        done = sum(
            1.0 if "diverged_at" in known else min(known.get(name, 0) / amount, 1.0) for known in self.rounds.values()
        )
        return done / self.header["rounds"]

    @property
    def seconds_left(self) -> float | None:
        """At the recent speed."""
        if not self._points:
            return None
        seconds, _, share = self._points[0]
        done = self.share - share
        return (1 - self.share) * (self.seconds - seconds) / done if done > 0 else None

    def curves(self) -> tuple[str, dict[int, Curve]]:
        """The rounds' mean returns, or their rewards where no episode has ended; and which of them it is."""
        name = RETURN if self._curves[RETURN] else REWARD
        return name, self._curves[name]


def _is_header(line: Line) -> bool:
    """Whether a line describes a run: such a file may come from anywhere."""
    budget, started = line["budget"], line.get("started", 0)
    names = (line["task"], line["algorithm"])
    return (
        all(isinstance(name, str) and name.isprintable() for name in names)
        and is_count(line["rounds"], 1)
        and isinstance(budget, dict)
        and isinstance(budget.get("unit"), str)
        and budget["unit"] in _AMOUNTS
        and is_count(budget.get("amount"), 1)
        and _is_number(started)
    )


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= _LARGEST


def _is_whole(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def state_of_result(result: Result) -> RunState:
    """The state of a finished run; what its tables do not have (ε, the speed) is missing."""
    state = RunState()
    state.update(header(result.configuration))
    for line in _lines(result):
        state.update(line)
    state.update({"ended": True})
    return state


def _lines(result: Result) -> Iterator[Line]:
    """One for every row of the curves, with the means over the last episodes by then."""
    import polars as pl

    recent = result.episodes.sort("round", "episode").select(
        "round",
        "step",
        pl.col("return").rolling_mean(RECENT, min_samples=1).over("round").alias(RETURN),
        pl.col("length").cast(pl.Float64).rolling_mean(RECENT, min_samples=1).over("round").alias(LENGTH),
    )
    curves = result.curves.sort("step").join_asof(
        recent.sort("step"), on="step", by="round", strategy="backward", check_sortedness=False
    )
    named = curves.select(
        "round",
        "step",
        RETURN,
        LENGTH,
        pl.col("reward").alias(REWARD),
        pl.col("episodes").alias(EPISODES),
        pl.col("loss").alias(LOSS),
        pl.col("max_q").alias(MAX_Q),
    )
    yield from named.iter_rows(named=True)
    for row in result.rounds.iter_rows(named=True):
        yield {
            "round": row["round"],
            "step": row["steps"],
            ITERATIONS: row["outer_iterations"],
            "diverged_at": row["diverged_at"],
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


def rows_file(folder: str | os.PathLike[str]) -> Path:
    """The hidden file of rows beside the folder that a run will be saved in."""
    path = Path(os.path.abspath(folder))
    return path.with_name(f".{path.name}.live.jsonl")


@contextmanager
def rows_for_watching(folder: str | os.PathLike[str] | None) -> Iterator[list[JsonLines]]:
    """A logger for `srgdqn watch`, if the run has a folder, which must be claimed, and the file can be written.

    The run is saved when this ends, and the file is removed. If an exception ends the run, the file is left, unless it
    has no rows.
    """
    if folder is None:
        yield []
        return
    try:
        rows = JsonLines(rows_file(folder))
    except (InputError, OSError) as error:
        print(f"warning: this run cannot be watched: {error}", file=sys.stderr)
        yield []
        return
    try:
        yield [rows]
        rows.has_rows = False  # they are in the run's tables now
    finally:
        if not rows.has_rows:
            with suppress(OSError):  # as the run is saved
                rows.path.unlink(missing_ok=True)


def is_abandoned(folder: str | os.PathLike[str]) -> bool:
    """Whether the process that wrote a run's rows is gone: it removes them before it gives up the folder."""
    rows = rows_file(folder)
    # Asked twice, as a run may begin before the lock is looked at, or end after it.
    return rows.exists() and not is_locked(beside(folder)) and rows.exists()
