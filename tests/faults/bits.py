"""What two runs of one command have in common, file by file: everything but how long it took."""

from __future__ import annotations

import hashlib
from pathlib import Path

# Seconds, or what holds some: manifests have digests of the timings, reports and their tables tell durations.
_TIMED = {"timings.parquet", "manifest.json", "report.html", "report.md", "verdicts.json", ".drawn.json", "sweep.json"}
_TIMED_STEMS = ("training-time", "seconds")
_OTHER_SUFFIXES = {".sqlite3", ".png"}  # a database that is written to in place; drawings of the tables


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
