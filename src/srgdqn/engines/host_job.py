"""What processes and machines that train rounds of one run are told of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import gymnasium

from srgdqn.adapters.environments import source_of
from srgdqn.config import Configuration
from srgdqn.config.identifiers import plain
from srgdqn.learner.estimators import make_known, own_estimators
from srgdqn.learner.networks import NetworkFactory
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.training.host.task import HostTask, host_task
from srgdqn.training.machine import is_double


class Job(NamedTuple):
    """What all rounds of a run have in common."""

    configuration: Configuration
    recipe: Any  # of the environment
    specs: dict[str, Any]  # what Gymnasium is to know
    estimators: dict[str, Any]  # the user's own
    network: eqx.Module | NetworkFactory | None  # the user's own
    double: bool
    measure_noise: bool
    manager: CheckpointManager | None  # where its rounds are kept

    def task(self) -> HostTask:
        """The task, in a process that knows the user's own code from now on."""
        make_known(self.estimators)
        for identifier, spec in self.specs.items():
            gymnasium.registry.setdefault(identifier, spec)
        return host_task(self.configuration, source_of(self.recipe))


def job_of(
    configuration: Configuration,
    task: HostTask,
    network: eqx.Module | NetworkFactory | None,
    measure_noise: bool,
    manager: CheckpointManager | None,
) -> Job:
    """The job of a run, with everything that this process knows and another may not."""
    specs = {name: spec for name, spec in gymnasium.registry.items() if name == plain(task.name)}
    given = (configuration, task.source.recipe, specs, own_estimators(), network)
    return Job(*given, is_double(), measure_noise, manager)
