"""Names for what is still being written, beside its place; and the end of what killed processes have left of such.

Whoever writes in a folder shares a lock of the kernel's on the folder itself, which is gone with the process. Who can
have that lock alone knows that nobody writes there, and removes what is left. Such a lock may be known to one machine
only, where folders are shared. So a name has a mark of the running system, and only what bears one's own is removed;
where there are no locks or no such mark, nothing is.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # pragma: no cover, where the system has no such locks
    fcntl = None  # type: ignore[assignment]

_PREFIX = ".srgdqn-"
_RUNNING_SYSTEM = Path("/proc/sys/kernel/random/boot_id")  # Linux's own name for it, another one after every start


@contextlib.contextmanager
def scratch(folder: Path, suffix: str = "") -> Iterator[Path]:
    """A path in the folder at which nothing is, for a file or a folder. Nobody takes it for left behind meanwhile."""
    handle = _entered(folder)
    try:
        mark = "" if handle is None else f"{_mark()}-"
        yield folder / f"{_PREFIX}{mark}{secrets.token_hex(8)}{suffix}"
    finally:
        if handle is not None:
            os.close(handle)


def remove_what_is_left(folder: Path) -> None:
    """Removes what killed processes have left in the folder, if that can be told."""
    with scratch(folder):
        pass


def aside(folder: Path) -> Path:
    """A path for what is about to be replaced. It may be all that there is of it, and is never removed by others."""
    return folder / f"{_PREFIX}replaced-{secrets.token_hex(8)}"


def is_scratch(name: str) -> bool:
    """Whether a file or folder of that name is none that was ever finished."""
    return name.startswith(_PREFIX)


def _entered(folder: Path) -> int | None:
    """The handle by which the folder's lock is shared until it is closed; None where it cannot be had at once."""
    if fcntl is None or _mark() is None:
        return None
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # there is none, or it may not be read
        return None
    try:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove_all(handle)
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:  # somebody holds the lock alone, who need not be one of us, or there are none here
        os.close(handle)
        return None
    return handle


def _remove_all(folder: int) -> None:
    """Of the folder that is locked, whatever is by now at its path."""
    ours = re.compile(rf"{re.escape(_PREFIX)}{_mark()}-[0-9a-f]{{16}}(\..*)?")
    for name in os.listdir(folder):
        if ours.fullmatch(name):
            try:
                os.unlink(name, dir_fd=folder)
            except OSError:  # as it is a folder
                shutil.rmtree(name, ignore_errors=True, dir_fd=folder)


@functools.cache
def _mark() -> str | None:
    """A word for the system that is running; None where it has none."""
    try:
        return hashlib.sha256(_RUNNING_SYSTEM.read_bytes()).hexdigest()[:8]
    except OSError:
        return None
