"""A job: compiled rounds that an engine trains together, and what trains it."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from srgdqn import tasks
from srgdqn.config import Configuration
from srgdqn.config.presets import is_compiled
from srgdqn.engines.executor import never
from srgdqn.errors import InputError
from srgdqn.learner.networks import NetworkFactory
from srgdqn.runs.checkpoint_manager import CheckpointManager, JobCheckpoints
from srgdqn.runs.checkpoints import Checkpoint
from srgdqn.tasks import Task
from srgdqn.training.job_split import Shares
from srgdqn.training.lane import PLAIN, Instruments
from srgdqn.training.lanes import LaneRounds
from srgdqn.training.loop import Halt, Owners, Segment, played_by, restore, train
from srgdqn.training.program import SEGMENT_BLOCKS, Programs, lane_numbers, programs_for
from srgdqn.training.recorder import Recorder
from srgdqn.training.reports import Listener, ProgressReporter, finished
from srgdqn.training.tables import Tables, endings_of

Choice = Callable[[np.ndarray], np.ndarray]
"""From numbers of blocks to whether each one's probed row is wanted."""


def every_block(blocks: np.ndarray) -> np.ndarray:
    """Wants the probed rows of all blocks."""
    return np.ones(len(blocks), bool)


class Job(NamedTuple):
    """Rounds that train together."""

    shares: Shares  # whose rounds they are
    saved_as: str | None = None  # the name of its checkpoints, which may have been begun for more shares
    compile_seconds: float | None = None  # where its tables are to say how long compiling took

    @property
    def owners(self) -> Owners:
        """Whose rounds they are, as a checkpoint says it."""
        return [(share.digest, share.rounds.start, share.rounds.stop) for share in self.shares]

    @property
    def name(self) -> str:
        """The name of its checkpoints: of a job that begins, it depends on whose rounds it has alone."""
        if self.saved_as is not None:
            return self.saved_as
        if len(self.shares) == 1:
            [(who, first, stop)] = self.owners
            return f"rounds-{first}-{stop - 1}-{who}"
        return f"rounds-{hashlib.sha256(json.dumps(self.owners).encode()).hexdigest()[:12]}"

    @property
    def rounds(self) -> list[int]:
        """The numbers of all its rounds."""
        return [number for share in self.shares for number in share.rounds]

    @property
    def asked_for(self) -> Shares:
        """The shares that somebody asks for."""
        return tuple(share for share in self.shares if share.place is not None)


@dataclass(frozen=True)
class JobTrainer:
    """Everything that training a run's jobs needs, wherever that is done; called with a job, it trains it."""

    configurations: tuple[Configuration, ...]  # those asked for, which differ in numbers alone
    task: Task
    network: eqx.Module | NetworkFactory | None = None  # the user's own
    segment_blocks: int = SEGMENT_BLOCKS
    instruments: Instruments = PLAIN
    data: Any = None  # for the instruments' source of batches
    probe_at: Choice = every_block

    def __getstate__(self) -> dict[str, Any]:
        """Without a task of the paper's, which the kernel knows by the one object that it is in a process."""
        return {**vars(self), "task": None if self.task == self._paper_task() else self.task}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Finds a task of the paper's again."""
        vars(self).update(state)
        if self.task is None:
            vars(self)["task"] = self._paper_task()

    def _paper_task(self) -> Task | None:
        configuration = self.configurations[0]
        return tasks.task_of(configuration) if is_compiled(configuration.task.task) else None

    def __call__(
        self, job: Job, listener: Listener, stop: threading.Event, manager: CheckpointManager | None
    ) -> list[ShareResult]:
        """Trains a job, and checkpoints it where there is a manager."""
        checkpoints = None if manager is None else manager.job(job.name)
        return train_job(self, job, listener=listener, stopping=stop.is_set, checkpoints=checkpoints)

    def programs(self) -> tuple[Programs, bool]:
        """The executables, and whether they had to be compiled now."""
        return programs_for(self.configurations[0], self.task, self.network, self.instruments, self.data)


class ShareResult(NamedTuple):
    """What the rounds of one configuration in a job left."""

    place: int  # of the configuration
    first_round: int
    tables: Tables
    policies: dict[str, np.ndarray]
    best: dict[str, np.ndarray]  # likewise, where they are kept
    whole: bool  # not cut short
    probed: list[tuple[np.ndarray, Any]]  # numbers of blocks, and their rows
    ring: np.ndarray | None = None  # where it is a recording


