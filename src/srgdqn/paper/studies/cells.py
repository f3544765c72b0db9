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

from srgdqn.api import identity_of, train_configured
from srgdqn.config import Configuration
from srgdqn.engines.choice import RAY
from srgdqn.engines.threads import run_locally
from srgdqn.kernel.build import toolchain
from srgdqn.runs import measurement
from srgdqn.runs.cache import Say, finished, why_not_this
from srgdqn.runs.checkpoint_manager import USUAL, Keeping, Pace
from srgdqn.runs.inputs import hashed
from srgdqn.runs.interrupts import ToldToStopError, let_interrupts_through
from srgdqn.runs.measurement import Measured
from srgdqn.runs.provenance import LOCAL, provenance, stale, what_bits_depend_on
from srgdqn.runs.result import Result, load_result
from srgdqn.runs.run_folder import CELLS_UNDER_WAY, check_stays_within
from srgdqn.runs.session import stamp_of

Hear = Callable[[float], None]
"""Is told the share that is done."""
Outcome = TypeVar("Outcome", Result, Measured)


class AnyCell(Protocol):
    """What `compute` needs to know of a cell."""

    @property
    def name(self) -> str:
        """What its folder is called."""

    @property
    def alone(self) -> bool:
        """Whether nothing may run beside it."""

    def compute(self, hear: Hear, stop: threading.Event, keeping: Keeping | None = None, ran_by: str = LOCAL) -> Any:
        """The outcome; a `ToldToStopError` once `stop` is set. What can be kept on the way is kept below `keeping`;
        `ran_by` is what the engine is called.
        """

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

    def compute(self, hear: Hear, stop: threading.Event, keeping: Keeping | None = None, ran_by: str = LOCAL) -> Result:
        """Trains on the calling thread, from where it was kept, if it was."""
        decided, about = identity_of(self.configuration)
        kept = None if keeping is None else keeping.stamped(stamp_of(about), self.name)
        told: dict[str, Any] = {"progress": False, "listener": lambda report: hear(report.share)}
        result = train_configured(decided, **told, workers=1, stop=stop, keeping=kept, ran_by=ran_by)
        if result.run.provenance.get("interrupted", True):
            raise ToldToStopError
        if kept is not None:
            kept.flush()  # should it be refused a place in the end, it is saved by going on with it
        return result

    def save(self, outcome: Result, folder: Path) -> None:
        """Keeps the run."""
        outcome.save(folder, overwrite=True)

    def load(self, folder: Path) -> tuple[Result, str | None]:
        """The run in the folder."""
        result = load_result(folder)
        return result, why_not_this(result, self.configuration)


Measure = Callable[[Any, Hear, threading.Event], dict[str, pl.DataFrame]]
"""From a plan, a listener and an event that asks to stop, to tables."""


@dataclass(frozen=True)
class MeasurementCell:
    """A measurement: a function of a room that draws nothing, and the plan it is called with (a dataclass)."""

    name: str
    measure: Measure
    plan: Any
    alone: bool = False

    def compute(
        self, hear: Hear, stop: threading.Event, keeping: Keeping | None = None, ran_by: str = LOCAL
    ) -> Measured:
        """Measures on the calling thread; nothing is kept before it is done."""
        del keeping
        start = time.perf_counter()
        tables = self.measure(self.plan, hear, stop)
        about = {"plan": self._question(), "seconds": time.perf_counter() - start, **self._provenance()}
        named = getattr(self.measure, "__qualname__", type(self.measure).__qualname__)  # an instance has no name
        inputs = hashed({"measure": f"{self.measure.__module__}.{named}", "plan": about["plan"]})
        return Measured(tables, {**about, "engine": ran_by, "inputs": {"digest": inputs["digest"]}})

    def save(self, outcome: Measured, folder: Path) -> None:
        """Keeps the tables."""
        measurement.save(outcome, folder, overwrite=True)

    def load(self, folder: Path) -> tuple[Measured, str | None]:
        """The tables in the folder."""
        measured = measurement.load(folder)
        if measured.about["plan"] != self._question():
            return measured, "its plan has changed"
        return measured, stale(*map(what_bits_depend_on, (measured.about, self._provenance())))

    def _provenance(self) -> dict[str, Any]:
        native = '"kernel": "native"' in json.dumps(self._question())
        return {**provenance(self.measure.__module__), "compiler": toolchain() if native else None}

    def _question(self) -> Any:
        return json.loads(json.dumps(dataclasses.asdict(self.plan)))


def compute(
    cells: Sequence[AnyCell],
    folder: Path,
    *,
    listener: Callable[[str, float], None] = lambda name, share: None,
    say: Say = lambda text: None,
    pace: Pace = USUAL,
    engine: str = LOCAL,
) -> dict[str, Any]:
    """Every cell's outcome by name: read from the folder where it is finished, computed and saved there otherwise, by
    an engine that is ready. What must be alone is computed on this machine in any case.

    A KeyboardInterrupt leaves every cell that is finished by then in the folder. Runs that were under way, however they
    ended, go on from their checkpoints.
    """
    check_stays_within(folder / CELLS_UNDER_WAY)
    keeping = Keeping(folder / CELLS_UNDER_WAY, *pace)
    outcomes = {cell.name: found for cell in cells if (found := finished(cell, folder, say)) is not None}
    for name in outcomes:
        listener(name, 1.0)
    missing = [cell for cell in cells if cell.name not in outcomes]

    def keep(cell: AnyCell, outcome: Any) -> Any:
        cell.save(outcome, folder / cell.name)
        keeping.forget(cell.name)
        listener(cell.name, 1.0)
        return outcome

    def run(cell: AnyCell, stop: threading.Event) -> Any:
        try:
            return keep(cell, cell.compute(lambda share: listener(cell.name, share), stop, keeping))
        except ToldToStopError:
            return None

    let_interrupts_through()
    alone, crowd = [cell for cell in missing if cell.alone], [cell for cell in missing if not cell.alone]
    if engine == RAY:
        from srgdqn.paper.studies.cells_on_ray import compute_on_ray

        for cell, outcome in compute_on_ray(crowd, keeping, listener):
            outcomes[cell.name] = keep(cell, outcome)
        crowd = []
    for group, workers in ((crowd, None), (alone, 1)):
        for cell, outcome in run_locally(run, group, workers=workers):
            if outcome is not None:
                outcomes[cell.name] = outcome
    keeping.forget()
    return {cell.name: outcomes[cell.name] for cell in cells}
