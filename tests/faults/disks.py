"""A disk that is full, and a folder that nothing can be written to any longer, while a run goes on."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from commands import Command
from workshop import Workshop, checkpoints_below

_SIZE = 24  # MiB


def why_not(workshop: Workshop) -> str | None:
    """Why no disk can be made here; None if one can."""
    place = workshop.place()
    try:
        with _disk(place):
            return None
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no small disk can be mounted here ({error})"
    finally:
        shutil.rmtree(place, ignore_errors=True)


def drill(workshop: Workshop, commands: tuple[Command, ...]) -> dict[str, Any]:
    """Every command with a disk that becomes full, and with one that becomes read-only."""
    reason = why_not(workshop)
    if reason is not None:
        return {"skipped": reason}
    counts: Counter[str] = Counter()
    for command in commands:
        for trouble in (_full, _read_only):
            workshop.expected(command)
            place = workshop.place()
            with _disk(place):
                counts.update([trouble.__name__.strip("_"), *_endure(workshop, command, place, trouble)])
            workshop.say(f"disks: {command.name}, {trouble.__name__.strip('_').replace('_', '-')}")
            shutil.rmtree(place, ignore_errors=True)
    return dict(counts)


def _endure(workshop: Workshop, command: Command, place: Path, trouble: Any) -> list[str]:
    """What happened: it came to its end in spite of the trouble, or it was refused and then went on."""
    child = workshop.start(command, place, resume=False)
    if not child.wait_until(lambda: bool(checkpoints_below(place)), pause=0.005):
        workshop.problem("disks", f"{command.name} ended before it had a checkpoint", place, child.said())
        return []
    with trouble(place):
        code = child.wait()
        said = child.said()
    lines = said.strip().splitlines()
    refused = code == 2 and bool(lines) and lines[-1].startswith("error: ") and "Traceback" not in said
    if code != 0 and not refused:
        workshop.problem("disks", f"{command.name}, {trouble.__name__}: exit code {code}", None, said)
        return ["WRONG"]
    again = workshop.start(command, place, resume=True)
    if not workshop.check("disks", command, place, again, again.wait()):
        return ["WRONG"]
    return ["told, and went on to the same bits" if refused else "came to its end all the same"]


@contextlib.contextmanager
def _disk(place: Path) -> Iterator[None]:
    _run("mount", "-t", "tmpfs", "-o", f"size={_SIZE}m", "tmpfs", str(place))
    try:
        yield
    finally:
        _run("umount", "--lazy", str(place))


@contextlib.contextmanager
def _full(place: Path) -> Iterator[None]:
    """Nothing is free any longer."""
    filler = place / "filler"
    with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(os.urandom(4096))
    try:
        yield
    finally:
        filler.unlink()


@contextlib.contextmanager
def _read_only(place: Path) -> Iterator[None]:
    """The same folder once more, above itself and read-only: what is open stays so, and nothing else can be."""
    _run("mount", "--bind", str(place), str(place))
    try:
        _run("mount", "-o", "remount,bind,ro", str(place))
        yield
    finally:
        _run("umount", "--lazy", str(place))


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
