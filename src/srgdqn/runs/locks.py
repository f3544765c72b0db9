"""Folders that one process at a time writes to, by a lock of the kernel's: whoever holds it and dies leaves none."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from srgdqn.errors import InputError

try:
    import fcntl
except ImportError:  # pragma: no cover, where the system has no such locks
    fcntl = None  # type: ignore[assignment]


class OccupiedError(InputError):
    """A folder that somebody else has."""


LOCK = ".lock"
"""What the file is called in a folder that is locked."""

_PATIENCE = 2.0  # seconds in which a process that was ended a moment ago lets go
_PAUSE = 0.05

# A process never refuses itself a lock of this kind, so those that it holds are remembered.
_held: set[Path] = set()
_holding = threading.Lock()


@contextlib.contextmanager
def locked(folder: Path, *, what: str) -> Iterator[None]:
    """Nobody else has the folder until this ends; an `OccupiedError` if somebody has. `what` it is stands in the error.

    Locks belong to a process, not to a file: its children do not inherit them. Where the file system has none, nothing
    is refused.
    """
    path = Path(os.path.realpath(folder)) / LOCK
    with _holding:
        if path in _held:
            raise _refused(folder, what, "this very process")
        _held.add(path)
    try:
        handle = _acquire(path, folder, what)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                if _is_at(path, handle):  # and not another's, should the folder have been removed and remade
                    path.unlink()
            os.close(handle)
    finally:
        with _holding:
            _held.discard(path)


def _acquire(path: Path, folder: Path, what: str) -> int:
    """The handle by which the lock is held until it is closed."""
    until = time.monotonic() + _PATIENCE
    while True:
        handle = _opened(path)
        why: InputError = _never_the_same(path)
        try:
            if fcntl is not None:
                fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(path, handle):
                os.ftruncate(handle, 0)
                os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
                return handle
        except FileNotFoundError:
            pass  # whoever held it has removed it meanwhile
        except (BlockingIOError, PermissionError):
            holder = os.pread(handle, 32, 0).decode(errors="replace").strip()
            why = _refused(folder, what, f"process {holder}" if holder.isdigit() else "another process")
        except OSError:
            return handle  # a file system without locks, or a full one
        os.close(handle)
        if time.monotonic() > until:
            raise why
        time.sleep(_PAUSE)


def _opened(path: Path) -> int:
    """The file, made if there is none, in a folder that whoever held it may have removed."""
    try:
        while True:
            with contextlib.suppress(FileNotFoundError):
                return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
            path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}). Give a folder where you may write.") from error


def _is_at(path: Path, handle: int) -> bool:
    return os.path.samestat(os.stat(path), os.fstat(handle))


def _never_the_same(path: Path) -> InputError:
    """Where a file system does not know a file again, or others never let go of it for long."""
    return InputError(
        f"{path} is another file whenever it is looked at, so that nobody can tell whose the folder is. Give a folder "
        "on another file system."
    )


def _refused(folder: Path, what: str, who: str) -> OccupiedError:
    return OccupiedError(
        f"{folder} is {what} that {who} is at work on. Wait until it has ended, or give another folder."
    )
