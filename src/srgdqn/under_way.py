"""A run that is kept while it goes on, and then saved: killed at any time, it goes on to the same bits."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from srgdqn.errors import InputError
from srgdqn.result import Result, load_result
from srgdqn.settings import Configuration
from srgdqn.store import configurations
from srgdqn.store.care import KEPT, Care
from srgdqn.store.changes import changes
from srgdqn.store.destination import MANIFEST, check_destination
from srgdqn.store.journal import Checkpoint
from srgdqn.store.provenance import OF_RUNS, untold, what_bits_depend_on
from srgdqn.store.told import is_count
from srgdqn.store.unfinished import (
    STRANDS,
    Request,
    beside,
    clear,
    has_checkpoints,
    how_to_go_on,
    move_checkpoints,
    read_request,
    write_request,
)
from srgdqn.training.keeping import Keeping, leave_newest


class UnderWay:
    """A run under way."""

    def __init__(self, folder: Path, care: Care, options: dict[str, Any], stamp: str, *, replaces: bool) -> None:
        self._folder, self._care = folder, care
        self._keep, self._replaces = options["keep"], replaces
        keep = KEPT if self._keep is None else None if self._keep == "all" else self._keep
        self.keeping = Keeping(folder / STRANDS, options["every"], keep, stamp)

    def reached(self) -> list[int]:
        """The blocks that each strand had lived at its last checkpoint, of those that have one."""
        found = (self.keeping.look(name, _blocks_lived) for name in self.keeping.strands())
        return [blocks for blocks in found if blocks is not None]

    def save(self, result: Result) -> Path:
        """Saves the run. One that was interrupted can still go on; of one that is finished, what is to be kept is."""
        try:
            path = result.save(self._care.out, overwrite=self._replaces)
        except BaseException as error:  # then it is saved by going on with it
            self.keeping.flush()
            if isinstance(error, InputError) and isinstance(error.__cause__, OSError):
                raise self._not_saved(error.__cause__) from error
            raise
        if not result.run.provenance.get("interrupted"):
            if self._keep is not None:
                _keep_checkpoints(self._folder, path, self._keep)
            clear(self._folder)
        return path

    def _not_saved(self, refusal: OSError) -> InputError:
        """What to raise where the disk refuses."""
        advice = how_to_go_on(self._care.out) or "Then train it again, as there is no checkpoint of it either."
        reason = refusal.strerror or refusal
        return InputError(
            f"the run could not be saved in {self._care.out}: {reason}. Nothing was changed there. Free some space. "
            f"{advice}"
        )


def begin(configuration: Configuration, about: dict[str, Any], care: Care) -> UnderWay:
    """The run of a configuration, whose `kernel` is decided: begun, or going on, in a folder that is `occupied`.

    `about` is what its bits depend on beside the configuration: a run is not gone on with by what would give others.
    """
    folder = beside(care.out)
    request = Request(configurations.dumps(configuration), about, _options(care, {}))
    before = _before(folder, request, care)
    options = request.options if before is None else _options(care, before.options)
    # One that was interrupted before its first checkpoint has left nothing but its part, which begins again.
    goes_on = before is not None
    replaces = options["overwrite"] or (care.resume and _is_part(care.out, configuration, goes_on=goes_on))
    if care.resume and not replaces and os.path.lexists(care.out / MANIFEST):
        raise _is_another(care.out, configuration, about, goes_on=goes_on)
    check_destination(care.out, overwrite=replaces)
    if before is None:
        clear(folder)
        write_request(folder, request)
    elif options != before.options:
        # What is said anew holds until something else is said. A disk that refuses to note it is no reason to stop.
        with contextlib.suppress(InputError):
            write_request(folder, before._replace(options=options))
    return UnderWay(folder, care, options, stamp_of(about), replaces=replaces)


def stamp_of(about: Mapping[str, Any]) -> str:
    """A word for what bits depend on: another one every time where the user's code cannot be compared."""
    if untold(about) is not None:
        return secrets.token_hex(8)
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]


