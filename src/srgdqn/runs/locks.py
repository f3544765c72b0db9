"""Folders that one process at a time writes to. The lock is the kernel's: a process that dies leaves none."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from srgdqn.errors import InputError
from srgdqn.runs.untrusted import open_file

try:
    import fcntl
except ImportError:  # pragma: no cover, where the system has no such locks
    fcntl = None  # type: ignore[assignment]


class OccupiedError(InputError):
    """A folder that another process works on."""


LOCK = ".lock"
"""The name of the lock's file in a locked folder."""

_PATIENCE = 2.0  # seconds in which a process that was ended a moment ago lets go
_PAUSE = 0.05


@contextlib.contextmanager
def locked(folder: Path, *, what: str) -> Iterator[None]:
    """Holds the folder's lock; an `OccupiedError` that names its holder if it cannot be had. `what` is the folder.

    Children do not inherit the lock. Where the file system has no locks, nothing is refused.
    """
    path = Path(os.path.realpath(folder)) / LOCK
    lock = _acquired(path, folder, what)
    try:
        yield
    finally:
        if lock is not None:
            with contextlib.suppress(OSError):
                if _holder(path) == str(os.getpid()):  # not another's, should the folder have been removed and remade
                    path.unlink()  # before it is released: whoever waits notices, and makes another
            lock.release()


def is_locked(folder: Path) -> bool:
    """Whether a process holds the folder's lock; it is taken to where the system cannot say."""
    try:
        with open_file(folder / LOCK) as file:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return fcntl is None
    except FileNotFoundError:
        return False
    except (OSError, InputError):
        return True


def _acquired(path: Path, folder: Path, what: str) -> FileLock | None:
    """The lock; None where the file system has none."""
    until = time.monotonic() + _PATIENCE
    while True:
        lock = FileLock(path, thread_local=False, fallback_to_soft=False)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=max(0.0, until - time.monotonic()), poll_interval=_PAUSE)
            path.write_text(f"{os.getpid()}\n")
            return lock
        except Timeout:
            holder = _holder(path)
            who = f"process {holder}" if holder.isdigit() else "another process"
            who = "this very process" if holder == str(os.getpid()) else who
            raise OccupiedError(
                f"{folder} is {what} that {who} is at work on. Wait until it has ended, or give another folder."
            ) from None
        except FileNotFoundError as error:  # whoever held it has removed the folder
            lock.release()
            if time.monotonic() > until:
                raise _not_writable(path, error) from error
        except (FileExistsError, NotADirectoryError, IsADirectoryError, PermissionError) as error:
            raise _not_writable(path, error) from error
        except OSError as error:
            if path.is_symlink():
                raise _not_writable(path, error) from error
            lock.release()
            return None  # a file system without locks, or a full one


def _holder(path: Path) -> str:
    """The id of the process that holds the lock, as its file says."""
    try:
        return path.read_bytes()[:32].decode(errors="replace").strip()
    except OSError:
        return ""


def _not_writable(path: Path, error: OSError) -> InputError:
    return InputError(f"{path} cannot be written ({error.strerror}). Give a folder where you may write.")
