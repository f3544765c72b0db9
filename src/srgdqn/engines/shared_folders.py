"""Whether a folder is the same one on another machine."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from srgdqn.errors import InputError
from srgdqn.runs.destination import disk_errors_reported, write_file
from srgdqn.runs.locks import locked
from srgdqn.runs.untrusted import read_file

_MARK, _LOCKS = ".shared", ".locks"


class Mark(NamedTuple):
    """What is to be seen in a folder by those who share it."""

    folder: Path
    word: str

    def is_seen(self) -> bool:
        """Whether the folder here is the one that was marked."""
        try:
            return read_file(self.folder / _MARK, len(self.word)) == self.word.encode()
        except InputError:
            return False


@contextlib.contextmanager
def claimed(mark: Mark | None, name: str) -> Iterator[bool]:
    """Whether what is called so in a marked folder may be written to from here until this ends: the folder is to be
    seen, and nobody else has claimed it, such as a call of a driver that died a moment ago.
    """
    with contextlib.ExitStack() as stack:
        mine = mark is not None and mark.is_seen()
        if mark is not None and mine:
            place = mark.folder / _LOCKS / name
            try:
                place.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked(place, what="a job"))
            except (InputError, OSError):
                mine = False
        yield mine


@contextlib.contextmanager
def marked(folder: Path) -> Iterator[Mark | None]:
    """Marks a folder for as long as others are to look at it; None where nothing can be written."""
    mark = Mark(folder.absolute(), secrets.token_hex(16))
    try:
        with disk_errors_reported(mark.folder):
            mark.folder.mkdir(parents=True, exist_ok=True)
        write_file(mark.folder / _MARK, mark.word.encode())
    except InputError:
        yield None
        return
    try:
        yield mark
    finally:
        with contextlib.suppress(OSError):
            os.unlink(mark.folder / _MARK)
        shutil.rmtree(mark.folder / _LOCKS, ignore_errors=True)
