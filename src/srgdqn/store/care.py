"""How a run is kept while it goes on: what a user may say of that, checked before anything is computed."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from srgdqn.errors import InputError
from srgdqn.store.destination import check_destination
from srgdqn.store.unfinished import beside, has_checkpoints, occupied

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
        unfinished = has_checkpoints(beside(self.out))
        check_destination(self.out, overwrite=self.overwrite or self.resume or unfinished)
        return self

    def occupied(self) -> AbstractContextManager[None]:
        """Makes the folder in which it is kept nobody else's until this ends. An `InputError` if it is somebody's."""
        return occupied(beside(self.out), what="the folder of a run")
