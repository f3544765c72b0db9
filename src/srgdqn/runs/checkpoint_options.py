"""How a run is kept while it goes on: what a user may say of that, checked before anything is computed."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from srgdqn.errors import InputError
from srgdqn.runs.interrupts import is_interrupt
from srgdqn.runs import manifest
from srgdqn.runs.destination import MANIFEST, check_destination
from srgdqn.runs.folders import read_manifest, read_ordinary
from srgdqn.runs.run_folder import beside, has_checkpoints, occupied

KEPT = 2
"""Checkpoints that there are of a strand while it goes on: should the newest be damaged, there is one before it."""


@dataclass(frozen=True)
class Care:
    """How a run is kept. What is None was not said: then it is as was said last, where a run goes on, or by default."""

    out: Path
    """Where it will be saved."""
    resume: bool = False
    """Go on where it stopped."""
    overwrite: bool = False
    """Replace the run that is there."""
    every: float | None = None
    """Seconds between checkpoints."""
    keep: int | Literal["all"] | None = None
    """Checkpoints of each strand that are kept, also once the run is finished."""

    def checked(self) -> Care:
        """Itself, if all of it can be had and a run can be saved there."""
        if self.every is not None and not (math.isfinite(self.every) and self.every >= 0):
            raise InputError(f"checkpoint_every is {self.every}, but must be seconds: 0 or more. Give 60 for a minute.")
        if self.keep is not None and self.keep != "all" and not (type(self.keep) is int and self.keep >= 1):
            raise InputError(f"keep_checkpoints is {self.keep!r}. Give a whole number from 1 on, or 'all'.")
        # What there is of one that was not finished is told of once it is known to be nobody's.
        replaces = self.overwrite or self.resume or has_checkpoints(beside(self.out))
        if not replaces and _is_part(self.out):
            raise InputError(
                f"{self.out} exists already: it is what was reached of a run that was interrupted, of which no "
                "checkpoint is left. Begin it again (--resume, or resume=True in Python), or give another folder."
            )
        check_destination(self.out, overwrite=replaces)
        return self

    @contextlib.contextmanager
    def occupied(self) -> Iterator[None]:
        """Makes the folder in which it is kept nobody else's until this ends. An `InputError` if it is somebody's.

        A KeyboardInterrupt meanwhile tells what there is of the run, if there is anything.
        """
        before = self._saved()
        try:
            with occupied(beside(self.out), what="the folder of a run"):
                yield
        except (KeyboardInterrupt, ImportError) as error:
            left = self._left(before)
            if left is None or not is_interrupt(error):
                raise
            raise KeyboardInterrupt(left) from error

    def _left(self, before: bytes | None) -> str | None:
        """What there is of the run, in words, where nothing or another one was saved `before`."""
        folder = beside(self.out)
        if has_checkpoints(folder):
            return f"its checkpoints are kept in {folder}, and --resume (resume=True in Python) goes on."
        return None if self._saved() in (None, before) else f"what was reached is saved in {self.out}."

    def _saved(self) -> bytes | None:
        """By what the run that is saved there is known again."""
        try:
            return read_ordinary(self.out / MANIFEST)
        except InputError:
            return None


def _is_part(out: Path) -> bool:
    """Whether a run is saved there that was interrupted, by what its manifest tells."""
    try:
        return bool(read_manifest(out, manifest.RUN).provenance.get("interrupted"))
    except InputError:
        return False
