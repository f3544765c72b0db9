"""How much memory a file may ask for, be it by its length or by what its headers say: the one place that decides."""

from __future__ import annotations

import functools
import os

from srgdqn.errors import InputError

_ALWAYS = 2**26
_BYTES_PER_BYTE = 100  # numbers that repeat are written in far fewer bytes than they take, but not in none
_SHARE = 3  # bytes are held as they lie in the file, as arrays, and where the arrays are used


def most_bytes() -> int:
    """The most that any one thing in a file may take: a third of the machine's memory."""
    return _memory() // _SHARE


def most_decoded(length: int) -> int:
    """The most that a compressed file of that length may take once it is decoded."""
    return min(most_bytes(), _ALWAYS + _BYTES_PER_BYTE * length)


def check_room(wanted: float, what: str, most: int | None = None) -> None:
    """An `InputError` if `what` would take more bytes than it may, which is told before any of them is taken."""
    most = most_bytes() if most is None else most
    if not wanted <= most:
        raise InputError(f"{what} would take {_shown(wanted)} of memory, and {_shown(most)} are the most that it may")


def _shown(count: float) -> str:
    return f"{count / 2**20:,.0f} MiB" if count < 2**60 else "more than an exbibyte"


@functools.cache
def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # pragma: no cover, a system that does not tell
        return 2**33
