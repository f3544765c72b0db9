"""Where drills work: a folder of their own, what every command comes to undisturbed, and what went wrong."""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import threading
import time
from pathlib import Path
from typing import NamedTuple

from children import Child
from commands import Command

# Seconds, or what holds some: manifests have digests of the timings, reports and their tables tell durations.
_TIMED = {"timings.parquet", "manifest.json", "report.html", "report.md", "verdicts.json", ".drawn.json", "sweep.json"}
_TIMED_STEMS = ("training-time", "seconds")
_OTHER_SUFFIXES = {".sqlite3", ".png"}  # a database that is written to in place; drawings of the tables


class Expected(NamedTuple):
    """What a command comes to that nobody disturbs."""

    bits: dict[str, str]
    seconds: float


class Workshop:
    """Shared by drills on several threads."""

    def __init__(self, folder: Path, *, show: bool = True) -> None:
        self.folder, self._show = folder, show
        self.problems: list[dict[str, str]] = []
        self._expected: dict[Command, Expected] = {}
        self._numbers = itertools.count()
        self._lock = threading.RLock()
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        if self._show:
            print(f"[{time.monotonic() - self._began:6.0f} s] {text}", flush=True)

    def place(self) -> Path:
        """A new empty folder."""
        path = self.folder / f"{next(self._numbers):04d}"
        path.mkdir(parents=True)
        return path

    def start(self, command: Command, place: Path, *, resume: bool, environment: dict[str, str] | None = None) -> Child:
        """The command, with `out` in that place."""
        log = self.folder / f"log-{next(self._numbers)}.txt"
        return Child(command.line("out", resume=resume), place, log, environment)

    def expected(self, command: Command) -> Expected:
        """What the command comes to; run twice the first time it is asked for, as the first run may compile."""
        with self._lock:
            if command not in self._expected:
                self._expected[command] = self._undisturbed(command)
            return self._expected[command]

    def _undisturbed(self, command: Command) -> Expected:
        found = []
        for _ in range(2):
            place = self.place()
            child = self.start(command, place, resume=False)
            if child.wait() != 0:
                raise AssertionError(f"{command.name} fails undisturbed: {child.said()[-2000:]}")
            seconds = time.monotonic() - child.began
            found.append(bits_of(place / "out"))
            shutil.rmtree(place)
        if found[0] != found[1] or not found[0]:
            raise AssertionError(f"{command.name} does not repeat itself undisturbed")
        self.say(f"{command.name}: {seconds:.1f} s undisturbed, {len(found[0])} files to compare")
        return Expected(found[0], seconds)

    def problem(self, drill: str, what: str, place: Path | None = None, detail: str = "") -> None:
        """Takes down that something is not as it should be. Its folder stays."""
        with self._lock:
            self.problems.append({"drill": drill, "what": what, "detail": detail[-3000:]})
        self.say(f"PROBLEM in {drill}: {what} (see {place}) {detail[-400:]}")

    def check(self, drill: str, command: Command, place: Path, child: Child, code: int) -> bool:
        """Whether a run that has come to its end is the one that was expected; its folder goes if so."""
        if code != 0:
            self.problem(drill, f"{command.name}: exit code {code} instead of 0", place, child.said())
            return False
        differ = differences(bits_of(place / "out"), self.expected(command).bits)
        if differ:
            self.problem(drill, f"{command.name}: other bits in {', '.join(differ[:5])}", place)
            return False
        if (place / "out.unfinished").exists():
            self.problem(drill, f"{command.name}: what was under way is still there", place)
            return False
        return True


# What two runs of one command have in common


def bits_of(folder: Path) -> dict[str, str]:
    """The digest of every file below a folder that is the same whenever the command is run."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not _is_left_out(name):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def differences(found: dict[str, str], expected: dict[str, str]) -> list[str]:
    """The files in which two folders differ, or which only one of them has."""
    return sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))


def _is_left_out(name: str) -> bool:
    path = Path(name)
    return (
        any(part.startswith(".") for part in path.parts)
        or path.name in _TIMED
        or path.suffix in _OTHER_SUFFIXES
        or any(stem in path.name for stem in _TIMED_STEMS)
        or any(part.startswith("step-times") for part in path.parts)
    )


# What work under way leaves in a folder, which may vanish while it is looked at


def scratch_below(folder: Path) -> set[str]:
    """Files and folders that are being written, or that somebody who was killed has left."""
    return {path for path in _below(folder) if os.path.basename(path).startswith(".srgdqn-")}


def checkpoints_below(folder: Path) -> set[str]:
    """The checkpoints that are there."""
    return {path for path in _below(folder) if path.endswith(".checkpoint") and "/.srgdqn-" not in path}


def _below(folder: Path) -> list[str]:
    return [os.path.join(where, name) for where, folders, files in os.walk(folder) for name in (*folders, *files)]
