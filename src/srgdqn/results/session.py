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
from srgdqn.results.prepare import PreparedRun
from srgdqn.results.result import Result, load_result
from srgdqn.runs import configurations
from srgdqn.runs.checkpoint_manager import CheckpointManager, leave_newest
from srgdqn.runs.destination import MANIFEST, check_destination
from srgdqn.runs.provenance import LOCAL, OF_RUNS, unidentified, what_bits_depend_on
from srgdqn.runs.run_folder import (
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
    folder = None
    if options is not None:
        if (found := _finished(run, options)) is not None:
            return Outcome(run.with_user_code(found.run), options.out, was_finished=True)
        folder = _begin(run, options)
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
        except InputError as error:
            self.manager.flush()  # it is saved by resuming it
            raise NotSavedError(self._why(error), result) from error
        except BaseException:
            self.manager.flush()
            raise
        if not result.run.provenance.get("interrupted"):
            if self._keep is not None:
                _keep_checkpoints(self._folder, path, self._keep)
            clear(self._folder)
        return path

    def _why(self, error: InputError) -> str:
        refusal = error.__cause__
        if not isinstance(refusal, OSError):
            return str(error)
        advice = how_to_resume(self._out) or "Then train it again, as there is no checkpoint of it either."
        reason = refusal.strerror or refusal
        return (
            f"the run could not be saved in {self._out}: {reason}. Nothing was changed there. Free some space. {advice}"
        )


def _begin(run: PreparedRun, options: CheckpointOptions) -> _Folder:
    """The folder of a run that begins or resumes. One with another identity, which gives other bits, is not resumed."""
    folder = beside(options.out)
    request = Request(configurations.dumps(run.configuration), run.identity, _options(options, {}))
    before = _before(folder, request, options)
    asked = request.options if before is None else _options(options, before.options)
    # One that was interrupted before its first checkpoint has left nothing but what it saved, and begins again.
    resumes = before is not None
    replaces = asked["overwrite"] or (options.resume and _is_interrupted(options.out, run.configuration, resumes))
    if options.resume and not replaces and os.path.lexists(options.out / MANIFEST):
        raise _is_another(options.out, run, resumes)
    check_destination(options.out, overwrite=replaces)
    if before is None:
        clear(folder)
        write_request(folder, request)
    elif asked != before.options:
        # What is said now holds until something else is said. A disk that refuses to note it is no reason to stop.
        with contextlib.suppress(InputError):
            write_request(folder, before._replace(options=asked))
    return _Folder(options, asked, stamp_of(run.identity), replaces=replaces)


def stamp_of(identity: Mapping[str, Any]) -> str:
    """A short digest of what determines the bits: another one every time where user code cannot be compared."""
    if unidentified(identity) is not None:
        return secrets.token_hex(8)
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def _finished(run: PreparedRun, options: CheckpointOptions) -> Result | None:
    """The saved run, where `resume` finds it whole: it may have been killed once it was saved. An `InputError` where
    it is unknown whether the run that is there is this one.
    """
    out, folder = options.out, beside(options.out)
    saved = os.path.lexists(out / MANIFEST)
    if options.resume and (saved or has_checkpoints(folder)) and (reason := unidentified(run.identity)) is not None:
        raise InputError(
            f"the run in {out} cannot be resumed, as it is unknown whether it was begun with the same code: {reason}. "
            "Nothing was changed there. Give another folder, or begin anew with --overwrite instead of --resume "
            "(overwrite=True in Python)."
        )
    if not options.resume or not saved:
        return None
    try:
        result = load_result(out)
    except InputError:
        if has_checkpoints(folder):
            return None  # a damaged run is replaced by the one that resumes
        raise
    if result.run.provenance.get("interrupted") or result.configuration != run.configuration:
        return None
    made_with = what_bits_depend_on(result.run.provenance)
    if any(made_with[name] != run.identity[name] for name in OF_RUNS):
        return None  # it is another one
    left = read_request(folder)
    if left is None:
        clear(folder)  # clearing may have been cut short: it removes what describes the rest first
    elif left.configuration == configurations.dumps(run.configuration):
        if left.about != made_with:
            return None  # it is an older one, which was about to be replaced
        if (keep := _options(options, left.options)["keep"]) is not None:
            _keep_checkpoints(folder, out, keep)
        clear(folder)
    return result


def _keep_checkpoints(folder: Path, out: Path, keep: int | Literal["all"]) -> None:
    """Moves as many checkpoints as were asked for into the saved run; while it ran there may have been more."""
    if keep != "all":
        leave_newest(folder / JOBS, keep)
    move_checkpoints(folder, out)


def _is_interrupted(out: Path, configuration: Configuration, resumes: bool) -> bool:
    """Whether an interrupted run of this configuration is saved there; also a damaged one, where the run resumes."""
    if not os.path.lexists(out / MANIFEST):
        return False
    try:
        result = load_result(out)
    except InputError:
        if resumes:
            return True
        raise
    return bool(result.run.provenance.get("interrupted") and result.configuration == configuration)


def _options(options: CheckpointOptions, before: Mapping[str, Any]) -> dict[str, Any]:
    """How a run is checkpointed: as is said now, or else as was said before."""
    said = {"every": options.every, "keep": options.keep, "overwrite": options.overwrite or None}
    asked = {name: before.get(name) if value is None else value for name, value in said.items()}
    return {**asked, "overwrite": bool(asked["overwrite"])}


def _is_another(out: Path, run: PreparedRun, resumes: bool) -> InputError:
    """The error where another run is saved than the one to resume."""
    there = load_result(out)
    state = "of which a part is saved" if there.run.provenance.get("interrupted") else "which is finished"
    made_with = what_bits_depend_on(there.run.provenance)
    then, now = ({name: each[name] for name in OF_RUNS} for each in (made_with, run.identity))
    different = changes({**_values(there.configuration), **then}, {**_values(run.configuration), **now})
    which = f" ({different[0]})" if different else ""
    anew = "give --overwrite as well, to replace it" if resumes else "begin anew with --overwrite instead of --resume"
    return InputError(
        f"{out} exists already: it is another run, {state}{which}. Give what that one was begun with, or another "
        f"folder, or {anew}."
    )


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
    anew = "Give what it was begun with, or begin anew with --overwrite instead of --resume."
    if before.configuration != request.configuration:
        which = _first_change(before, request)
        raise InputError(f"the run in {folder} was begun with another configuration{which}. {anew}")
    changed = [name for name in request.about if before.about.get(name) != request.about[name]]
    if changed:
        raise InputError(
            f"the run in {folder} cannot be resumed to the same bits, as it was begun with another "
            f"{' and '.join(changed).replace('_', ' ')} "
            f"({'; '.join(changes(before.about, request.about))}). {anew}"
        )
    return before


def _first_change(before: Request, now: Request) -> str:
    """The first option in which two requests differ, in words."""
    try:
        then, asked = (configurations.loads(each.configuration) for each in (before, now))
    except InputError:
        return ""
    return "".join(f": {change}" for change in changes(_values(then), _values(asked))[:1])


def _values(configuration: Configuration) -> dict[str, Any]:
    return {"algorithm": configuration.algorithm, "readings": configuration.readings, **configuration.options()}
