"""Rounds on the host, each on a node of a Ray cluster: an engine for `srgdqn.engines.host_rounds`."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax

from srgdqn.config import Configuration
from srgdqn.engines.host_job import Job, job_of
from srgdqn.engines.on_ray import run_on_ray
from srgdqn.engines.packing import packed, the_same
from srgdqn.engines.ray_task import Tell
from srgdqn.engines.shared_folders import Mark, marked
from srgdqn.engines.throttle import Heard, now_and_then
from srgdqn.learner.networks import NetworkFactory, make_network
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.runs.locks import OccupiedError
from srgdqn.training.host.task import HostTask
from srgdqn.training.host.train_round import RoundOutcome, train_round
from srgdqn.training.reports import SharedProgress


def rounds_on_ray(
    configuration: Configuration,
    task: HostTask,
    user_network: eqx.Module | NetworkFactory | None,
    workers: int,
    shared: SharedProgress,
    stopping: Callable[[], bool],
    measure_noise: bool,
    manager: CheckpointManager | None = None,
) -> list[RoundOutcome]:
    """Trains every round on the cluster that this process is connected to, or on a Ray of its own. A round whose worker
    or node dies goes on, or begins anew where the folder in which it is kept is not to be seen.
    """
    del workers  # as many as there are cores
    # What is wrong with a network is found here, once, rather than on every node.
    make_network(configuration.network, task.network_input, task.actions.count, user_network)
    numbers = range(configuration.training.rounds)
    heard = [Heard(shared.of(number)) for number in numbers]
    with contextlib.nullcontext() if manager is None else marked(manager.folder) as mark:
        work = _Work(packed(job_of(configuration, task, user_network, measure_noise, manager)), mark)
        found = run_on_ray(work, numbers, hear=lambda number, told: heard[number].hear(told), stopping=stopping)
        return [outcome for _, outcome in found]


@dataclass(frozen=True)
class _Work:
    """Trains a round on a node."""

    job: bytes
    mark: Mark | None

    def __call__(self, number: int, stop: threading.Event, tell: Tell) -> RoundOutcome:
        job, task = _prepared(self.job)
        train = functools.partial(
            train_round,
            job.configuration,
            task,
            number,
            job.network,
            listener=now_and_then(tell),
            stopping=stop.is_set,
            measure_noise=job.measure_noise,
        )
        with jax.enable_x64(job.double):
            try:
                return train(manager=job.manager if self.mark is not None and self.mark.is_seen() else None)
            except OccupiedError:  # by a worker that outlived its driver: its bits are the same if it is not kept
                return train(manager=None)


@functools.lru_cache(maxsize=4)
def _prepared(data: bytes) -> tuple[Job, HostTask]:
    """The job and its task, made once in a process."""
    job: Job = the_same(data)
    return job, job.task()
