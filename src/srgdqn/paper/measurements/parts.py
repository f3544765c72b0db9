"""Measurements that go from part to part: the tables of the parts that are done are checkpointed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import polars as pl

from srgdqn.errors import InputError
from srgdqn.interrupts import StopRequestedError
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.runs.checkpoints import Checkpoint
from srgdqn.runs.provenance import is_count
from srgdqn.runs.snapshots import Snapshot
from srgdqn.runs.tables import encode_any
from srgdqn.runs.untrusted_parquet import decode_any

Part = TypeVar("Part")


class Parts:
    """The tables of a measurement, which grow part by part. No part depends on another, nor on when it is computed."""

    def __init__(self, manager: CheckpointManager | None, schemas: Mapping[str, Mapping[str, Any]]) -> None:
        """What the newest good checkpoint has, or else empty tables with these columns."""
        self._frames = {name: [pl.DataFrame(schema=schema)] for name, schema in schemas.items()}
        self._done = 0
        self._checkpoints = None if manager is None else manager.job("parts")
        restored = None if self._checkpoints is None else self._checkpoints.restore(self._read)
        if restored is not None:
            self._done, tables = restored
            self._frames = {name: [table] for name, table in tables.items()}

    def left(self, parts: Sequence[Part], report: Callable[[float], None], stop: threading.Event) -> Iterator[Part]:
        """Of all parts, in an order that is always the same, those that are not done. The rows of each are to be added
        before the next is asked for.
        """
        saved = self._done
        for number, part in enumerate(parts[saved:], start=saved + 1):
            if stop.is_set():
                if self._checkpoints is not None and self._done > saved:
                    self._checkpoints.save(self._snapshot())
                raise StopRequestedError
            yield part
            self._done = number
            report(number / len(parts))
            if self._checkpoints is None:
                continue
            if number == len(parts):
                self._checkpoints.finish(self._snapshot())
            elif self._checkpoints.due():
                self._checkpoints.save(self._snapshot())
                saved = number

    def add(self, **rows: pl.DataFrame | Sequence[Mapping[str, Any]]) -> None:
        """Adds rows of the present part to the tables of these names."""
        for name, new in rows.items():
            frames = self._frames[name]
            frames.append(new if isinstance(new, pl.DataFrame) else pl.DataFrame(new, schema=frames[0].schema))

    def tables(self) -> dict[str, pl.DataFrame]:
        """All rows so far."""
        return {name: pl.concat(frames, rechunk=True) for name, frames in self._frames.items()}

    def _snapshot(self) -> Snapshot:
        tensors = {name: np.frombuffer(encode_any(table), np.uint8) for name, table in self.tables().items()}
        return Snapshot({"parts": self._done}, tensors, {})

    def _read(self, checkpoint: Checkpoint) -> tuple[int, dict[str, pl.DataFrame]]:
        done = checkpoint.about.get("parts", 0)
        if not is_count(done, 1):
            raise InputError("it does not say how far it is")
        tables = {name: decode_any(array.tobytes()) for name, array in checkpoint.tensors.items()}
        if {name: table.schema for name, table in tables.items()} != {
            name: frames[0].schema for name, frames in self._frames.items()
        }:
            raise InputError("it has other tables")
        return done, tables
