"""The one door for files from strangers: every loader reads through it.

A file is read only if it is a regular one: links, pipes and devices are refused. What its content would take in memory
is checked before any of it is taken. JSON, safetensors and Parquet (`untrusted_parquet`) are decoded strictly, and
nothing in a file is run. Errors say which file, what is wrong with it and what to do.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import math
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, TypeVar

from srgdqn.errors import InputError

if TYPE_CHECKING:
    import numpy as np

Content = TypeVar("Content")

_RESTORE = "Restore the folder from a copy, or make the run again."


class NewerFormatError(InputError):
    """A file that a later release wrote."""


def damaged(path: Path, problem: str, remedy: str = _RESTORE) -> InputError:
    """The error about a file that cannot be used."""
    return InputError(f"{path} cannot be used: {problem}. {remedy}")


# Files


def read_file(path: Path, longest: int | None = None) -> bytes:
    """The bytes of a regular file that has at most `longest` of them."""
    longest = most_bytes() if longest is None else min(longest, most_bytes())
    try:
        with open_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > longest:
                raise damaged(path, f"it has {size} bytes where at most {longest} are expected")
            return file.read(size)  # and no more, should it grow meanwhile
    except FileNotFoundError as error:
        raise damaged(path, "it is missing") from error
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise damaged(path, f"it cannot be read ({getattr(error, 'strerror', None) or error})") from error
    except MemoryError as error:
        raise damaged(path, "there is not enough memory to read it") from error


@contextlib.contextmanager
def open_file(path: Path, *, follow: bool = False) -> Iterator[BinaryIO]:
    """A regular file, opened without ever waiting for a pipe or a device; links are followed only if so asked."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    flags |= 0 if follow else getattr(os, "O_NOFOLLOW", 0)
    try:
        file = open(path, "rb", opener=lambda name, _: os.open(name, flags))  # noqa: SIM115
    except OSError as error:
        if error.errno == errno.ELOOP and os.path.islink(path):
            raise damaged(
                path,
                "it is a link, and links are refused on purpose, as they may lead to any file of this machine",
                "Replace it with the file itself.",
            ) from error
        if error.errno in (errno.EISDIR, errno.ENXIO):
            raise _not_regular(path) from error
        raise
    with file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise _not_regular(path)
        yield file


def _not_regular(path: Path) -> InputError:
    return damaged(path, "it is not a regular file, but a folder, a pipe or a device")


def decoded(path: Path, decode: Callable[[bytes], Content], data: bytes) -> Content:
    """What `decode` makes of a file's bytes; its errors name the file."""
    try:
        return decode(data)
    except NewerFormatError as error:
        raise InputError(f"{path} {error}") from error
    except ValueError as error:  # InputError and UnicodeDecodeError alike
        raise damaged(path, str(error).rstrip(".")) from error


# Memory

_ALWAYS = 2**26
_BYTES_PER_BYTE = 100  # numbers that repeat are written in far fewer bytes than they take, but not in none
_SHARE = 3  # bytes are held as they lie in the file, as arrays, and where the arrays are used


def most_bytes() -> int:
    """The most that anything in a file may take: a third of the machine's memory."""
    return _memory() // _SHARE


def most_decoded(length: int) -> int:
    """The most that a compressed file of that length may take once it is decoded."""
    return min(most_bytes(), _ALWAYS + _BYTES_PER_BYTE * length)


def check_room(wanted: float, what: str, most: int | None = None) -> None:
    """An `InputError` if `what` would take more bytes than it may. Call it before any of them is taken."""
    most = most_bytes() if most is None else most
    if not wanted <= most:
        raise InputError(f"{what} would take {_shown(wanted)} of memory, and {_shown(most)} is the most it may take")


def _shown(count: float) -> str:
    return f"{count / 2**20:,.0f} MiB" if count < 2**60 else "more than an exbibyte"


@functools.cache
def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # pragma: no cover, a system without this figure
        return 2**33


# JSON

DEEPEST = 32
"""Lists and objects within each other. A run's manifest has six."""

_MOST_DIGITS = 40


def parse_json(text: str | bytes, *, finite: bool = True) -> Any:
    """The value of a JSON document as this package writes it; an `InputError` for any other.

    Whole numbers have at most 40 digits (states of generators have 128 bits), the others are `finite` unless the state
    of training is read, names in an object differ, nesting is shallow, and texts can be printed.
    """
    constant: Callable[[str], float] = _constant if finite else float
    real: Callable[[str], float] = _real if finite else float
    try:
        text = text if isinstance(text, str) else text.decode()  # UTF-8 alone, of what JSON may be in
        value = json.loads(text, object_pairs_hook=_object, parse_constant=constant, parse_int=_whole, parse_float=real)
    except (ValueError, RecursionError) as error:  # ValueError stands for bytes that are no text, too
        raise InputError(f"not JSON ({error})") from error
    _check_value(value, DEEPEST)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in an object")
    return found


def _constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number")


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError("a whole number has too many digits")
    return int(digits)


def _real(digits: str) -> float:
    if not math.isfinite(value := float(digits)):
        raise ValueError("a number is not finite")
    return value


def _check_value(value: Any, deeper: int) -> None:
    if isinstance(value, str):
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise InputError("a text in it has half a character")
    elif isinstance(value, dict | list):
        if not deeper:
            raise InputError(f"its JSON is nested more than {DEEPEST} deep")
        for part in (*value, *value.values()) if isinstance(value, dict) else value:
            _check_value(part, deeper - 1)


# Arrays


def read_tensors(data: bytes, what: str = "safetensors file") -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays in the bytes of a safetensors file, which are no more than its bytes, and the texts beside them."""
    import safetensors.numpy

    try:
        size = int.from_bytes(data[:8], "little")
        header = parse_json(data[8 : 8 + size])
        tensors: dict[str, np.ndarray] = safetensors.numpy.load(data)
        metadata = header.get("__metadata__") or {}
    except Exception as error:  # whatever the parser stumbles over, it is the file that is wrong
        raise InputError(f"not a {what} ({error})") from error
    for name, array in tensors.items():
        if array.dtype.kind not in "biuf":
            raise InputError(f"its array {name!r} is of type {array.dtype.name}, where numbers are expected")
    return tensors, metadata
