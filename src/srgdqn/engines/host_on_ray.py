"""Rounds on the host, each on a node of a Ray cluster: an engine for `srgdqn.host.rounds`."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import gymnasium
import jax

from srgdqn.engines.now_and_then import Heard, now_and_then
from srgdqn.engines.on_ray import run_on_ray
from srgdqn.engines.packing import packed, the_same
from srgdqn.engines.ray_task import Tell
from srgdqn.engines.shared_folders import Mark, marked
from srgdqn.estimators import ESTIMATORS, register_estimator
from srgdqn.host.environments import source_of
from srgdqn.host.task import HostTask, host_task
from srgdqn.host.training import RoundOutcome, train_round
from srgdqn.host.worker import Job
from srgdqn.identifiers import plain
from srgdqn.networks import NetworkFactory, make_network
from srgdqn.settings import Configuration
from srgdqn.settings.checks import ESTIMATORS as BUILT_IN
from srgdqn.training.keeping import Keeping
from srgdqn.training.precision import is_double
from srgdqn.training.shared_progress import SharedProgress


def rounds_on_ray(
    configuration: Configuration,
    task: HostTask,
    user_network: eqx.Module | NetworkFactory | None,
    workers: int,
    shared: SharedProgress,
    stopping: Callable[[], bool],
    measure_noise: bool,
    keeping: Keeping | None = None,
) -> list[RoundOutcome]:
    """Trains every round on the cluster that this process is connected to, or on a Ray of its own. A round whose worker
    or node dies goes on, or begins anew where the folder in which it is kept is not to be seen.
    """
    del workers  # as many as there are cores
    # What is wrong with a network is found here, once, rather than on every node.
    make_network(configuration.network, task.network_input, task.actions.count, user_network)
    numbers = range(configuration.training.rounds)
    heard = [Heard(shared.of(number)) for number in numbers]
    with contextlib.nullcontext() if keeping is None else marked(keeping.folder) as mark:
        job = Job(
            configuration,
            task.source.recipe,
            {name: spec for name, spec in gymnasium.registry.items() if name == plain(task.name)},
            {name: each for name, each in ESTIMATORS.items() if name not in BUILT_IN},
            user_network,
            {"jax_enable_x64": is_double()},
            measure_noise,
            keeping,
        )
        work = _Work(packed(job), mark)
        found = run_on_ray(work, numbers, hear=lambda number, told: heard[number].hear(told), stopping=stopping)
        return [outcome for _, outcome in found]


@dataclass(frozen=True)
class _Work:
    """Trains a round on a node."""

    job: bytes
    mark: Mark | None

    def __call__(self, number: int, stop: threading.Event, tell: Tell) -> RoundOutcome:
        job, task = _prepared(self.job)
        keeping = job.keeping if self.mark is not None and self.mark.is_seen() else None
        with jax.enable_x64(job.jax_options["jax_enable_x64"]):
            outcome = train_round(
                job.configuration,
                task,
                number,
                job.network,
                listener=now_and_then(tell),
                stopping=stop.is_set,
                measure_noise=job.measure_noise,
                keeping=keeping,
            )
        if keeping is not None:
            keeping.flush()
        return outcome


@functools.lru_cache(maxsize=4)
def _prepared(data: bytes) -> tuple[Job, Any]:
    """The job and its task, made once in a process."""
    job: Job = the_same(data)
    for name, estimator in job.estimators.items():
        if name not in ESTIMATORS:
            register_estimator(name, estimator)
    for identifier, spec in job.specs.items():
        gymnasium.registry.setdefault(identifier, spec)
    return job, host_task(job.configuration, source_of(job.recipe))
