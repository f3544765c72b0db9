"""Where a run is saved and how it is checkpointed: what a user may ask for, checked before anything is computed."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from srgdqn.errors import InputError
from srgdqn.runs import manifest
from srgdqn.runs.destination import MANIFEST, check_destination
from srgdqn.runs.folders import read_manifest, read_ordinary
from srgdqn.runs.interrupts import is_interrupt
from srgdqn.runs.run_folder import beside, has_checkpoints, occupied

DEFAULT_KEEP = 2
"""Checkpoints of a job while it runs: should the newest be damaged, there is one before it."""


@dataclass(frozen=True)
class CheckpointOptions:
    """Where a run is saved and how it is checkpointed. None: as was said last, where it resumes, or else by default."""

    out: Path
    """The folder that it is saved in."""
    resume: bool = False
    """Continue from its checkpoints."""
    overwrite: bool = False
    """Replace the run that is in the folder."""
    every: float | None = None
    """Seconds between checkpoints."""
    keep: int | Literal["all"] | None = None
    """Checkpoints of each job that are kept, also in the finished run."""

    def checked(self) -> CheckpointOptions:
        """Itself, if every value can be used and a run can be saved there."""
        if self.every is not None and not (math.isfinite(self.every) and self.every >= 0):
            raise InputError(f"checkpoint_every is {self.every}, but must be seconds: 0 or more. Give 60 for a minute.")
        if self.keep is not None and self.keep != "all" and not (type(self.keep) is int and self.keep >= 1):
            raise InputError(f"keep_checkpoints is {self.keep!r}. Give a whole number from 1 on, or 'all'.")
        # Checkpoints that are there may be another process's: they are refused once the folder is claimed.
        replaces = self.overwrite or self.resume or has_checkpoints(beside(self.out))
        if not replaces and _is_interrupted(self.out):
            raise InputError(
                f"{self.out} exists already: it is what was reached of a run that was interrupted, of which no "
                "checkpoint is left. Begin it again (--resume, or resume=True in Python), or give another folder."
            )
        check_destination(self.out, overwrite=replaces)
        return self


@contextlib.contextmanager
def claimed(options: CheckpointOptions | None) -> Iterator[None]:
    """Locks the folder of a run's checkpoints, where it has one. An `InputError` if another process has it.

    A KeyboardInterrupt meanwhile is given words for what is left of the run, if there is anything.
    """
    if options is None:
        yield
        return
    before = _saved(options.out)
    try:
        with occupied(beside(options.out), what="the folder of a run"):
            yield
    except (KeyboardInterrupt, ImportError) as error:
        left = _left(options.out, before)
        if left is None or not is_interrupt(error):
            raise
        raise KeyboardInterrupt(left) from error


def _left(out: Path, before: bytes | None) -> str | None:
    """What is left of an interrupted run, in words; `before` is the manifest that was there when it began."""
    folder = beside(out)
    if has_checkpoints(folder):
        return f"its checkpoints are kept in {folder}, and --resume (resume=True in Python) goes on."
    return None if _saved(out) in (None, before) else f"what was reached is saved in {out}."


def _saved(out: Path) -> bytes | None:
    """The manifest of the run that is saved there."""
    try:
        return read_ordinary(out / MANIFEST)
    except InputError:
        return None


def _is_interrupted(out: Path) -> bool:
    """Whether the manifest that is there says that its run was interrupted."""
    try:
        return bool(read_manifest(out, manifest.RUN).provenance.get("interrupted"))
    except InputError:
        return False
