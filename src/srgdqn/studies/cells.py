"""Cells: what a study is made of, each computed once and kept in a folder of its own.

A cell is a training run, or a measurement that leaves tables. It is computed again only if what was asked, the source
files that compute it, the versions or the kind of machine have changed, or if its folder is damaged.
"""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import polars as pl

from srgdqn.api import provenance_of, train_configured, with_kernel
from srgdqn.engines.local import run_locally
from srgdqn.errors import InputError
from srgdqn.interrupts import ToldToStopError, let_interrupts_through
from srgdqn.native.build import toolchain
from srgdqn.result import Result, load_result
from srgdqn.settings import Configuration
from srgdqn.store import measurement
from srgdqn.store.destination import MANIFEST
from srgdqn.store.measurement import Measured
from srgdqn.store.provenance import provenance

_WHAT_BITS_DEPEND_ON = ("source", "versions", "machine", "instruction_sets", "compiler")

Hear = Callable[[float], None]
"""Is told the share that is done."""
Say = Callable[[str], None]
Outcome = TypeVar("Outcome", Result, Measured)


class AnyCell(Protocol):
    """What `compute` needs to know of a cell."""

    @property
    def name(self) -> str:
        """What its folder is called."""

    @property
    def alone(self) -> bool:
        """Whether nothing may run beside it."""

    def compute(self, hear: Hear, stop: threading.Event) -> Any:
        """The outcome; a `ToldToStopError` once `stop` is set."""

    def save(self, outcome: Any, folder: Path) -> None:
        """Keeps the outcome."""

    def load(self, folder: Path) -> tuple[Any, str | None]:
        """What the folder holds, and why it cannot be used (None if it can)."""


@dataclass(frozen=True)
class Cell:
    """A training run."""

    name: str
    configuration: Configuration
    alone: bool = False

    def compute(self, hear: Hear, stop: threading.Event) -> Result:
        """Trains on the calling thread."""
        result = train_configured(
            self.configuration, progress=False, listener=lambda report: hear(report.share), workers=1, stop=stop
        )
        if result.run.provenance["interrupted"]:
            raise ToldToStopError
        return result

    def save(self, outcome: Result, folder: Path) -> None:
        """Keeps the run."""
        outcome.save(folder, overwrite=True)

    def load(self, folder: Path) -> tuple[Result, str | None]:
        """The run in the folder."""
        result = load_result(folder)
        if result.rounds.height < self.configuration.training.rounds or result.run.provenance["interrupted"]:
            return result, "it was interrupted"
        expected = with_kernel(self.configuration)
        ran = result.configuration.training.kernel
        if ran != expected.training.kernel:
            return result, f"it was run by {ran}, and now {expected.training.kernel} is to"
        if result.configuration != expected:
            return result, "its configuration has changed"
        return result, _stale(result.run.provenance, provenance_of(expected))


Measure = Callable[[Any, Hear, threading.Event], dict[str, pl.DataFrame]]
"""From a plan, a listener and an event that asks to stop, to tables."""


@dataclass(frozen=True)
class MeasurementCell:
    """A measurement: a function of a room that draws nothing, and the plan it is called with (a dataclass)."""

    name: str
    measure: Measure
    plan: Any
    alone: bool = False

    def compute(self, hear: Hear, stop: threading.Event) -> Measured:
        """Measures on the calling thread."""
        start = time.perf_counter()
        tables = self.measure(self.plan, hear, stop)
        about = {"plan": self._question(), "seconds": time.perf_counter() - start, **self._provenance()}
        return Measured(tables, about)

    def save(self, outcome: Measured, folder: Path) -> None:
        """Keeps the tables."""
        measurement.save(outcome, folder, overwrite=True)

    def load(self, folder: Path) -> tuple[Measured, str | None]:
        """The tables in the folder."""
        measured = measurement.load(folder)
        if measured.about["plan"] != self._question():
            return measured, "its plan has changed"
        return measured, _stale(measured.about, self._provenance())

    def _provenance(self) -> dict[str, Any]:
        native = '"kernel": "native"' in json.dumps(self._question())
        return {**provenance(self.measure.__module__), "compiler": toolchain() if native else None}

    def _question(self) -> Any:
        return json.loads(json.dumps(dataclasses.asdict(self.plan)))


def finished(cell: AnyCell, folder: Path, say: Say) -> Any:
    """The cell's outcome, if its folder holds one of this very question and version, whole and undamaged."""
    place = folder / cell.name
    if not place.exists():
        return None
    if not (place / MANIFEST).exists():
        raise InputError(f"{place} is in the way of a cell and is none itself. Move it away, or use another folder.")
    try:
        outcome, problem = cell.load(place)
    except InputError as error:
        outcome, problem = None, str(error).split(". ")[0].rstrip(".")  # what to do about it is done here
    if problem is None:
        return outcome
    say(f"{cell.name} is computed again: {problem}.")
    return None


def compute(
    cells: Sequence[AnyCell],
    folder: Path,
    *,
    listener: Callable[[str, float], None] = lambda name, share: None,
    say: Say = lambda text: None,
) -> dict[str, Any]:
    """Every cell's outcome by name: read from the folder where it is finished, computed and saved there otherwise.

    A KeyboardInterrupt leaves every cell that is finished by then in the folder.
    """
    outcomes = {cell.name: found for cell in cells if (found := finished(cell, folder, say)) is not None}
    for name in outcomes:
        listener(name, 1.0)
    missing = [cell for cell in cells if cell.name not in outcomes]

    def run(cell: AnyCell, stop: threading.Event) -> Any:
        try:
            outcome = cell.compute(lambda share: listener(cell.name, share), stop)
        except ToldToStopError:
            return None
        cell.save(outcome, folder / cell.name)
        listener(cell.name, 1.0)
        return outcome

    let_interrupts_through()
    for crowd, workers in (
        ([cell for cell in missing if not cell.alone], None),
        ([cell for cell in missing if cell.alone], 1),
    ):
        for cell, outcome in run_locally(run, crowd, workers=workers):
            if outcome is not None:
                outcomes[cell.name] = outcome
    return {cell.name: outcomes[cell.name] for cell in cells}


def _stale(then: dict[str, Any], now: dict[str, Any]) -> str | None:
    if any(then.get(name) != now[name] for name in _WHAT_BITS_DEPEND_ON):
        return "it was made by another version or on another kind of machine"
    return None
