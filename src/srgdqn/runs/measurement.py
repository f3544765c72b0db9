"""A measurement: the question that was asked and tables of what came out, in a folder."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from srgdqn.runs import manifest
from srgdqn.runs.destination import MANIFEST, write_folder
from srgdqn.runs.manifest import read_folder
from srgdqn.runs.tables import encode_any, in_order
from srgdqn.runs.untrusted import decoded
from srgdqn.runs.untrusted_parquet import decode_any

_TABLE = re.compile(r"[a-z0-9_]+\.parquet")


@dataclass(frozen=True, eq=False)
class Measured:
    """What is stored of a measurement."""

    tables: dict[str, pl.DataFrame]
    about: dict[str, Any]
    """The question, the time it took, versions and machine: JSON values."""

    def __post_init__(self) -> None:
        """Marks what is sorted, be it computed now or read, so that both are summed in the same order."""
        object.__setattr__(self, "tables", {name: in_order(table) for name, table in self.tables.items()})


def save(measured: Measured, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Writes the measurement into a new folder, whole or not at all."""
    files = {f"{name}.parquet": encode_any(table) for name, table in measured.tables.items()}
    contents = {**files, MANIFEST: manifest.render(files, measured.about, manifest.MEASUREMENT)}
    return write_folder(folder, contents, overwrite=overwrite)


def load(folder: str | os.PathLike[str]) -> Measured:
    """The measurement in a folder, if not a byte of it differs from what was saved."""
    path = Path(folder)
    files, about = read_folder(path, manifest.MEASUREMENT, lambda name: _TABLE.fullmatch(name) is not None)
    tables = {name.removesuffix(".parquet"): decoded(path / name, decode_any, data) for name, data in files.items()}
    return Measured(tables, about)