def train_job(
    trainer: JobTrainer,
    job: Job,
    *,
    listener: Listener = lambda progress: None,
    stopping: Halt = never,
    checkpoints: JobCheckpoints | None = None,
) -> list[ShareResult]:
    """Trains the job's rounds until their budget is spent, none is active, or it is asked to stop; what was reached is
    returned in any case, and nothing if that is nothing. They resume from the newest good one of `checkpoints`.
    """
    programs, _ = trainer.programs()
    restored = None
    if checkpoints is not None:
        restored = checkpoints.restore(lambda checkpoint: restored_job(checkpoint, trainer, job, programs))
    if restored is None:
        job = job._replace(shares=job.asked_for)
        rounds, recorder = _new(trainer, job, programs)
        rounds.begin()
        if job.compile_seconds is not None:
            recorder.record_time("compile", 0, job.compile_seconds)
    else:
        rounds, recorder = restored
    count, probed = len(job.rounds), list[tuple[np.ndarray, Any]]()
    progress = ProgressReporter(recorder, rounds.configuration, job.rounds, listener)

    def report(segment: Segment) -> None:
        blocks = np.arange(segment.blocks_done - segment.log.reward.shape[1], segment.blocks_done)
        wanted = trainer.probe_at(blocks)
        rows = jax.tree.map(lambda leaf: leaf[:count, wanted], segment.log.probed)
        probed.append((blocks[wanted], rows))
        progress.report(segment.divergence, whole=segment.last, ended=segment.last)

    if rounds.active:
        train(rounds, recorder, report, most=trainer.segment_blocks, halt=stopping, checkpoints=checkpoints)
    else:
        listener(finished(int((rounds.divergence >= 0).sum())))
    return _results(trainer, job, rounds, recorder, probed) if rounds.blocks else []


def restored_job(
    checkpoint: Checkpoint, trainer: JobTrainer, job: Job, programs: Programs
) -> tuple[LaneRounds, Recorder]:
    """The job's rounds and their recorder from a checkpoint; an `InputError` if it is not its own."""
    rounds, recorder = _new(trainer, job, programs)
    restore(checkpoint, rounds, recorder)
    if rounds.active and len(job.asked_for) < len(job.shares):
        raise InputError("it has rounds of configurations that are not asked for")
    return rounds, recorder


def _new(trainer: JobTrainer, job: Job, programs: Programs) -> tuple[LaneRounds, Recorder]:
    first = trainer.configurations[0]
    each = [
        lane_numbers(first if share.place is None else trainer.configurations[share.place], len(share.rounds))
        for share in job.shares
    ]
    numbers = {name: np.concatenate([values[name] for values in each]) for name in each[0]}
    rounds = LaneRounds(first, programs, job.rounds, numbers=numbers, data=trainer.data, owners=job.owners)
    return rounds, Recorder(first, endings_of(trainer.task), len(job.rounds))


def _results(
    trainer: JobTrainer, job: Job, rounds: LaneRounds, recorder: Recorder, probed: list[tuple[np.ndarray, Any]]
) -> list[ShareResult]:
    policies, divergence, ring = rounds.policies(), rounds.divergence, rounds.lanes.ring
    best = {} if rounds.best is None else rounds.best.filled(policies)
    results, stop = [], 0
    for share in job.shares:
        start, stop = stop, stop + len(share.rounds)
        if share.place is None:
            continue
        lanes, fraction = slice(start, stop), len(share.rounds) / len(job.rounds)
        configuration = trainer.configurations[share.place]
        results.append(
            ShareResult(
                share.place,
                share.rounds.start,
                recorder.tables(
                    lanes, share.rounds, configuration, divergence, share=fraction, played=played_by(rounds, lanes)
                ),
                {path: array[lanes] for path, array in policies.items()},
                {path: array[lanes] for path, array in best.items()},
                not rounds.active,
                [(blocks, jax.tree.map(lambda leaf, w=lanes: leaf[w], rows)) for blocks, rows in probed],
                None if trainer.instruments.blocks_kept is None else np.array(ring[lanes]),
            )
        )
    return results
