"""A run from start to save: finds it finished, resumes it or begins it, trains with checkpoints, and saves it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from srgdqn.adapters.failures import EnvironmentFailedError
from srgdqn.config import Configuration
from srgdqn.engines.choice import executor_of
from srgdqn.errors import InputError
from srgdqn.results.result import Result, load_result
from srgdqn.runs import configurations
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.runs.destination import MANIFEST, check_destination
from srgdqn.runs.provenance import LOCAL, OF_RUNS, stale, unidentified, what_bits_depend_on
from srgdqn.runs.unfinished import (
    DEFAULT_KEEP,
    JOBS,
    CheckpointOptions,
    Request,
    beside,
    changes,
    clear,
    has_checkpoints,
    how_to_resume,
    move_checkpoints,
    read_request,
    write_request,
)
from srgdqn.session.prepare import PreparedRun
from srgdqn.training.loop import position_of
from srgdqn.training.reports import Listener


class Outcome(NamedTuple):
    """How a session ended."""

    result: Result
    saved: Path | None = None
    was_finished: bool = False  # before the session: nothing was trained
    failure: EnvironmentFailedError | None = None  # the result is what was reached until then


class NotSavedError(InputError):
    """A run was trained, but could not be saved; `result` is what was trained."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result


def run_session(
    run: PreparedRun,
    options: CheckpointOptions | None,
    observed: Callable[[], AbstractContextManager[Listener]],
    *,
    engine: str = LOCAL,
    resuming: Callable[[list[int]], None] = lambda blocks: None,
    **how: Any,
) -> Outcome:
    """Trains a run and saves it, unless it is finished already. Its folder is `claimed` and the engine `ready`.

    Args:
      run: what is trained.
      options: where it is saved and how it is checkpointed; None: neither.
      observed: a context that is open while it is trained, with the listener for progress.
      engine: the name of what trains it.
      resuming: called before training, with the blocks that each job has done.
      **how: passed on to `run.train`.

    """
    how |= {"executor": executor_of(engine), "ran_by": engine}
    folder: _Folder | None = None
    if options is not None:
        begun = _begin(run, options)
        if isinstance(begun, Result):
            return Outcome(run.with_user_code(begun.run), options.out, was_finished=True)
        folder = begun
        resuming(folder.blocks_done())
        how["manager"] = folder.manager
    try:
        with observed() as listener:
            outcome = Outcome(run.train(listener=listener, **how))
    except EnvironmentFailedError as error:
        outcome = Outcome(error.result, failure=error)
    return outcome if folder is None else outcome._replace(saved=folder.save(outcome.result))


class _Folder:
    """The checkpoints of a run, and where it is saved."""

    def __init__(self, options: CheckpointOptions, asked: dict[str, Any], stamp: str, *, replaces: bool) -> None:
        self._folder, self._out = beside(options.out), options.out
        self._keep, self._replaces = asked["keep"], replaces
        keep = DEFAULT_KEEP if self._keep is None else None if self._keep == "all" else self._keep
        self.manager = CheckpointManager(self._folder / JOBS, asked["every"], keep, stamp)

    def blocks_done(self) -> list[int]:
        """The blocks that each job had done at its last checkpoint, of those that have one."""
        found = (self.manager.look(name, position_of) for name in self.manager.jobs())
        return [position[0] for position in found if position is not None]

    def save(self, result: Result) -> Path:
        """Saves the run. The checkpoints of one that was interrupted stay, so that it can resume."""
        try:
            path = result.save(self._out, overwrite=self._replaces)
        except BaseException as error:
            self.manager.flush()  # it is saved by resuming it
            if not isinstance(error, InputError):
                raise
            message = str(error)
            if isinstance(refusal := error.__cause__, OSError):
                advice = how_to_resume(self._out) or "Then train it again, as there is no checkpoint of it either."
                message = (
                    f"the run could not be saved in {self._out}: {refusal.strerror or refusal}. Nothing was changed "
                    f"there. Free some space. {advice}"
                )
            raise NotSavedError(message, result) from error
        if not result.interrupted:
            _clear(self._folder, path, self._keep)
        return path


def _clear(folder: Path, out: Path, keep: int | Literal["all"] | None) -> None:
    """Removes the checkpoints of a saved run; as many as were asked for are moved into it."""
    if keep is not None:
        move_checkpoints(folder, out, None if keep == "all" else keep)
    clear(folder)


def _begin(run: PreparedRun, options: CheckpointOptions) -> _Folder | Result:
    """The folder of a run that begins or resumes; the saved run, where `resume` finds it finished.

    A run with another identity is not resumed, as it would give other bits. A finished one is handed out if it is what
    is asked for, whatever version or machine made it.
    """
    out, folder = options.out, beside(options.out)
    saved, damage = _saved(options)
    if options.resume and (saved or has_checkpoints(folder)) and (reason := unidentified(run.identity)) is not None:
        raise InputError(
            f"the run in {out} cannot be resumed, as it is unknown whether it was begun with the same code: {reason}. "
            "Nothing was changed there. Give another folder, or begin anew with --overwrite instead of --resume "
            "(overwrite=True in Python)."
        )
    if saved is not None and _is_finished(run, saved, options):
        return saved
    request = Request(configurations.dumps(run.configuration), run.identity, _options(options, {}))
    before = _before(folder, request, options)
    asked = request.options if before is None else _options(options, before.options)
    if damage is not None and before is None:
        raise damage
    # One that was interrupted before its first checkpoint has left nothing but what it saved, and begins again. A
    # damaged one is replaced by the one that resumes.
    interrupted = saved is not None and saved.interrupted and _is_asked_for(run, saved) and _gives_same_bits(run, saved)
    replaces = asked["overwrite"] or interrupted or damage is not None
    if saved is not None and not replaces:
        raise _is_another(saved, run, out, resumes=before is not None)
    check_destination(out, overwrite=replaces)
    if before is None:
        clear(folder)
        write_request(folder, request)
    elif asked != before.options:
        # What is said now holds until something else is said. A disk that refuses to note it is no reason to stop.
        with contextlib.suppress(InputError):
            write_request(folder, before._replace(options=asked))
    return _Folder(options, asked, stamp_of(run.identity), replaces=replaces)


