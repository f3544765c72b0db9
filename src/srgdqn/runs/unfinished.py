"""The folder of an unfinished run, beside the one that it will be saved in, and the options of its checkpoints.

`runs/srg.unfinished` has the checkpoints of what will be `runs/srg`, in `jobs`; its manifest has what was asked and
with which versions. It is removed once the run is saved; checkpoints that should stay are then in
`runs/srg/checkpoints`.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from srgdqn.errors import InputError
from srgdqn.interrupts import is_interrupt
from srgdqn.runs import manifest
from srgdqn.runs.destination import (
    MANIFEST,
    check_destination,
    disk_errors_reported,
    remove_what_is_left,
    sync_folder,
    write_file,
)
from srgdqn.runs.locks import LOCK, locked
from srgdqn.runs.manifest import read_folder, read_manifest
from srgdqn.runs.provenance import are_inputs, is_count
from srgdqn.runs.untrusted import damaged, read_file

JOBS, CHECKPOINTS = "jobs", "checkpoints"
UNFINISHED_CELLS = "unfinished"
"""The folder of the checkpoints of a study's or sweep's unfinished cells."""
_CONFIGURATION = "configuration.toml"
_OLD_JOBS = "strands"  # where earlier versions had the checkpoints of jobs
_SUFFIX = ".unfinished"
_LONGEST_VALUE = 60  # letters of a value, of which there may be many in one line


class Request(NamedTuple):
    """What was asked."""

    configuration: str  # as TOML
    about: dict[str, Any]  # what the bits depend on beside it: JSON values
    options: dict[str, Any]  # how it is checkpointed: JSON values


def beside(out: str | os.PathLike[str]) -> Path:
    """The folder of the checkpoints of a run that will be saved in `out`."""
    path = Path(os.path.abspath(out))
    return path.with_name(f"{path.name}{_SUFFIX}")


def configuration_file(out: str | os.PathLike[str]) -> Path:
    """The configuration of the unfinished run that will be saved in `out`."""
    return beside(out) / _CONFIGURATION


def read_request(folder: Path) -> Request | None:
    """What was asked of the unfinished run in a folder; None if there is none."""
    if not os.path.lexists(folder / MANIFEST):
        return None
    files, asked = read_folder(folder, manifest.UNFINISHED_RUN, lambda name: name == _CONFIGURATION)
    about, options = asked.get("about"), asked.get("options")
    if _CONFIGURATION not in files or not isinstance(about, dict) or not isinstance(options, dict):
        raise damaged(folder / MANIFEST, "what was asked is missing")
    if not are_inputs(about):
        raise damaged(folder / MANIFEST, "what it says of your own code cannot be used")
    every, keep = options.get("every"), options.get("keep")
    often = every is None or (type(every) in (int, float) and every >= 0)
    many = keep in (None, "all") or is_count(keep, 1)
    if not (often and many and type(options.get("overwrite", False)) is bool):
        raise damaged(folder / MANIFEST, "it has unusable checkpoint options")
    check_stays_within(folder / JOBS)
    return Request(files[_CONFIGURATION].decode(errors="replace"), about, options)


def check_stays_within(folder: Path) -> None:
    """An `InputError` if the folder, or one below it, leads elsewhere, where checkpoints would be written or removed.
    Links in the place of files do no such harm: they are replaced, and never followed.
    """
    below = (Path(place, name) for place, names, _ in os.walk(folder) for name in names)
    for place in itertools.chain([folder], below):
        if place.is_symlink():
            raise InputError(f"{place} leads elsewhere, where checkpoints would be written to. Give another folder.")


def write_request(folder: Path, request: Request) -> None:
    """Writes what is asked of the unfinished run in a folder."""
    files = {_CONFIGURATION: request.configuration.encode()}
    write_file(folder / _CONFIGURATION, files[_CONFIGURATION])
    asked = {"about": request.about, "options": request.options}
    write_file(folder / MANIFEST, manifest.render(files, asked, manifest.UNFINISHED_RUN))
    sync_folder(folder)


def has_checkpoints(folder: Path) -> bool:
    """Whether there is anything to resume from."""
    return any((folder / JOBS).glob("*/*.checkpoint"))


def how_to_resume(out: str | os.PathLike[str]) -> str | None:
    """Where the checkpoints of a run to `out` are, and the command that resumes it; None if there are none."""
    path = Path(os.path.abspath(out))
    if not path.name or not has_checkpoints(beside(path)):
        return None
    command = f"srgdqn train --out {shlex.quote(str(out))} --resume"
    return f"Its checkpoints are in {beside(path)}, and '{command}' (resume=True in Python) resumes it."


@contextlib.contextmanager
def occupied(folder: Path, *, what: str) -> Iterator[None]:
    """Makes the folder if there is none, and locks it; removes it in the end if it has no checkpoints."""
    if (folder / _OLD_JOBS).is_dir():
        raise InputError(
            f"{folder} has checkpoints of an earlier version of srgdqn, which this one cannot read. Finish the run "
            "with that version, or remove the folder."
        )
    made = [parent for parent in folder.parents if not parent.exists()]
    with disk_errors_reported(folder):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        with locked(folder, what=what):
            try:
                yield
            finally:
                if folder.is_dir() and not has_checkpoints(folder):
                    discard(folder)
    finally:
        for parent in made:
            with contextlib.suppress(OSError):  # there is something in it
                parent.rmdir()


def clear(folder: Path) -> None:
    """Removes the unfinished run in a folder, which stays locked; the manifest first, so that nobody takes the rest
    for something whole.
    """
    with contextlib.suppress(OSError):
        for name in (MANIFEST, _CONFIGURATION):
            (folder / name).unlink(missing_ok=True)
        if (folder / JOBS).is_symlink():
            (folder / JOBS).unlink()
    shutil.rmtree(folder / JOBS, ignore_errors=True)


def discard(folder: Path) -> None:
    """Removes the folder and everything in it."""
    with contextlib.suppress(OSError):
        (folder / MANIFEST).unlink(missing_ok=True)  # first, so that nobody takes the rest for something whole
    shutil.rmtree(folder, ignore_errors=True)


def move_checkpoints(folder: Path, out: Path, keep: int | None) -> None:
    """Moves the `keep` newest checkpoints of each job (None: all) into the folder of the saved run, without what killed
    processes left beside them.
    """
    from srgdqn.runs.checkpoints import CheckpointFolder  # with numpy, which is slow to import for reading options

    if has_checkpoints(folder):
        with disk_errors_reported(out / CHECKPOINTS):
            for job in list((folder / JOBS).iterdir()):
                if any(job.glob("*.checkpoint")):
                    if keep is not None:
                        CheckpointFolder(job, keep).prune()
                    remove_what_is_left(job)
                    (job / LOCK).unlink(missing_ok=True)
                elif job.is_dir():
                    shutil.rmtree(job)
                else:
                    job.unlink()
            os.replace(folder / JOBS, out / CHECKPOINTS)
            sync_folder(out)


def changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Every name with its value then and now, where these differ; of mappings, the names in them.

    >>> changes({"seed": 0, "options": {"rounds": "8"}}, {"seed": 0, "options": {"rounds": "9", "eta": "0.1"}})
    ['rounds was 8, and now is 9', 'eta was not given, and now is 0.1']
    """
    found = []
    for name in {**then, **now}:
        old, new = ((_word(each[name]) if name in each else "not given") for each in (then, now))
        if isinstance(then.get(name), Mapping) and isinstance(now.get(name), Mapping):
            found += changes(then[name], now[name])
        elif name not in then or name not in now or then[name] != now[name]:
            found.append(f"{name} was {old}, and now is {new}")
    return found


def _word(value: Any) -> str:
    text = (" ".join(map(str, value)) or "none") if isinstance(value, list) else str(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


# Where a run is saved and how it is checkpointed: checked before anything is computed

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
    """Checkpoints of each job that stay, also in the finished run."""

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

    A KeyboardInterrupt meanwhile gets a message that says what is left of the run, if anything is.
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
        return f"its checkpoints are in {folder}, and --resume (resume=True in Python) resumes it."
    return None if _saved(out) in (None, before) else f"what was reached is saved in {out}."


def _saved(out: Path) -> bytes | None:
    """The manifest of the run that is saved there."""
    try:
        return read_file(out / MANIFEST)
    except InputError:
        return None


def _is_interrupted(out: Path) -> bool:
    """Whether the manifest that is there says that its run was interrupted."""
    try:
        return bool(read_manifest(out, manifest.RUN).provenance.get("interrupted"))
    except InputError:
        return False
