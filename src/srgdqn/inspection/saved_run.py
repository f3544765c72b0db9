"""A saved run, with what rerunning its rounds needs, and its checkpoints."""

from __future__ import annotations

import os
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
from srgdqn.config.checks import check, check_estimator_of_run
from srgdqn.config.discovery import NETWORKS
from srgdqn.config.identifiers import is_identifier
from srgdqn.config.presets import PRESETS
from srgdqn.errors import InputError
from srgdqn.learner.networks import Network, NetworkFactory, make_network
from srgdqn.results.result import Result, load_result
from srgdqn.runs.checkpoint_manager import warn
from srgdqn.runs.checkpoints import Checkpoint, CheckpointFolder
from srgdqn.runs.unfinished import CHECKPOINTS
from srgdqn.session.prepare import with_kernel
from srgdqn.tasks import Task, task_of
from srgdqn.training.host.evaluation import same_task
from srgdqn.training.host.task import HostTask
from srgdqn.training.interaction import action_count, observation_size
from srgdqn.training.jax_setup import is_double
from srgdqn.training.job import Job, JobTrainer, restored_job
from srgdqn.training.job_split import owned_shares
from srgdqn.training.lane import Lane
from srgdqn.training.loop import Owners, configuration_digest, owners_of, position_of
from srgdqn.training.program import Programs, programs_for

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
    def compiled(self) -> bool:
        """Whether its rounds are lanes, and not rounds on the host."""
        return isinstance(self.task, Task)

    @property
    def action_count(self) -> int:
        """How many actions its task has."""
        return action_count(self.task.environment) if isinstance(self.task, Task) else self.task.actions.count

    def q_network(self) -> Network:
        """The Q-network of its rounds."""
        task = self.task
        read = observation_size(task.environment) if isinstance(task, Task) else task.network_input
        atoms = self.configuration.gradients.outputs_per_action
        return make_network(self.configuration.network, read, self.action_count, self.network, atoms=atoms)

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
    check_estimator_of_run(result.configuration.estimator.estimator)
    configuration = check(result.configuration)
    if configuration.network.network not in NETWORKS and network is None:
        raise InputError(
            f"the network of this run is the module {configuration.network.network!r}, which is not stored with it. "
            "Pass it in Python: network=…."
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
        raise InputError(
            f"the task of this run is the environment {name!r}, which is not stored with it. Pass it in Python: "
            "environment=…."
        )
    if result.on_host:
        source = source_of(name if environment is None else environment)
        return same_task(configuration, source, result.run.provenance), source
    if environment is not None and not isinstance(environment, FuncEnv):
        raise InputError(f"the task of this run, {name!r}, is a functional environment. Pass the same one.")
    return task_of(configuration, environment), environment


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

    checkpoint: Checkpoint
    place: int | None  # of the round among those of the checkpoint; None where it is the only one, on the host
    blocks: int  # done by then
    at_the_end: bool  # of its job: then the replay is not stored, and nothing can be rerun from it
    name: str  # in messages

    def policy(self) -> dict[str, np.ndarray]:
        """The arrays of the round's policy by then, by the paths that a run stores them under."""
        homes = {"state.learner.parameters.": "network.", "state.normaliser.observations.": "normaliser."}
        return {
            stored + name.removeprefix(home): array if self.place is None else array[self.place]
            for home, stored in homes.items()
            for name, array in self.checkpoint.tensors.items()
            if name.startswith(home)
        }

    def lane(self, saved: SavedRun) -> Lane:
        """The state of a compiled round by then, with an axis of one round first."""
        assert isinstance(saved.task, Task)
        place = self.place
        assert place is not None
        # Nothing is trained here, so that whose rounds the others are does not matter.
        owned = owned_shares(owners_of(self.checkpoint), [configuration_digest(saved.configuration)])
        job = Job(tuple(share._replace(place=0) for share in owned))
        trainer = JobTrainer((saved.configuration,), saved.task, saved.network)
        rounds, _ = restored_job(self.checkpoint, trainer, job, saved.programs)
        mine: Lane = jax.tree.map(lambda leaf: np.array(leaf[place : place + 1]), rounds.on_host())
        return mine


def checkpoints_of(saved: SavedRun, number: int) -> list[RoundCheckpoint]:
    """The usable checkpoints of a round, oldest first. Damaged ones, of any round, are warned about; damage inside a
    tensor is found when it is opened.
    """
    root = saved.folder / CHECKPOINTS
    if not root.is_dir():
        return []
    found: dict[int, RoundCheckpoint] = {}
    for job in sorted(entry for entry in root.iterdir() if entry.is_dir()):
        checkpoints = CheckpointFolder(job, None)
        for entry in checkpoints.numbers():
            name = f"{entry} in {job}"
            try:
                checkpoint = checkpoints.open(entry)
                place = _place_of(saved, number, owners_of(checkpoint))
                if place is not None:
                    blocks, last = position_of(checkpoint)
                    lane = place if saved.compiled else None
                    found[blocks] = RoundCheckpoint(checkpoint, lane, blocks, last, name)
            except InputError as error:
                warn_unusable(name, error)
    return [found[blocks] for blocks in sorted(found)]


def _place_of(saved: SavedRun, number: int, owners: Owners) -> int | None:
    """The place of a round among those of a checkpoint; None if it is not there."""
    before, whose = 0, configuration_digest(saved.configuration)
    for who, first, stop in owners:
        if who == whose and first <= number < stop:
            return before + number - first
        before += stop - first
    return None


def warn_unusable(name: str, error: InputError) -> None:
    """Warns that a checkpoint is damaged and left out."""
    warn(f"the checkpoint {name} cannot be used: {str(error).rstrip('.')}. It is left out.")
