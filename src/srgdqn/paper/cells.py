"""Cells of studies: training runs, and measurements that give tables. Each is cached (`srgdqn.session.cache`)."""

from __future__ import annotations

import dataclasses
import functools
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from srgdqn.engines.choice import executor_of
from srgdqn.engines.threads import Threads
from srgdqn.interrupts import StopRequestedError
from srgdqn.kernel.build import toolchain
from srgdqn.paper.measurements.recorded import Report
from srgdqn.results.result import Result
from srgdqn.runs import measurement
from srgdqn.runs.checkpoint_manager import DEFAULT_PACE, CheckpointManager, Pace
from srgdqn.runs.measurement import Measured
from srgdqn.runs.provenance import LOCAL, hashed, provenance, stale, what_bits_depend_on
from srgdqn.runs.unfinished import UNFINISHED_CELLS, check_stays_within
from srgdqn.session.cache import Cell, CellFolder, Say, TrainingCell
from srgdqn.session.prepare import prepare
from srgdqn.session.run_session import stamp_of
from srgdqn.training.distribute import distribute
from srgdqn.training.jax_setup import is_double
from srgdqn.training.reports import Listener, Progress


class StudyCell(Cell, Protocol):
    """A cell that knows how to compute itself."""

    @property
    def alone(self) -> bool:
        """Whether nothing may run beside it."""

    def compute(self, report: Report, stop: threading.Event, manager: CheckpointManager | None, ran_by: str) -> Any:
        """The outcome; raises `StopRequestedError` once `stop` is set. Checkpoints go below `manager`; `ran_by` is the
        engine's name.
        """


@dataclass(frozen=True)
class RunCell(TrainingCell):
    """A training run."""

    alone: bool = False

    def compute(self, report: Report, stop: threading.Event, manager: CheckpointManager | None, ran_by: str) -> Result:
        """Trains on the calling thread, from its checkpoints if there are any."""
        run = prepare(self.configuration, **self.own)
        checkpoints = None if manager is None else manager.stamped(stamp_of(run.identity), self.name)
        result = run.train(
            listener=lambda progress: report(progress.share),
            workers=1,
            stop=stop,
            manager=checkpoints,
            ran_by=ran_by,
        )
        if result.run.provenance.get("interrupted", True):
            raise StopRequestedError
        if checkpoints is not None:
            checkpoints.flush()  # if saving the result fails, the next run resumes from its end
        return result


Measure = Callable[[Any, Report, threading.Event, CheckpointManager | None], dict[str, pl.DataFrame]]
"""From a plan, a function for progress, an event that asks to stop, and where checkpoints go, to tables."""


@dataclass(frozen=True)
class MeasurementCell:
    """A measurement: a function of a module with a version (`srgdqn.runs.provenance`), and its plan (a dataclass)."""

    name: str
    measure: Measure
    plan: Any
    alone: bool = False
    computation: str = ""
    """The version that its bits depend on, where it is not one of its own: by default that of the function's module."""

    def compute(
        self, report: Report, stop: threading.Event, manager: CheckpointManager | None, ran_by: str
    ) -> Measured:
        """Measures on the calling thread, from its checkpoints if there are any. Its seconds are those since then."""
        start = time.perf_counter()
        plan, made_by = self._question(), self._provenance()
        digest = hashed({"measure": self._computation, "plan": plan})["digest"]
        checkpoints = None
        if manager is not None:
            stamp = stamp_of({**what_bits_depend_on(made_by), "precision": is_double()})
            checkpoints = manager.stamped(stamp, f"{self.name}/{digest}")
        tables = self.measure(self.plan, report, stop, checkpoints)
        if checkpoints is not None:
            checkpoints.flush()  # if saving the tables fails, the next run has them
        about = {"plan": plan, "seconds": time.perf_counter() - start, **made_by}
        return Measured(tables, {**about, "engine": ran_by, "inputs": {"digest": digest}})

    def save(self, outcome: Measured, folder: Path) -> None:
        """Saves the tables."""
        measurement.save(outcome, folder, overwrite=True)

    def load(self, folder: Path) -> tuple[Measured, str | None]:
        """The tables in the folder."""
        measured = measurement.load(folder)
        if measured.about["plan"] != self._question():
            return measured, "its plan has changed"
        return measured, stale(*map(what_bits_depend_on, (measured.about, self._provenance())))

    def _provenance(self) -> dict[str, Any]:
        native = '"kernel": "native"' in json.dumps(self._question())
        return {**provenance(self._computation), "compiler": toolchain() if native else None}

    @property
    def _computation(self) -> str:
        """Its name among the versions."""
        return self.computation or f"measurement.{self.measure.__module__.rpartition('.')[2]}"

    def _question(self) -> Any:
        return json.loads(json.dumps(dataclasses.asdict(self.plan)))


