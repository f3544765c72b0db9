"""A saved run, and everything that living one of its rounds again needs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import polars as pl
from gymnasium.experimental.functional import FuncEnv

from srgdqn.adapters.environments import Environment, Source, source_of
from srgdqn.api import task_of, with_kernel
from srgdqn.config import Configuration
from srgdqn.config.checks import check
from srgdqn.config.identifiers import is_identifier
from srgdqn.config.options import BUILT_IN_NETWORKS
from srgdqn.config.presets import PRESETS
from srgdqn.errors import InputError
from srgdqn.learner.estimators import estimator_names
from srgdqn.learner.networks import NetworkFactory
from srgdqn.runs.result import Result, load_result
from srgdqn.tasks import Task
from srgdqn.training.host.stored_policies import same_task
from srgdqn.training.host.task import HostTask
from srgdqn.training.precision import is_double

OwnNetwork = eqx.Module | NetworkFactory | None


@dataclass(frozen=True, eq=False)
class Subject:
    """A run to be looked at again."""

    folder: Path
    result: Result
    task: Task | HostTask
    network: OwnNetwork
    """The user's own, where it was trained with one."""
    environment: FuncEnv | Source | None
    """Likewise; always the source of an ordinary environment."""

    @property
    def configuration(self) -> Configuration:
        """What decided the run."""
        return self.result.configuration

    @property
    def block(self) -> int:
        """Environment steps between two outer iterations."""
        return self.configuration.training.learning_frequency

    def row_of(self, number: int) -> dict[str, Any]:
        """What the run tells of a round; an `InputError` where it has no such round."""
        self.result.parameters_of(number)
        return self.result.rounds.row(by_predicate=pl.col("round") == number, named=True)


def subject_of(
    folder: str | os.PathLike[str],
    *,
    network: OwnNetwork = None,
    environment: FuncEnv | Environment | None = None,
) -> Subject:
    """The run in a folder, with the user's own network and environment where it was trained with such.

    Everything that makes it impossible to train the run again here is an `InputError`, before any work is done.
    """
    result = load_result(folder, network=network)
    configuration = check(result.configuration, estimator_names())
    if configuration.network.network not in BUILT_IN_NETWORKS and network is None:
        raise InputError(
            f"the network of this run is the module {configuration.network.network!r}, which is not stored with it. "
            "Give it again, in Python: network=…."
        )
    _check_precision(result.run.provenance.get("precision"))
    task, own = _what_was_learned(configuration, result, environment)
    with_kernel(configuration, own_environment=own is not None and not result.on_host)
    return Subject(Path(folder), result, task, network, own)


def _what_was_learned(
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
