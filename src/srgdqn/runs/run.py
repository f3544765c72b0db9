"""A run: what was asked, what came out, with what; saved to a folder and loaded from it."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from srgdqn.config import Configuration
from srgdqn.config.checks import check_stored
from srgdqn.errors import InputError
from srgdqn.runs import configurations, manifest, tables
from srgdqn.runs.destination import MANIFEST, check_destination, write_folder
from srgdqn.runs.manifest import read_manifest, verified
from srgdqn.runs.provenance import check_metadata
from srgdqn.runs.run_folder import how_to_resume
from srgdqn.runs.tensors import Tensors, decode_parameters, encode_parameters
from srgdqn.runs.untrusted import damaged, decoded

_CONFIGURATION = "configuration.toml"
_PARAMETERS = "parameters.safetensors"
_TABLES = {f"{name}.parquet": name for name in tables.SCHEMAS}


@dataclass(frozen=True, eq=False)
class Run:
    """Everything that is stored of a run."""

    configuration: Configuration
    """What decided it."""
    tables: dict[str, pl.DataFrame]
    """What was recorded, by the names of `srgdqn.runs.tables.SCHEMAS`."""
    parameters: Tensors
    """The final parameters by path, each with the round axis first."""
    provenance: dict[str, Any] = field(default_factory=dict)
    """Versions and machine, as `srgdqn.runs.provenance` gives them."""


def save(run: Run, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Writes the run into a new folder, whole or not at all; `overwrite` replaces an older run's folder altogether."""
    check_destination(folder, overwrite=overwrite)
    files = {
        _CONFIGURATION: _configuration_bytes(run.configuration),
        **{f"{name}.parquet": tables.encode(name, table) for name, table in run.tables.items()},
        _PARAMETERS: encode_parameters(run.parameters),
    }
    return write_folder(folder, {**files, MANIFEST: manifest.render(files, run.provenance)}, overwrite=overwrite)


def load(folder: str | os.PathLike[str]) -> Run:
    """The run in a folder, if not a byte of it differs from what was saved. Runs no code from it, follows no links."""
    path = Path(folder)
    if not os.path.lexists(path / MANIFEST) and (advice := how_to_resume(path)) is not None:
        raise InputError(f"the run to {path} is not finished: 'srgdqn watch' shows whether it is running. {advice}")
    listed = read_manifest(path, manifest.RUN)
    for name in (_CONFIGURATION, _PARAMETERS):
        if name not in listed.files:
            raise damaged(path / MANIFEST, f"it does not list {name}")
    for name in listed.files:
        if name not in (_CONFIGURATION, _PARAMETERS, *_TABLES):
            raise damaged(path / MANIFEST, f"it lists {name!r}, which is no file of a run")
    decoded(path / MANIFEST, lambda _: check_metadata(listed.provenance), b"")
    data = {name: verified(path / name, entry) for name, entry in listed.files.items()}
    return Run(
        configuration=decoded(path / _CONFIGURATION, _configuration, data[_CONFIGURATION]),
        tables={
            table: decoded(path / name, functools.partial(tables.decode, table), data[name])
            for name, table in _TABLES.items()
            if name in data
        },
        parameters=decoded(path / _PARAMETERS, decode_parameters, data[_PARAMETERS]),
        provenance=listed.provenance,
    )


def _configuration_bytes(configuration: Configuration) -> bytes:
    data = configurations.dumps(configuration).encode()
    if configurations.loads(data.decode()) != configuration:
        raise InputError("the configuration would be read back as another one. Make it with srgdqn.configure.")
    return data


def _configuration(data: bytes) -> Configuration:
    return check_stored(configurations.loads(data.decode()))
