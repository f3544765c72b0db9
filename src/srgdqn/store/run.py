"""A run: what was asked, what came out, with what; saved to a folder and loaded from it."""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from srgdqn.errors import InputError
from srgdqn.settings import Configuration
from srgdqn.store import configurations, manifest, parameters, parquet, tables
from srgdqn.store.destination import MANIFEST, check_destination, write_folder

__all__ = ["Run", "check_destination", "load", "save"]

_CONFIGURATION = "configuration.toml"
_PARAMETERS = "parameters.safetensors"
_TABLES = {f"{name}.parquet": name for name in tables.SCHEMAS}

# A manifest names a handful of files: whatever is longer is none.
_LONGEST_MANIFEST = 2**20

Content = TypeVar("Content")


@dataclass(frozen=True, eq=False)
class Run:
    """Everything that is kept of a run."""

    configuration: Configuration
    """What decided it."""
    tables: dict[str, pl.DataFrame]
    """What was recorded, by the names of `srgdqn.store.tables.SCHEMAS`."""
    parameters: parameters.Parameters
    """The final parameters by path, each with the round axis first."""
    provenance: dict[str, Any] = field(default_factory=dict)
    """Versions and machine, as `srgdqn.store.provenance` tells them."""


def save(run: Run, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Writes the run into a new folder, whole or not at all; `overwrite` replaces an older run's folder altogether."""
    check_destination(folder, overwrite=overwrite)
    files = {
        _CONFIGURATION: _configuration_bytes(run.configuration),
        **{f"{name}.parquet": parquet.encode(name, table) for name, table in run.tables.items()},
        _PARAMETERS: parameters.encode(run.parameters),
    }
    return write_folder(folder, {**files, MANIFEST: manifest.render(files, run.provenance)}, overwrite=overwrite)


def load(folder: str | os.PathLike[str]) -> Run:
    """The run in a folder, if not a byte of it differs from what was saved. Runs no code from it, follows no links."""
    path = Path(folder)
    if not os.path.isfile(path / MANIFEST):
        reason = f"it has no {MANIFEST}" if os.path.exists(path) else "it does not exist"
        raise InputError(f"{path} is not the folder of a run: {reason}. Give a folder that a run was saved in.")
    listed = _decoded(path / MANIFEST, manifest.parse, _read(path / MANIFEST, _LONGEST_MANIFEST))
    for name in (_CONFIGURATION, _PARAMETERS):
        if name not in listed.files:
            raise _damaged(path / MANIFEST, f"it does not list {name}")
    for name in listed.files:
        if name not in (_CONFIGURATION, _PARAMETERS, *_TABLES):
            raise _damaged(path / MANIFEST, f"it lists {name!r}, which is no file of a run")
    data = {name: _verified(path / name, entry) for name, entry in listed.files.items()}
    return Run(
        configuration=_decoded(path / _CONFIGURATION, _configuration, data[_CONFIGURATION]),
        tables={
            table: _decoded(path / name, functools.partial(parquet.decode, table), data[name])
            for name, table in _TABLES.items()
            if name in data
        },
        parameters=_decoded(path / _PARAMETERS, parameters.decode, data[_PARAMETERS]),
        provenance=listed.provenance,
    )


def _configuration_bytes(configuration: Configuration) -> bytes:
    data = configurations.dumps(configuration).encode()
    if _configuration(data) != configuration:
        raise InputError("the configuration would be read back as another one. Make it with srgdqn.configure.")
    return data


def _configuration(data: bytes) -> Configuration:
    return configurations.loads(data.decode())


def _verified(path: Path, entry: manifest.Entry) -> bytes:
    data = _read(path, entry.size)
    if manifest.Entry.of(data) != entry:
        raise _damaged(path, f"it is not the file that {MANIFEST} lists")
    return data


def _read(path: Path, longest: int) -> bytes:
    """The bytes of an ordinary file, never of what a link, a pipe or a device leads to."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        with open(path, "rb", opener=lambda name, _: os.open(name, flags)) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise _damaged(path, "it is not an ordinary file")
            if found.st_size > longest:
                raise _damaged(path, f"it has {found.st_size} bytes where {longest} are expected")
            return file.read()
    except FileNotFoundError as error:
        raise _damaged(path, "it is missing") from error
    except OSError as error:
        raise _damaged(path, f"it cannot be read ({error.strerror})") from error


def _decoded(path: Path, decode: Callable[[bytes], Content], data: bytes) -> Content:
    try:
        return decode(data)
    except manifest.NewerFormatError as error:
        raise InputError(f"{path} {error}") from error
    except ValueError as error:  # InputError and UnicodeDecodeError alike
        raise _damaged(path, str(error).rstrip(".")) from error


def _damaged(path: Path, problem: str) -> InputError:
    return InputError(f"{path} cannot be used: {problem}. Restore the folder from a copy, or make the run again.")
