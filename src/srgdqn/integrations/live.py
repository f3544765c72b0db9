"""Where the rows of a run under way are: beside the folder that it will be saved in, which is not there before."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from srgdqn.errors import InputError
from srgdqn.integrations.json_lines import JsonLines
from srgdqn.runs.folders import open_ordinary

try:
    import fcntl
except ImportError:  # pragma: no cover, where the system has no such locks
    fcntl = None  # type: ignore[assignment]


def live_file(folder: str | os.PathLike[str]) -> Path:
    """The hidden file that a run to this folder writes while it goes on."""
    path = Path(os.path.abspath(folder))
    return path.with_name(f".{path.name}.live.jsonl")


@contextmanager
def live_rows(folder: str | os.PathLike[str] | None) -> Iterator[list[JsonLines]]:
    """A logger for `srgdqn watch`, where the run has a folder and one can be had; its file is locked until this ends.

    The run is saved by then, and the file is removed. If an exception ends it before, the file is left for the record,
    unless nothing happened.
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
    """Whether whoever wrote a run's rows is gone; False where that cannot be told."""
    if fcntl is None:
        return False
    try:
        with open_ordinary(path, follow=True) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (OSError, InputError):
        return False
    return True


def _remove(path: Path, handle: int) -> None:
    """Removes the file, if it is still this one: a later run to the same folder has its own."""
    with contextlib.suppress(OSError):
        if os.path.samestat(os.stat(path), os.fstat(handle)):
            path.unlink()
