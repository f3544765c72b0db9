"""A job: compiled rounds that an engine trains together, and everything that this needs."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from srgdqn.config import Configuration
from srgdqn.errors import InputError
from srgdqn.learner.networks import NetworkFactory
from srgdqn.runs.checkpoint_manager import JobCheckpoints
from srgdqn.runs.checkpoints import Checkpoint
from srgdqn.tasks import Task
from srgdqn.training.job_split import Share, Shares
from srgdqn.training.lane import PLAIN, Instruments
from srgdqn.training.lanes import LaneRounds
from srgdqn.training.loop import Halt, Owners, Segment, never, restore, train
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
    """Rounds that train together, and everything that training them needs, wherever that is done."""

    shares: Shares  # whose rounds they are
    configurations: tuple[Configuration, ...]  # of the shares that are asked for
    task: Task
    network: eqx.Module | NetworkFactory | None  # the user's own
    segment_blocks: int = SEGMENT_BLOCKS
    instruments: Instruments = PLAIN
    data: Any = None  # for the instruments' source of batches
    probe_at: Choice = every_block
    saved_as: str | None = None  # the name of its checkpoints, which may have been begun for more shares

    @property
    def owners(self) -> Owners:
        """Whose rounds they are, as a checkpoint says it."""
        return [(share.identity, share.rounds.start, share.rounds.stop) for share in self.shares]

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

    def results_of(self) -> Iterator[tuple[Share, slice, Configuration]]:
        """The shares that are asked for, where their rounds are among all, and their configurations."""
        ends = itertools.accumulate(len(share.rounds) for share in self.shares)
        where = [(each, slice(e - len(each.rounds), e)) for each, e in zip(self.shares, ends, strict=True)]
        asked = [(share, lanes) for share, lanes in where if share.place is not None]
        for (share, lanes), configuration in zip(asked, self.configurations, strict=True):
            yield share, lanes, configuration


class ShareResult(NamedTuple):
    """What the rounds of one configuration in a job left."""

    share: Share
    tables: Tables
    policies: dict[str, np.ndarray]
    whole: bool  # not cut short
    probed: list[tuple[np.ndarray, Any]]  # numbers of blocks, and their rows
    ring: np.ndarray | None = None  # where it is a recording


def train_job(
    job: Job,
    *,
    listener: Listener = lambda progress: None,
    stopping: Halt = never,
    checkpoints: JobCheckpoints | None = None,
    timings: Sequence[tuple[str, int, float]] = (),
) -> list[ShareResult]:
    """Trains the job's rounds until their budget is spent, none is active, or it is asked to stop; what was reached is
    returned in any case, and nothing if that is nothing.

    They resume from the newest good one of `checkpoints`. `timings` are of what was done before.
    """
    programs, _ = programs_for(job.configurations[0], job.task, job.network, job.instruments, job.data)
    restored = None
    if checkpoints is not None:
        restored = checkpoints.restore(lambda checkpoint: restored_job(checkpoint, job, programs))
    if restored is None:
        job = job._replace(shares=job.asked_for)
        rounds, recorder = _new(job, programs)
        rounds.begin()
        for timing in timings:
            recorder.record_time(*timing)
    else:
        rounds, recorder = restored
    count, probed = len(job.rounds), list[tuple[np.ndarray, Any]]()
    progress = ProgressReporter(recorder, job.configurations[0], job.rounds, listener)

    def report(segment: Segment) -> None:
        blocks = np.arange(segment.blocks_done - segment.log.reward.shape[1], segment.blocks_done)
        wanted = job.probe_at(blocks)
        rows = jax.tree.map(lambda leaf: leaf[:count, wanted], segment.log.probed)
        probed.append((blocks[wanted], rows))
        progress.report(segment.divergence, whole=segment.last, ended=segment.last)

    if rounds.active:
        train(rounds, recorder, report, most=job.segment_blocks, halt=stopping, checkpoints=checkpoints)
    else:
        listener(finished(int((rounds.divergence >= 0).sum())))
    return _results(job, rounds, recorder, probed) if rounds.blocks else []


def restored_job(checkpoint: Checkpoint, job: Job, programs: Programs) -> tuple[LaneRounds, Recorder]:
    """The job's rounds and their recorder from a checkpoint; an `InputError` if it is not its own."""
    rounds, recorder = _new(job, programs)
    restore(checkpoint, rounds, recorder)
    if rounds.active and len(job.asked_for) < len(job.shares):
        raise InputError("it has rounds of configurations that are not asked for")
    return rounds, recorder


def _new(job: Job, programs: Programs) -> tuple[LaneRounds, Recorder]:
    first, asked = job.configurations[0], iter(job.configurations)
    of_shares = [first if share.place is None else next(asked) for share in job.shares]
    each = [lane_numbers(of, len(share.rounds)) for of, share in zip(of_shares, job.shares, strict=True)]
    numbers = {name: np.concatenate([values[name] for values in each]) for name in each[0]}
    rounds = LaneRounds(first, programs, job.rounds, numbers=numbers, data=job.data, owners=job.owners)
    return rounds, Recorder(first, endings_of(job.task), len(job.rounds))


def _results(
    job: Job, rounds: LaneRounds, recorder: Recorder, probed: list[tuple[np.ndarray, Any]]
) -> list[ShareResult]:
    policies, divergence, ring = rounds.policies(), rounds.divergence, rounds.lanes.ring
    results = []
    for share, lanes, configuration in job.results_of():
        fraction = len(share.rounds) / len(job.rounds)
        results.append(
            ShareResult(
                share,
                recorder.tables(lanes, share.rounds, configuration, divergence, share=fraction),
                {path: array[lanes] for path, array in policies.items()},
                not rounds.active,
                [(blocks, jax.tree.map(lambda leaf, w=lanes: leaf[w], rows)) for blocks, rows in probed],
                None if job.instruments.blocks_kept is None else np.array(ring[lanes]),
            )
        )
    return results
