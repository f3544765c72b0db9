"""The folder of work under way, beside the one that it will be saved in: what was asked, and its checkpoints.

`runs/srg.unfinished` has the checkpoints of what will be `runs/srg`, in `strands`; its manifest tells what was asked
with which versions. It is gone once the run is saved; the checkpoints that are to be kept are then in
`runs/srg/checkpoints`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from srgdqn.errors import InputError
from srgdqn.runs import manifest
from srgdqn.runs.destination import MANIFEST, disk_errors_told, sync_folder, write_file
from srgdqn.runs.folders import read_manifest, verified
from srgdqn.runs.locks import LOCK, locked
from srgdqn.runs.scratch import remove_what_is_left
from srgdqn.runs.metadata import is_count

STRANDS, CHECKPOINTS = "strands", "checkpoints"
CELLS_UNDER_WAY = "unfinished"
"""What the folder is called in which cells of a study or of a sweep are kept while they are under way."""
_CONFIGURATION = "configuration.toml"
_SUFFIX = ".unfinished"


class Request(NamedTuple):
    """What was asked."""

    configuration: str  # as TOML
    about: dict[str, Any]  # what the bits depend on beside it: JSON values
    options: dict[str, Any]  # how it is kept: JSON values


def beside(out: str | os.PathLike[str]) -> Path:
    """The folder in which a run is kept that will be saved in another."""
    path = Path(os.path.abspath(out))
    return path.with_name(f"{path.name}{_SUFFIX}")


def configuration_file(out: str | os.PathLike[str]) -> Path:
    """The file that tells what is under way."""
    return beside(out) / _CONFIGURATION


def read_request(folder: Path) -> Request | None:
    """What is under way in a folder; None if nothing is."""
    if not os.path.lexists(folder / MANIFEST):
        return None
    listed = read_manifest(folder, manifest.RUN_UNDER_WAY)
    if set(listed.files) != {_CONFIGURATION}:
        raise InputError(f"{folder / MANIFEST} cannot be used: it lists other files than a run under way has.")
    data = verified(folder / _CONFIGURATION, listed.files[_CONFIGURATION])
    about, options = listed.provenance.get("about"), listed.provenance.get("options")
    if not isinstance(about, dict) or not isinstance(options, dict):
        raise InputError(f"{folder / MANIFEST} cannot be used: it does not tell what was asked.")
    _check(folder, options)
    return Request(data.decode(errors="replace"), about, options)


def _check(folder: Path, options: dict[str, Any]) -> None:
    """An `InputError` where going on would not be as anybody can ask for, or would write elsewhere."""
    every, keep = options.get("every"), options.get("keep")
    often = every is None or (type(every) in (int, float) and every >= 0)
    many = keep in (None, "all") or is_count(keep, 1)
    if not (often and many and type(options.get("overwrite", False)) is bool):
        raise InputError(f"{folder / MANIFEST} cannot be used: it does not tell how the run is kept.")
    check_stays_within(folder / STRANDS)


def check_stays_within(folder: Path) -> None:
    """An `InputError` if the folder, or one below it, leads elsewhere, where checkpoints would be written or removed.
    Links in the place of files do no such harm: they are replaced, and never followed.
    """
    below = (Path(place, name) for place, names, _ in os.walk(folder) for name in names)
    for place in itertools.chain([folder], below):
        if place.is_symlink():
            raise InputError(f"{place} leads elsewhere, where checkpoints would be written to. Give another folder.")


def write_request(folder: Path, request: Request) -> None:
    """Takes down what is under way in a folder."""
    files = {_CONFIGURATION: request.configuration.encode()}
    write_file(folder / _CONFIGURATION, files[_CONFIGURATION])
    told = {"about": request.about, "options": request.options}
    write_file(folder / MANIFEST, manifest.render(files, told, manifest.RUN_UNDER_WAY))
    sync_folder(folder)


def has_checkpoints(folder: Path) -> bool:
    """Whether anything is to go on from."""
    return any((folder / STRANDS).glob("*/*.checkpoint"))


def how_to_go_on(out: str | os.PathLike[str]) -> str | None:
    """What there is of a run that was to be saved there, and what goes on with it, in words; None if nothing is."""
    path = Path(os.path.abspath(out))
    if not path.name or not has_checkpoints(beside(path)):
        return None
    command = f"srgdqn train --out {shlex.quote(str(out))} --resume"
    return f"Its checkpoints are in {beside(path)}, and '{command}' (resume=True in Python) goes on from there."


@contextlib.contextmanager
def occupied(folder: Path, *, what: str) -> Iterator[None]:
    """The folder, made if there is none, and nobody else's until this ends; gone again if nothing is in it by then."""
    made = [parent for parent in folder.parents if not parent.exists()]
    with disk_errors_told(folder):
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
    """Forgets what is under way in a folder, which stays somebody's. What tells of the rest goes first, so that nobody
    takes that for something whole.
    """
    with contextlib.suppress(OSError):
        for name in (MANIFEST, _CONFIGURATION):
            (folder / name).unlink(missing_ok=True)
        if (folder / STRANDS).is_symlink():
            (folder / STRANDS).unlink()
    shutil.rmtree(folder / STRANDS, ignore_errors=True)


def discard(folder: Path) -> None:
    """Removes the folder, and what is under way in it."""
    with contextlib.suppress(OSError):
        (folder / MANIFEST).unlink(missing_ok=True)  # first, so that nobody takes the rest for something whole
    shutil.rmtree(folder, ignore_errors=True)


def move_checkpoints(folder: Path, out: Path) -> None:
    """Puts the checkpoints of a run that was saved into its folder, without what kills have left beside them."""
    if has_checkpoints(folder):
        with disk_errors_told(out / CHECKPOINTS):
            for strand in list((folder / STRANDS).iterdir()):
                if any(strand.glob("*.checkpoint")):
                    remove_what_is_left(strand)
                    (strand / LOCK).unlink(missing_ok=True)
                elif strand.is_dir():
                    shutil.rmtree(strand)
                else:
                    strand.unlink()
            os.replace(folder / STRANDS, out / CHECKPOINTS)
            sync_folder(out)