def _saved(options: CheckpointOptions) -> tuple[Result | None, InputError | None]:
    """The run that is saved where one is to resume, or what is wrong with it."""
    if not options.resume or not os.path.lexists(options.out / MANIFEST):
        return None, None
    try:
        return load_result(options.out), None
    except InputError as error:
        return None, error


def _is_finished(run: PreparedRun, saved: Result, options: CheckpointOptions) -> bool:
    """Whether the saved run is this one, and whole. Removes its checkpoints, as it may have been killed before that."""
    if saved.interrupted or not _is_asked_for(run, saved):
        return False
    folder = beside(options.out)
    left = read_request(folder)
    if left is None:
        clear(folder)  # clearing may have been cut short: it removes what describes the rest first
    elif left.configuration == configurations.dumps(run.configuration):
        if left.about != what_bits_depend_on(saved.run.provenance):
            return False  # it is an older one, which was about to be replaced
        _clear(folder, options.out, _options(options, left.options)["keep"])
    return True


def _is_asked_for(run: PreparedRun, saved: Result) -> bool:
    """Whether the saved run has this one's configuration, precision and user code."""
    made_with = what_bits_depend_on(saved.run.provenance)
    return saved.configuration == run.configuration and all(made_with[name] == run.identity[name] for name in OF_RUNS)


def _gives_same_bits(run: PreparedRun, saved: Result) -> bool:
    """Whether it was made by the same versions, on the same kind of machine as well."""
    return stale(what_bits_depend_on(saved.run.provenance), run.identity) is None


def stamp_of(identity: Mapping[str, Any]) -> str:
    """A short digest of what determines the bits: another one every time where user code cannot be compared."""
    if unidentified(identity) is not None:
        return secrets.token_hex(8)
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def _options(options: CheckpointOptions, before: Mapping[str, Any]) -> dict[str, Any]:
    """How a run is checkpointed: as is said now, or else as was said before."""
    said = {"every": options.every, "keep": options.keep, "overwrite": options.overwrite or None}
    asked = {name: before.get(name) if value is None else value for name, value in said.items()}
    return {**asked, "overwrite": bool(asked["overwrite"])}


def _is_another(saved: Result, run: PreparedRun, out: Path, *, resumes: bool) -> InputError:
    """The error where another run is saved than the one to resume."""
    state = "of which a part is saved" if saved.interrupted else "which is finished"
    made_with = what_bits_depend_on(saved.run.provenance)
    then, now = _readable(made_with), _readable(run.identity)
    different = changes({**_values(saved.configuration), **then}, {**_values(run.configuration), **now})
    which = f" ({different[0]})" if different else ""
    anew = "give --overwrite as well, to replace it" if resumes else f"begin anew with {_OVERWRITE}"
    return InputError(
        f"{out} exists already: it is another run, {state}{which}. Give what that one was begun with, or another "
        f"folder, or {anew}."
    )


_OVERWRITE = "--overwrite instead of --resume (overwrite=True in Python)"


def _before(folder: Path, request: Request, options: CheckpointOptions) -> Request | None:
    """What was asked when the run began that resumes now; None if one begins."""
    if not has_checkpoints(folder) or (options.overwrite and not options.resume):
        return None
    if not options.resume:
        raise InputError(
            f"{folder} has the checkpoints of a run that was not finished. Resume it (--resume, or resume=True in "
            "Python), or begin anew (--overwrite, or overwrite=True)."
        )
    before = read_request(folder)
    if before is None:
        return None
    anew = f"Give what it was begun with, or begin anew with {_OVERWRITE}."
    if before.configuration != request.configuration:
        try:
            then, now = (_values(configurations.loads(each.configuration)) for each in (before, request))
            which = "".join(f": {change}" for change in changes(then, now)[:1])
        except InputError:  # an older release's, say
            which = ""
        raise InputError(f"the run in {folder} was begun with another configuration{which}. {anew}")
    if any(before.about.get(name) != request.about[name] for name in request.about):
        changed = "; ".join(changes(_readable(before.about), _readable(request.about)))
        raise InputError(
            f"the run in {folder} cannot be resumed to the same bits, as this has changed since it was begun: "
            f"{changed}. {anew}"
        )
    return before


def _readable(about: Mapping[str, Any]) -> dict[str, Any]:
    """What bits depend on, with a phrase for each part of the user's code. It may come from a file."""
    parts = about.get("user_code", {}).items()
    code = {_phrase(part, field): value for part, fields in parts for field, value in fields.items()}
    return {**about, "user_code": code}


def _phrase(part: str, field: str) -> str:
    known = {"name": part, "source": f"the file of the {part}", "values": f"the digest of the {part}'s values"}
    return known.get(field, f"{field} of the {part}")


def _values(configuration: Configuration) -> dict[str, Any]:
    return {"algorithm": configuration.algorithm, "readings": configuration.readings, **configuration.options()}