def finished_already(configuration: Configuration, about: dict[str, Any], care: Care) -> Result | None:
    """The run, where going on with it finds it saved and whole: it may have been killed once that was done. `about` is
    as of `begin`. An `InputError` where there is a run of which nobody can tell whether it is this one.
    """
    folder, saved = beside(care.out), os.path.lexists(care.out / MANIFEST)
    if care.resume and (saved or has_checkpoints(folder)) and (reason := untold(about)) is not None:
        raise InputError(
            f"the run in {care.out} cannot be resumed, as nobody can tell if it was begun with the same: {reason}. "
            "Nothing was changed there. Give another folder, or begin anew with --overwrite instead of --resume "
            "(overwrite=True in Python)."
        )
    if not care.resume or not saved:
        return None
    try:
        result = load_result(care.out)
    except InputError:
        if has_checkpoints(folder):
            return None  # what is damaged is replaced by what goes on
        raise
    if result.run.provenance.get("interrupted") or result.configuration != configuration:
        return None
    made_with = what_bits_depend_on(result.run.provenance)
    if any(made_with[name] != about[name] for name in OF_RUNS):
        return None  # it is another one
    left = read_request(folder)
    if left is None:
        clear(folder)  # which may have been cut short: what tells of the rest goes first
    elif left.configuration == configurations.dumps(configuration):
        if left.about != made_with:
            return None  # it is an older one, which was about to be replaced
        if (keep := _options(care, left.options)["keep"]) is not None:
            _keep_checkpoints(folder, care.out, keep)
        clear(folder)
    return result


def _blocks_lived(checkpoint: Checkpoint) -> int | None:
    """Of a chunk of compiled rounds, or of a round on the host."""
    blocks = checkpoint.about.get("blocks_done", checkpoint.about.get("blocks"))
    return blocks if is_count(blocks) else None


def _keep_checkpoints(folder: Path, out: Path, keep: int | Literal["all"]) -> None:
    """Puts as many as were asked for into the folder of a run that was saved; while it went on there may be more."""
    if keep != "all":
        leave_newest(folder / STRANDS, keep)
    move_checkpoints(folder, out)


def _is_part(out: Path, configuration: Configuration, *, goes_on: bool) -> bool:
    """Whether what is saved there is only a part of the run, which was interrupted; also if it was damaged since, where
    the run itself goes on.
    """
    if not os.path.lexists(out / MANIFEST):
        return False
    try:
        result = load_result(out)
    except InputError:
        if goes_on:
            return True
        raise
    return bool(result.run.provenance.get("interrupted") and result.configuration == configuration)


def _options(care: Care, before: Mapping[str, Any]) -> dict[str, Any]:
    """How a run is kept: as is said now, or else as was said before."""
    said = {"every": care.every, "keep": care.keep, "overwrite": care.overwrite or None}
    options = {name: before.get(name) if value is None else value for name, value in said.items()}
    return {**options, "overwrite": bool(options["overwrite"])}


def _is_another(out: Path, configuration: Configuration, about: Mapping[str, Any], *, goes_on: bool) -> InputError:
    """What to raise where another run is saved than the one that is to go on."""
    there = load_result(out)
    state = "of which a part is saved" if there.run.provenance.get("interrupted") else "which is finished"
    made_with = what_bits_depend_on(there.run.provenance)
    then, now = ({name: each[name] for name in OF_RUNS} for each in (made_with, about))
    different = changes({**_values(there.configuration), **then}, {**_values(configuration), **now})
    told = f" ({different[0]})" if different else ""
    anew = "give --overwrite as well, to replace it" if goes_on else "begin anew with --overwrite instead of --resume"
    return InputError(
        f"{out} exists already: it is another run, {state}{told}. Give what that one was begun with, or another "
        f"folder, or {anew}."
    )


def _before(folder: Path, request: Request, care: Care) -> Request | None:
    """What was asked when the run began that now goes on; None if one begins."""
    if not has_checkpoints(folder) or (care.overwrite and not care.resume):
        return None
    if not care.resume:
        raise InputError(
            f"{folder} has the checkpoints of a run that was not finished. Go on with it (--resume, or resume=True in "
            "Python), or begin anew (--overwrite, or overwrite=True)."
        )
    before = read_request(folder)
    if before is None:
        return None
    anew = "Give what it was begun with, or begin anew with --overwrite instead of --resume."
    if before.configuration != request.configuration:
        raise InputError(f"the run in {folder} was begun with another configuration{_told(before, request)}. {anew}")
    changed = [name for name in request.about if before.about.get(name) != request.about[name]]
    if changed:
        raise InputError(
            f"the run in {folder} cannot go on to the same bits, as it was begun with another "
            f"{' and '.join(changed).replace('_', ' ')} "
            f"({'; '.join(changes(before.about, request.about))}). {anew}"
        )
    return before


def _told(before: Request, now: Request) -> str:
    """The first option in which two requests differ."""
    try:
        then, asked = (configurations.loads(each.configuration) for each in (before, now))
    except InputError:
        return ""
    return "".join(f": {change}" for change in changes(_values(then), _values(asked))[:1])


def _values(configuration: Configuration) -> dict[str, Any]:
    return {"algorithm": configuration.algorithm, "readings": configuration.readings, **configuration.options()}
