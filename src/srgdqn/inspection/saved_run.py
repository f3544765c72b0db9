"""A saved run, its checkpoints, and its rounds rerun."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
import polars as pl
from gymnasium.experimental.functional import FuncEnv

from srgdqn.adapters.environments import Environment, Source, source_of
from srgdqn.config import Configuration
from srgdqn.config.checks import check
from srgdqn.config.discovery import NETWORKS
from srgdqn.config.identifiers import is_identifier
from srgdqn.config.presets import PRESETS
from srgdqn.errors import InputError
from srgdqn.inspection.rerun_compiled import CompiledRerun
from srgdqn.inspection.rerun_host import HostRerun
from srgdqn.learner.networks import NetworkFactory
from srgdqn.results.prepare import task_of, with_kernel
from srgdqn.results.result import Result, load_result
from srgdqn.runs.checkpoint_manager import warn
from srgdqn.runs.checkpoints import Checkpoint, Journal
from srgdqn.runs.run_folder import CHECKPOINTS
from srgdqn.tasks import Task
from srgdqn.training.host.stored_policies import same_task
from srgdqn.training.host.task import HostTask
from srgdqn.training.job import Job, restored_job
from srgdqn.training.lane import Lane
from srgdqn.training.loop import identity, owners_of, position_of
from srgdqn.training.precision import is_double
from srgdqn.training.program import Programs, programs_for
from srgdqn.training.schedule import owned_shares

OwnNetwork = eqx.Module | NetworkFactory | None


@dataclass(frozen=True, eq=False)
class SavedRun:
    """A saved run, with what rerunning its rounds needs."""

    folder: Path
    result: Result
    task: Task | HostTask
    network: OwnNetwork
    """The user's own, where it was trained with one."""
    environment: FuncEnv | Source | None
    """Likewise; always the source of an ordinary environment."""

    @property
    def configuration(self) -> Configuration:
        """The run's configuration."""
        return self.result.configuration

    @property
    def programs(self) -> Programs:
        """The programs that trained a compiled run's rounds, compiled if necessary."""
        assert isinstance(self.task, Task)
        return programs_for(self.configuration, self.task, self.network)[0]

    @property
    def block(self) -> int:
        """Environment steps between two outer iterations."""
        return self.configuration.training.learning_frequency

    def row_of(self, number: int) -> dict[str, Any]:
        """The row of a round in the table `rounds`; an `InputError` if there is no such round."""
        self.result.parameters_of(number)
        return self.result.rounds.row(by_predicate=pl.col("round") == number, named=True)


def open_run(
    folder: str | os.PathLike[str],
    *,
    network: OwnNetwork = None,
    environment: FuncEnv | Environment | None = None,
) -> SavedRun:
    """Loads the run in a folder; `network` and `environment` are the user's own, where it was trained with such.

    Whatever makes it impossible to rerun it here is an `InputError`, before any work is done.
    """
    result = load_result(folder, network=network)
    configuration = check(result.configuration)
    if configuration.network.network not in NETWORKS and network is None:
        raise InputError(
            f"the network of this run is the module {configuration.network.network!r}, which is not stored with it. "
            "Give it again, in Python: network=…."
        )
    _check_precision(result.run.provenance.get("precision"))
    task, own = _task_of(configuration, result, environment)
    with_kernel(configuration, own_environment=own is not None and not result.on_host)
    return SavedRun(Path(folder), result, task, network, own)


def _task_of(
    configuration: Configuration, result: Result, environment: Any
) -> tuple[Task | HostTask, FuncEnv | Source | None]:
    name = configuration.task.task
    if environment is None and not (is_identifier(name) if result.on_host else name in PRESETS):
        raise _environment_missing(name)
    if result.on_host:
        source = source_of(name if environment is None else environment)
        return same_task(configuration, source, result.run.provenance), source
    if environment is not None and not isinstance(environment, FuncEnv):
        raise InputError(f"the task of this run, {name!r}, is a functional environment. Give the same again.")
    return task_of(configuration, environment), environment


def _environment_missing(name: str) -> InputError:
    return InputError(
        f"the task of this run is the environment {name!r}, which is not stored with it. Give it again, in Python: "
        "environment=…."
    )


def _check_precision(then: str | None) -> None:
    here = "float64" if is_double() else "float32"
    if then is not None and then != here:
        wanted = "on" if then == "float64" else "off"
        raise InputError(
            f"the run was computed in {then}, and jax is set to {here} here. Switch jax_enable_x64 {wanted}, such as "
            f"with JAX_ENABLE_X64={int(then == 'float64')}."
        )


