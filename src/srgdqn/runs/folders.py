"""Reading what a manifest lists: every byte checked, no link followed, no code run."""

from __future__ import annotations

import contextlib
import functools
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

from srgdqn.errors import InputError
from srgdqn.runs import manifest
from srgdqn.runs.destination import MANIFEST
from srgdqn.runs.memory_limit import most_bytes

# A manifest names a handful of files: whatever is longer is none.
_LONGEST_MANIFEST = 2**20

Content = TypeVar("Content")


def read_manifest(path: Path, kind: str) -> manifest.Manifest:
    """The manifest in a folder."""
    what = "measurement" if kind == manifest.MEASUREMENT else "run"
    if not os.path.lexists(path / MANIFEST):
        reason = "it does not exist"
        if os.path.isdir(path):
            reason = f"it has no {MANIFEST}"
        elif os.path.exists(path):
            reason = "it is a file (one that an agent was saved in is read by srgdqn.Agent.load, in Python)"
        raise InputError(f"{path} is not the folder of a {what}: {reason}. Give a folder that a {what} was saved in.")
    return decoded(
        path / MANIFEST, functools.partial(manifest.parse, kind=kind), read_ordinary(path / MANIFEST, _LONGEST_MANIFEST)
    )


def verified(path: Path, entry: manifest.Entry) -> bytes:
    """The bytes of a file, if they are those that the manifest lists."""
    data = read_ordinary(path, entry.size)
    if manifest.Entry.of(data) != entry:
        raise damaged(path, f"it is not the file that {MANIFEST} lists")
    return data


def read_ordinary(path: Path, longest: int | None = None) -> bytes:
    """The bytes of an ordinary file, never of what a link, a pipe or a device leads to."""
    longest = most_bytes() if longest is None else min(longest, most_bytes())
    try:
        with open_ordinary(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > longest:
                raise damaged(path, f"it has {size} bytes where {longest} are expected")
            return file.read(size)  # and no more, should it grow meanwhile
    except FileNotFoundError as error:
        raise damaged(path, "it is missing") from error
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise damaged(path, f"it cannot be read ({getattr(error, 'strerror', None) or error})") from error
    except MemoryError as error:
        raise damaged(path, "there is not enough memory to read it") from error


@contextlib.contextmanager
def open_ordinary(path: Path, *, follow: bool = False) -> Iterator[BinaryIO]:
    """An ordinary file, opened without ever waiting for a pipe or a device; links are followed only if so asked."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    flags |= 0 if follow else getattr(os, "O_NOFOLLOW", 0)
    with open(path, "rb", opener=lambda name, _: os.open(name, flags)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise damaged(path, "it is not an ordinary file")
        yield file


def decoded(path: Path, decode: Callable[[bytes], Content], data: bytes) -> Content:
    """What a file's bytes hold."""
    try:
        return decode(data)
    except manifest.NewerFormatError as error:
        raise InputError(f"{path} {error}") from error
    except ValueError as error:  # InputError and UnicodeDecodeError alike
        raise damaged(path, str(error).rstrip(".")) from error


def damaged(path: Path, problem: str) -> InputError:
    """What to raise about a file that cannot be used."""
    return InputError(f"{path} cannot be used: {problem}. Restore the folder from a copy, or make the run again.")
