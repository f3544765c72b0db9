"""Cached cells: results in folders of their own, computed only where no valid one is stored.

A stored result is valid if the question, the versions and the kind of machine are the same and its folder is complete
and undamaged. Studies and sweeps share this; what differs is how they compute what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from srgdqn.config import Configuration
from srgdqn.errors import InputError
from srgdqn.results.result import Result, load_result
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.runs.destination import MANIFEST
from srgdqn.runs.provenance import stale, what_bits_depend_on
from srgdqn.session.prepare import NOTHING_OWN, prepare

Say = Callable[[str], None]


class Cell(Protocol):
    """Something that can be computed once and stored."""

    @property
    def name(self) -> str:
        """The name of its folder."""

    def load(self, folder: Path) -> tuple[Any, str | None]:
        """What the folder holds, and why that is not valid (None if it is)."""

    def save(self, outcome: Any, folder: Path) -> None:
        """Writes the outcome to the folder."""


AnyCell = TypeVar("AnyCell", bound=Cell)


@dataclass(frozen=True)
class TrainingCell:
    """A training run."""

    name: str
    configuration: Configuration
    own: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The user's own environment and network, as of `srgdqn.session.prepare.Given`."""

    def load(self, folder: Path) -> tuple[Result, str | None]:
        """The run in the folder, and why it is not what training would give now."""
        result = load_result(folder)
        if self.own:
            result = prepare(self.configuration, **self.own).with_user_code(result.run)
        return result, why_invalid(result, self.configuration, self.own)

    def save(self, outcome: Result, folder: Path) -> None:
        """Saves the run."""
        outcome.save(folder, overwrite=True)


@dataclass(frozen=True)
class CellFolder:
    """A folder of cells; without a folder nothing is found and nothing is stored."""

    folder: Path | None
    say: Say = lambda text: None
    """Called with the reason why a stored cell is computed again."""
    checkpoints: CheckpointManager | None = None
    """Checkpoints of cells that are being computed."""

    def find(self, cell: Cell) -> Any:
        """The stored outcome if it is valid, else None."""
        if self.folder is None or not (place := self.folder / cell.name).exists():
            return None
        if not (place / MANIFEST).exists():
            raise InputError(
                f"{place} is in the way of a cell and is none itself. Move it away, or use another folder."
            )
        try:
            outcome, problem = cell.load(place)
        except InputError as error:
            outcome, problem = None, str(error).split(". ")[0].rstrip(".")  # the remedy it names is applied here
        if problem is None:
            return outcome
        self.say(f"{cell.name} is computed again: {problem}.")
        return None

    def store(self, cell: Cell, outcome: Any) -> None:
        """Saves the outcome of a cell."""
        if self.folder is not None:
            cell.save(outcome, self.folder / cell.name)

    def find_all(self, cells: Sequence[Cell], outcomes: dict[str, Any]) -> None:
        """Adds every valid stored outcome to `outcomes`, by name."""
        for cell in cells:
            if cell.name not in outcomes and (found := self.find(cell)) is not None:
                outcomes[cell.name] = found

    def fill(
        self,
        cells: Sequence[AnyCell],
        outcomes: dict[str, Any],
        compute: Callable[[list[AnyCell], Callable[[AnyCell, Any], None]], None],
    ) -> None:
        """Adds the outcome of every cell to `outcomes`: found, or computed and stored.

        `compute` is given the missing cells and a function to call with each as soon as it is done. An exception from
        it leaves the checkpoints, so that the next call resumes; otherwise they are removed.
        """
        self.find_all(cells, outcomes)

        def done(cell: AnyCell, outcome: Any) -> None:
            self.store(cell, outcome)
            outcomes[cell.name] = outcome

        compute(list({cell.name: cell for cell in cells if cell.name not in outcomes}.values()), done)
        if self.checkpoints is not None:
            self.checkpoints.forget()


def why_invalid(result: Result, configuration: Configuration, own: Mapping[str, Any] = NOTHING_OWN) -> str | None:
    """Why a stored run is not what training the configuration would give now; None if it is."""
    if result.rounds.height < configuration.training.rounds or result.run.provenance.get("interrupted", True):
        return "it was interrupted"
    now = prepare(configuration, **own)
    expected = now.configuration
    ran = result.configuration.training.kernel
    if ran != expected.training.kernel:
        return f"it was run by {ran}, and now {expected.training.kernel} is to"
    if result.configuration != expected:
        return "its configuration has changed"
    return stale(what_bits_depend_on(result.run.provenance), now.identity)