class RoundCheckpoint(NamedTuple):
    """One checkpoint of a round."""

    blocks: int
    """Blocks done by then."""
    at_the_end: bool
    """Whether its job had ended: then the replay is not stored, and nothing can be rerun from it."""
    open: Callable[[], Any]
    """What a rerun starts from: the argument `start` of `CompiledRerun` or of `HostRerun`."""
    policy: Callable[[], dict[str, np.ndarray]]
    """The arrays of the round's policy by then, by path."""
    place: str = ""
    """Its name in messages."""


def checkpoints_of(saved: SavedRun, number: int) -> list[RoundCheckpoint]:
    """The usable checkpoints of a round, oldest first. Damaged ones, of any round, are warned about; damage inside a
    tensor is found when it is opened.
    """
    root = saved.folder / CHECKPOINTS
    if not root.is_dir():
        return []
    found: dict[int, RoundCheckpoint] = {}
    for job in sorted(entry for entry in root.iterdir() if entry.is_dir()):
        journal = Journal(job, None)
        for place in journal.numbers():
            where = f"{place} in {job}"
            try:
                checkpoint = journal.open(place)
                usable = (_compiled if isinstance(saved.task, Task) else _hosted)(saved, number, checkpoint)
            except InputError as error:
                warn_unusable(where, error)
                continue
            if usable is not None:
                found[usable.blocks] = usable._replace(place=where)
    return [found[blocks] for blocks in sorted(found)]


def warn_unusable(place: str, error: InputError) -> None:
    """Warns that a checkpoint is damaged and left out."""
    warn(f"the checkpoint {place} cannot be used: {str(error).rstrip('.')}. It is left out.")


def _compiled(saved: SavedRun, number: int, checkpoint: Checkpoint) -> RoundCheckpoint | None:
    before, mine, whose, owners = 0, None, identity(saved.configuration), owners_of(checkpoint)
    for who, first, stop in owners:
        if who == whose and first <= number < stop:
            mine = before + number - first
        before += stop - first
    if mine is None:
        return None
    blocks, last = position_of(checkpoint)
    place = mine

    def lane() -> Lane:
        assert isinstance(saved.task, Task)
        # Nothing is trained here, so that whose rounds the others are does not matter.
        shares = tuple(share._replace(place=0) for share in owned_shares(owners, [whose]))
        job = Job(shares, (saved.configuration,) * len(shares), saved.task, saved.network)
        rounds, _ = restored_job(checkpoint, job, saved.programs)
        mine: Lane = jax.tree.map(lambda leaf: np.array(leaf[place : place + 1]), rounds.on_host())
        return mine

    def policy() -> dict[str, np.ndarray]:
        return {path: array[place] for path, array in _policy(checkpoint).items()}

    return RoundCheckpoint(blocks, last, lambda: (blocks, lane()), policy)


def _hosted(saved: SavedRun, number: int, checkpoint: Checkpoint) -> RoundCheckpoint | None:
    if owners_of(checkpoint) != [(identity(saved.configuration), number, number + 1)]:
        return None
    blocks, last = position_of(checkpoint)
    return RoundCheckpoint(blocks, last, lambda: checkpoint, lambda: _policy(checkpoint))


def _policy(checkpoint: Checkpoint) -> dict[str, np.ndarray]:
    """The arrays that a policy is made of, by the paths that a run stores them under."""
    homes = {"state.learner.parameters.": "network.", "state.normaliser.observations.": "normaliser."}
    return {
        stored + name.removeprefix(home): array
        for home, stored in homes.items()
        for name, array in checkpoint.tensors.items()
        if name.startswith(home)
    }


@contextmanager
def rerun(saved: SavedRun, number: int, *starts: RoundCheckpoint) -> Iterator[CompiledRerun | HostRerun]:
    """A round of a run, to be rerun from the last undamaged one of these checkpoints, or else from its first step."""
    round_ = _started(saved, number, starts)
    try:
        yield round_
    finally:
        if isinstance(round_, HostRerun):
            round_.close()


def _started(saved: SavedRun, number: int, starts: Sequence[RoundCheckpoint]) -> CompiledRerun | HostRerun:
    kind = CompiledRerun if isinstance(saved.task, Task) else HostRerun
    for start in reversed(starts):
        try:
            return kind(saved, number, start.open())
        except InputError as error:
            warn_unusable(start.place, error)
    return kind(saved, number)
