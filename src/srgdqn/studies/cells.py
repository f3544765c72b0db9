"""Cells: the runs that a study is made of, each computed once and kept in a folder of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from srgdqn.api import train_configured
from srgdqn.engines.local import run_locally
from srgdqn.errors import InputError
from srgdqn.interrupts import let_interrupts_through
from srgdqn.result import Result, load_result
from srgdqn.settings import Configuration
from srgdqn.store.destination import MANIFEST
from srgdqn.store.provenance import provenance
from srgdqn.training import Progress


@dataclass(frozen=True)
class Cell:
    """One run of a study; its name is that of its folder."""

    name: str
    configuration: Configuration


_WHAT_BITS_DEPEND_ON = ("source", "versions", "machine", "instruction_sets")

Listener = Callable[[Cell, Progress], None]
Say = Callable[[str], None]


def finished(cell: Cell, folder: Path, say: Say) -> Result | None:
    """The cell's result, if its folder holds one of this very configuration and version, whole and undamaged."""
    place = folder / cell.name
    if not place.exists():
        return None
    if not (place / MANIFEST).exists():
        raise InputError(
            f"{place} is in the way of a cell's run and is none itself. Move it away, or use another folder."
        )
    try:
        result = load_result(place)
    except InputError as error:
        say(f"{cell.name} is computed again: {error}")
        return None
    if result.rounds.height < cell.configuration.training.rounds or result.run.provenance["interrupted"]:
        say(f"{cell.name} is computed again: it was interrupted.")
        return None
    here = provenance()
    if result.configuration != cell.configuration:
        say(f"{cell.name} is computed again: its configuration has changed.")
        return None
    if any(result.run.provenance.get(name) != here[name] for name in _WHAT_BITS_DEPEND_ON):
        say(f"{cell.name} is computed again: it was made by another version or on another kind of machine.")
        return None
    return result


def compute(
    cells: Sequence[Cell],
    folder: Path,
    *,
    listener: Listener = lambda cell, progress: None,
    say: Say = lambda text: None,
) -> dict[str, Result]:
    """Every cell's result by name: read from the folder where it is finished, computed and saved there otherwise.

    A KeyboardInterrupt leaves every cell that is finished by then in the folder.
    """
    results = {cell.name: result for cell in cells if (result := finished(cell, folder, say)) is not None}
    for cell in cells:
        if cell.name in results:
            listener(cell, Progress(share=1.0, steps=0, reward=float("nan"), diverged=0))
    missing = [cell for cell in cells if cell.name not in results]

    def run(cell: Cell, stop: threading.Event) -> Result | None:
        result = train_configured(
            cell.configuration,
            progress=False,
            listener=lambda progress: listener(cell, progress),
            workers=1,
            stop=stop,
        )
        if result.run.provenance["interrupted"]:
            return None
        result.save(folder / cell.name, overwrite=True)
        return result

    let_interrupts_through()
    for cell, result in run_locally(run, missing):
        if result is not None:
            results[cell.name] = result
    return {cell.name: results[cell.name] for cell in cells}
