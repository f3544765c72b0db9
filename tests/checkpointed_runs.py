"""Small runs that are saved with every checkpoint, and what becomes of them in the wrong hands."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import srgdqn
from host_environments import SMALL
from srgdqn.results.result import Result
from srgdqn.runs.run import load, save
from tiny import TINY

# Segments end where evaluations are due, so that there is a checkpoint every 64 steps.
COMPILED: dict[str, Any] = dict(
    {name: value for name, value in TINY.items() if name != "steps"},
    rounds=3,
    steps=400,
    evaluation_interval=64,
    checkpoint_every=0,
    keep_checkpoints="all",
    progress=False,
)

HOSTED: dict[str, Any] = dict(
    SMALL, rounds=1, steps=240, checkpoint_every=0, keep_checkpoints="all", progress=False, evaluation_interval=40
)


def checkpointed_run(folder: Path, algorithm: str = "srg-dqn", **options: Any) -> Result:
    """A run of CartPole in a new folder, with its checkpoints."""
    return srgdqn.train("CartPole", algorithm, out=folder, **{**COMPILED, **options})


def hosted_run(folder: Path, algorithm: str = "srg-dqn", **options: Any) -> Result:
    """A run of Gymnasium's CartPole in a new folder, with its checkpoints."""
    return srgdqn.train("CartPole-v1", algorithm, out=folder, **{**HOSTED, **options})


def resealed(folder: Path, copy: Path, **changes: Any) -> Path:
    """The run of a folder saved elsewhere with changes, with digests that are right."""
    return save(dataclasses.replace(load(folder), **changes), copy)


def with_another_bit(folder: Path, copy: Path, path: str, place: tuple[int, ...]) -> Path:
    """The same with the last bit of one parameter flipped."""
    parameters = {name: np.array(array) for name, array in load(folder).parameters.items()}
    bits = parameters[path].view(np.uint32)
    bits[place] ^= 1
    return resealed(folder, copy, parameters=parameters)


def with_another_value(folder: Path, copy: Path, table: str, row: int, column: str, value: Any) -> Path:
    """The same with one value of a table replaced."""
    tables = dict(load(folder).tables)
    values = tables[table][column].to_list()
    values[row] = value
    tables[table] = tables[table].with_columns(pl.Series(column, values, tables[table].schema[column]))
    return resealed(folder, copy, tables=tables)