@dataclass(frozen=True)
class Console:
    """Where a command reports what it does, and how it computes."""

    begin: Callable[[str, Sequence[str]], None] = lambda title, names: None
    """Called with the title of a stage of work and the names of its cells."""
    progress: Callable[[str, float], None] = lambda name, share: None
    """Called with a cell's name and the share of it that is done."""
    say: Say = lambda text: None
    """Called with the reason why a stored cell is computed again."""
    pace: Pace = DEFAULT_PACE
    """How often unfinished cells are checkpointed."""
    engine: str = LOCAL
    """Where cells are computed; it is ready."""


QUIET = Console()


def run_cells(title: str, cells: Sequence[StudyCell], folder: Path, console: Console) -> dict[str, Any]:
    """The outcomes of cells, which may be listed several times, as a stage of a command's work."""
    unique = {cell.name: cell for cell in cells}
    # Long ones first, so that no core is left with one at the end.
    ordered = sorted(unique.values(), key=lambda cell: not isinstance(cell, MeasurementCell))
    console.begin(title, [cell.name for cell in ordered])
    return compute(ordered, folder / "cells", console)


def compute(cells: Sequence[StudyCell], folder: Path, console: Console = QUIET) -> dict[str, Any]:
    """Every cell's outcome by name: read from the folder where it is valid, else computed and saved there.

    What must be alone is computed on this machine, whatever the engine. A KeyboardInterrupt leaves every cell that is
    finished by then in the folder. Unfinished cells resume from their checkpoints.
    """
    check_stays_within(folder / UNFINISHED_CELLS)
    checkpoints = CheckpointManager(folder / UNFINISHED_CELLS, *console.pace)

    def compute_missing(missing: list[StudyCell], done: Callable[[StudyCell, Any], None]) -> None:
        absent = {cell.name for cell in missing}
        for cell in cells:
            if cell.name not in absent:
                console.progress(cell.name, 1.0)
        for alone, executor, ran_by in (
            (False, executor_of(console.engine) or Threads(), console.engine),
            (True, Threads(1), LOCAL),
        ):
            group = [cell for cell in missing if cell.alone == alone]
            listeners = [_listener(console, cell) for cell in group]
            names = [cell.name for cell in group]
            work = functools.partial(_compute_cell, ran_by)
            for index, outcome in distribute(executor, work, group, listeners, names=names, manager=checkpoints):
                if outcome is not None:
                    done(group[index], outcome)
                    checkpoints.forget(names[index])
                    console.progress(names[index], 1.0)

    outcomes: dict[str, Any] = {}
    CellFolder(folder, console.say, checkpoints).fill(cells, outcomes, compute_missing)
    return {cell.name: outcomes[cell.name] for cell in cells}


def _listener(console: Console, cell: StudyCell) -> Listener:
    return lambda progress: console.progress(cell.name, progress.share)


def _compute_cell(
    ran_by: str, cell: StudyCell, listener: Listener, stop: threading.Event, manager: CheckpointManager | None
) -> Any:
    """Computes a cell; None if it was stopped."""
    try:
        return cell.compute(lambda share: listener(Progress(share, 0, float("nan"), 0)), stop, manager, ran_by)
    except StopRequestedError:
        return None
