"""Jobs of compiled rounds on the nodes of a Ray cluster: an engine for `srgdqn.training.rounds`."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from srgdqn import tasks
from srgdqn.config import Configuration
from srgdqn.config.presets import is_compiled
from srgdqn.engines.on_ray import run_on_ray
from srgdqn.engines.packing import packed, the_same
from srgdqn.engines.ray_task import Tell
from srgdqn.engines.shared_folders import Mark, claimed, marked
from srgdqn.engines.throttle import Heard, now_and_then
from srgdqn.learner.estimators import Estimator, make_known, own_estimators
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.tasks import Task
from srgdqn.training.job import Job, ShareResult, train_job
from srgdqn.training.machine import is_double
from srgdqn.training.reports import Progress
from srgdqn.training.rounds import Jobs


def jobs_on_ray(work: Jobs) -> Iterator[tuple[int, list[ShareResult]]]:
    """Runs jobs on the cluster that this process is connected to, or on a Ray of its own.

    They are kept in the run's own folder, where a node sees it; elsewhere one that is lost begins anew. Either way its
    bits are the same.
    """
    heard = [Heard(listener) for listener in work.listeners]
    first = work.jobs[0]
    known = _known_task(first.configurations[0])
    environment = packed((None if first.task == known else first.task, first.network))
    jobs = [job._replace(task=None, network=None) for job in work.jobs]  # type: ignore[arg-type]
    things = [(index, job, work.compiled if index == 0 else []) for index, job in enumerate(jobs)]
    manager = work.manager
    with contextlib.nullcontext() if manager is None else marked(manager.folder) as mark:
        on_node = _Work(environment, manager, mark, own_estimators(), is_double())
        found = run_on_ray(on_node, things, hear=lambda thing, told: heard[thing[0]].hear(told), stopping=work.stopping)
        with contextlib.suppress(KeyboardInterrupt):
            for (index, _, _), results in found:
                yield index, results


@dataclass(frozen=True)
class _Work:
    """Trains a job on a node."""

    own: bytes  # the user's environment and network, where there are such
    manager: CheckpointManager | None
    mark: Mark | None
    estimators: Mapping[str, Estimator]  # the user's own
    double: bool

    def __call__(self, thing: tuple[int, Job, Any], stop: threading.Event, tell: Tell) -> list[ShareResult]:
        _, job, compiled = thing
        make_known(self.estimators)
        task, network = the_same(self.own)
        task = _known_task(job.configurations[0]) if task is None else task
        assert task is not None
        job = job._replace(task=task, network=network)
        with jax.enable_x64(self.double), claimed(self.mark, job.name) as mine:
            manager = self.manager if mine else None
            results = train_job(
                job,
                listener=now_and_then(tell),
                stopping=stop.is_set,
                checkpoints=None if manager is None else manager.job(job.name),
                timings=compiled,
            )
            if manager is not None:
                manager.flush()  # the job's end, which would wait in a process that may not be asked again
        if results and all(result.whole for result in results):
            # Once more, for one that was finished before its node died, and had nothing left to tell.
            diverged = sum(int(np.ma.count(result.tables["rounds"]["diverged_at"])) for result in results)
            tell((Progress(1.0, 0, float("nan"), diverged, ended=True), []))
        return results


def _known_task(configuration: Configuration) -> Task | None:
    """The paper's task that a configuration names, if it names one: there is one such object in a process."""
    if not is_compiled(configuration.task.task):
        return None
    return tasks.with_evaluation_limit(tasks.make(configuration.task), configuration.training.evaluation_limit)
