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
from srgdqn.runs.manifest import read_folder
from srgdqn.runs.provenance import check_metadata
from srgdqn.runs.tensors import Tensors, decode_parameters, encode_parameters
from srgdqn.runs.unfinished import how_to_resume
from srgdqn.runs.untrusted import damaged, decoded

_CONFIGURATION = "configuration.toml"
_PARAMETERS = "parameters.safetensors"
_BEST = "best.safetensors"
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
    best: Tensors = field(default_factory=dict)
    """The parameters of each round's best policy, like those above; nothing where they were not kept."""


def save(run: Run, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Writes the run into a new folder, whole or not at all; `overwrite` replaces an older run's folder altogether."""
    if run.best and _forms(run.best) != _forms(run.parameters):
        raise InputError("the best parameters have not the names, shapes and types of the last ones. Give both alike.")
    check_destination(folder, overwrite=overwrite)
    files = {
        _CONFIGURATION: _configuration_bytes(run.configuration),
        **{f"{name}.parquet": tables.encode(name, table) for name, table in run.tables.items()},
        _PARAMETERS: encode_parameters(run.parameters),
        **({_BEST: encode_parameters(run.best)} if run.best else {}),
    }
    return write_folder(folder, {**files, MANIFEST: manifest.render(files, run.provenance)}, overwrite=overwrite)


def load(folder: str | os.PathLike[str]) -> Run:
    """The run in a folder, if not a byte of it differs from what was saved. Runs no code from it, follows no links."""
    path = Path(folder)
    if not os.path.lexists(path / MANIFEST) and (advice := how_to_resume(path)) is not None:
        raise InputError(f"the run to {path} is not finished: 'srgdqn watch' shows whether it is running. {advice}")
    files, about = read_folder(path, manifest.RUN, lambda name: name in (_CONFIGURATION, _PARAMETERS, _BEST, *_TABLES))
    for name in (_CONFIGURATION, _PARAMETERS):
        if name not in files:
            raise damaged(path / MANIFEST, f"it does not list {name}")
    decoded(path / MANIFEST, lambda _: check_metadata(about), b"")
    parameters = decoded(path / _PARAMETERS, decode_parameters, files[_PARAMETERS])
    best = decoded(path / _BEST, decode_parameters, files[_BEST]) if _BEST in files else {}
    if best and _forms(best) != _forms(parameters):
        raise damaged(path / _BEST, f"its arrays have not the names, shapes and types of those in {_PARAMETERS}")
    return Run(
        configuration=decoded(path / _CONFIGURATION, _configuration, files[_CONFIGURATION]),
        tables={
            table: decoded(path / name, functools.partial(tables.decode, table), files[name])
            for name, table in _TABLES.items()
            if name in files
        },
        parameters=parameters,
        provenance=about,
        best=best,
    )


def _forms(tensors: Tensors) -> dict[str, tuple[tuple[int, ...], str]]:
    return {name: (array.shape, array.dtype.name) for name, array in tensors.items()}


def _configuration_bytes(configuration: Configuration) -> bytes:
    data = configurations.dumps(configuration).encode()
    if configurations.loads(data.decode()) != configuration:
        raise InputError("the configuration would be read back as another one. Make it with srgdqn.configure.")
    return data


def _configuration(data: bytes) -> Configuration:
    return check_stored(configurations.loads(data.decode()))
