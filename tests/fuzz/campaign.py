"""Many inputs, read by processes that are replaced where they die; and what came of it."""

from __future__ import annotations

import hashlib
import json
import os
import select
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import srgdqn
from fuzz.inputs import Made, make_input

SECONDS = 20.0
"""What reading and using one input may take; compiling a program of another shape is part of it."""
_START = 300.0  # for the first of a kind, which imports and compiles what the others use
_THOROUGH = 8  # of so many inputs, one is used for more
_LARGEST_STORED = 2**24


@dataclass
class Tally:
    """What came of the inputs of one format."""

    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0
    slowest: float = 0.0
    most: int = 0  # bytes

    @property
    def inputs(self) -> int:
        return sum(self.outcomes.values())


class Reader:
    """A process that reads, another one where that has died."""

    def __init__(self, corpus: Path, scratch: Path) -> None:
        self._corpus, self._scratch = corpus, scratch
        self._process: subprocess.Popen[bytes] | None = None
        self._known: dict[str, list[str]] = {}  # what an instance of each kind may be read as that lacks nothing

    def read(self, kind: str, place: Path, thorough: bool, made: Made) -> dict[str, Any]:
        """What came of an input."""
        if self._process is None:
            self._start()
        if kind not in self._known and not kind.startswith("planted-"):
            self._know(kind)
        expected = None if made.whole else self._known.get(kind)
        if kind == "planted-reads-another-content":
            expected = ["another"]
        return self._ask(kind, place, thorough, expected, SECONDS)

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
        self._process, self._known = None, {}

    def _start(self) -> None:
        package = str(Path(srgdqn.__file__).parents[1])  # the same that is tested here
        environment = {**os.environ, "PYTHONPATH": package, "SRGDQN_CACHE": "off"}
        environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "1e9"  # programs are found there, and none is put
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("child.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd=self._scratch,
        )

    def _know(self, kind: str) -> None:
        """Has an instance read as it is, twice: the first time imports and compiles."""
        place = self._scratch / "instance"
        shutil.copytree(self._corpus / kind, place)
        self._ask(kind, place, True, None, _START, first=True)
        answer = self._ask(kind, place, True, None, SECONDS)
        if answer["problem"] is not None or answer["outcome"] != "read":
            raise RuntimeError(f"a {kind} that was saved cannot be read: {answer}")
        self._known[kind] = [answer["content"]]
        for newest in sorted(place.rglob("*.checkpoint"), reverse=True)[:1]:
            newest.unlink()  # then the one before is read
            self._known[kind].append(self._ask(kind, place, False, None, SECONDS)["content"])
        shutil.rmtree(place)

    def _ask(
        self, kind: str, place: Path, thorough: bool, expected: list[str] | None, seconds: float, *, first: bool = False
    ) -> dict[str, Any]:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        asked = {"kind": kind, "place": str(place), "thorough": thorough, "expected": expected, "first": first}
        began = time.monotonic()
        process.stdin.write(json.dumps(asked).encode() + b"\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], seconds)
        answer = process.stdout.readline() if ready else b""
        if answer:
            return {**json.loads(answer), "seconds": time.monotonic() - began}
        code = process.wait() if ready else None
        self.close()
        problem = f"took longer than {seconds:.0f} seconds" if not ready else f"ended its process ({code})"
        return {"outcome": "failed", "problem": problem, "content": None, "taken": 0, "seconds": seconds}


def campaign(
    corpus: Path, kinds: list[tuple[str, int]], seed: int, failures: Path | None = None, *, progress: Any = None
) -> dict[str, Tally]:
    """Reads so many inputs of each kind. What fails is written to the folder `failures`, to be read again."""
    tallies: dict[str, Tally] = {}
    with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
        reader = Reader(corpus, Path(scratch))
        try:
            for kind, count in kinds:
                tally = tallies[kind] = Tally()
                for number in range(count):
                    _one(reader, corpus, kind, seed, number, Path(scratch), tally, failures)
                    if progress is not None:
                        progress(kind, number + 1, count, tally)
        finally:
            reader.close()
    return tallies


def _one(
    reader: Reader,
    corpus: Path,
    kind: str,
    seed: int,
    number: int,
    scratch: Path,
    tally: Tally,
    failures: Path | None,
) -> None:
    sandbox = scratch / "sandbox"
    sandbox.mkdir()
    (sandbox / "canary").write_text("sings")
    (sandbox / "canary.parquet").write_text("sings")
    place = sandbox / "input"
    if kind.startswith("planted-"):
        place.mkdir()
        (place / "planted.json").write_text("1")
        made = Made(False, "planted")
    else:
        made = make_input(corpus, kind, seed, number, place)
    before = list(_state(sandbox))
    outcome = reader.read(kind, place, number % _THOROUGH == 0, made)
    seconds, problem = outcome["seconds"], outcome["problem"]
    if problem is None and list(_state(sandbox)) != before:
        problem = "something was made or changed in the folder or beside it"
    tally.outcomes["failed" if problem else outcome["outcome"]] += 1
    tally.seconds += seconds
    tally.slowest, tally.most = max(tally.slowest, seconds), max(tally.most, outcome["taken"])
    if problem:
        tally.failures.append(f"{kind} {number} ({made.change}): {problem}")
        if failures is not None:
            _store(failures / f"{kind}-{seed}-{number}.tar", kind, made, place, problem)
    shutil.rmtree(sandbox)


def _state(folder: Path) -> Iterator[tuple[Any, ...]]:
    """Everything in a folder: names, kinds, times and bytes."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            found = entry.stat(follow_symlinks=False)
            small = stat.S_ISREG(found.st_mode) and found.st_size < _LARGEST_STORED
            data = hashlib.sha256(Path(entry.path).read_bytes()).digest() if small else b""
            yield entry.path, found.st_mode, found.st_size, found.st_mtime_ns, data
            if entry.is_dir(follow_symlinks=False):
                yield from _state(Path(entry.path))


def _store(path: Path, kind: str, made: Made, place: Path, problem: str) -> None:
    """An input as a file; of files that are mere holes, their length alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    holes = {}
    for each in place.rglob("*"):
        if each.is_file() and not each.is_symlink() and each.stat().st_size > _LARGEST_STORED:
            holes[str(each.relative_to(place))] = each.stat().st_size
            each.write_bytes(b"")
    note = place.parent / "note.json"
    note.write_text(json.dumps({"kind": kind, **made._asdict(), "holes": holes, "problem": problem}))
    with tarfile.open(path, "w") as archive:
        archive.add(note, "note.json")
        archive.add(place, "input")


def replay(corpus: Path, path: Path) -> dict[str, Any]:
    """What comes of an input that was stored, now."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
        sandbox = Path(scratch) / "sandbox"
        with tarfile.open(path) as archive:
            archive.extractall(sandbox, filter="fully_trusted")
        note = json.loads((sandbox / "note.json").read_text())
        for name, size in note["holes"].items():
            os.truncate(sandbox / "input" / name, size)
        reader = Reader(corpus, Path(scratch))
        try:
            return reader.read(note["kind"], sandbox / "input", True, Made(note["whole"], note["change"]))
        finally:
            reader.close()
