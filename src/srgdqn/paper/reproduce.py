"""Runs the cells of the studies, and reports how far they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srgdqn.paper.cells import MeasurementCell, StudyCell, compute
from srgdqn.paper.scale import SETS, Scale
from srgdqn.paper.studies import EXPERIMENTS
from srgdqn.runs.checkpoint_manager import DEFAULT_PACE, Pace
from srgdqn.runs.provenance import LOCAL


@dataclass(frozen=True)
class Console:
    """Where a command reports what it does."""

    begin: Callable[[str, Sequence[str]], None]
    """Called with the title of a stage of work and the names of its cells."""
    progress: Callable[[str, float], None]
    """Called with a cell's name and the share of it that is done."""
    say: Callable[[str], None]
    pace: Pace = DEFAULT_PACE
    """How often unfinished runs are checkpointed."""
    engine: str = LOCAL
    """Where cells are computed; it is ready."""


def run_cells(title: str, cells: Sequence[StudyCell], folder: Path, console: Console) -> dict[str, Any]:
    """The outcomes of cells, which may be listed several times."""
    unique = {cell.name: cell for cell in cells}
    # Long ones first, so that no core is left with one at the end.
    ordered = sorted(unique.values(), key=lambda cell: not isinstance(cell, MeasurementCell))
    console.begin(title, [cell.name for cell in ordered])
    place, progress, say = folder / "cells", console.progress, console.say
    return compute(ordered, place, listener=progress, say=say, pace=console.pace, engine=console.engine)


def readings_of(scale: Scale, experiment: str) -> tuple[str, ...]:
    """The sets of readings that an experiment is shown with: the primary one, or at the paper's scale perhaps all."""
    return SETS if scale.name == "paper" and EXPERIMENTS[experiment].in_all_readings else SETS[:1]


def run_experiments(names: Sequence[str], scale: Scale, folder: Path, console: Console) -> dict[str, Any]:
    """The outcomes of the cells of some experiments."""
    cells = [
        cell for name in names for each in readings_of(scale, name) for cell in EXPERIMENTS[name].cells(scale, each)
    ]
    return run_cells("experiments", cells, folder / scale.name, console)
