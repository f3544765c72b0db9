"""Whether a folder is the same one on another machine."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_MARK = ".shared"


class Mark(NamedTuple):
    """What is to be seen in a folder by those who share it."""

    folder: Path
    word: str

    def is_seen(self) -> bool:
        """Whether the folder here is the one that was marked."""
        try:
            return (self.folder / _MARK).read_text(encoding="ascii") == self.word
        except (OSError, ValueError):
            return False


@contextlib.contextmanager
def marked(folder: Path) -> Iterator[Mark | None]:
    """Marks a folder for as long as others are to look at it; None where nothing can be written."""
    mark = Mark(folder.absolute(), secrets.token_hex(16))
    try:
        mark.folder.mkdir(parents=True, exist_ok=True)
        (mark.folder / _MARK).write_text(mark.word, encoding="ascii")
    except OSError:
        yield None
        return
    try:
        yield mark
    finally:
        with contextlib.suppress(OSError):
            os.unlink(mark.folder / _MARK)
