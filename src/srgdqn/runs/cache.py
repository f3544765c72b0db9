"""Results kept in folders of their own and used again: whether one still answers what is asked.

It does only if the question, the source files that compute it, the versions and the kind of machine are the same, and
if its folder is whole and undamaged.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from srgdqn.api import identity_of
from srgdqn.config import Configuration
from srgdqn.errors import InputError
from srgdqn.runs.result import Result
from srgdqn.runs.destination import MANIFEST
from srgdqn.runs.provenance import stale, what_bits_depend_on

Say = Callable[[str], None]


class Kept(Protocol):
    """Something that may be there already."""

    @property
    def name(self) -> str:
        """What its folder is called."""

    def load(self, folder: Path) -> tuple[Any, str | None]:
        """What the folder holds, and why it cannot be used (None if it can)."""


def finished(thing: Kept, folder: Path, say: Say) -> Any:
    """The outcome, if the thing's folder holds one of this very question and version, whole and undamaged."""
    place = folder / thing.name
    if not place.exists():
        return None
    if not (place / MANIFEST).exists():
        raise InputError(f"{place} is in the way of a cell and is none itself. Move it away, or use another folder.")
    try:
        outcome, problem = thing.load(place)
    except InputError as error:
        outcome, problem = None, str(error).split(". ")[0].rstrip(".")  # what to do about it is done here
    if problem is None:
        return outcome
    say(f"{thing.name} is computed again: {problem}.")
    return None


def why_not_this(result: Result, configuration: Configuration) -> str | None:
    """Why a stored run is not what training the configuration would give now; None if it is."""
    if result.rounds.height < configuration.training.rounds or result.run.provenance.get("interrupted", True):
        return "it was interrupted"
    expected, about = identity_of(configuration)
    ran = result.configuration.training.kernel
    if ran != expected.training.kernel:
        return f"it was run by {ran}, and now {expected.training.kernel} is to"
    if result.configuration != expected:
        return "its configuration has changed"
    return stale(what_bits_depend_on(result.run.provenance), about)
