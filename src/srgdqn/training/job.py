"""A strand of compiled rounds: a chunk, trained from where it stands to its end, and kept on the way."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from srgdqn.config import Configuration
from srgdqn.errors import InputError
from srgdqn.learner.networks import NetworkFactory, Parameters
from srgdqn.learner.normalisation import Normaliser
from srgdqn.runs.checkpoint_manager import Strand
from srgdqn.runs.checkpoints import Checkpoint
from srgdqn.runs.configurations import dumps
from srgdqn.runs.trees import by_path
from srgdqn.tasks import Task
from srgdqn.training.chunk import Resumed, Segment, train_chunk
from srgdqn.training.chunk_checkpoint import (
    Seats,
    Standing,
    seats_of,
    snapshot,
    standing_of,
)
from srgdqn.training.lane import PLAIN, Instruments, Lane
from srgdqn.training.parts import Part, PartResult, taken
from srgdqn.training.program import SEGMENT_BLOCKS, Numbers, Programs, lane_numbers, programs_for
from srgdqn.training.recorder import Recorder
from srgdqn.training.reports import Listener, ProgressReporter, finished
from srgdqn.training.tables import endings_of

Choice = Callable[[np.ndarray], np.ndarray]
"""From numbers of blocks to whether each one's probed row is kept."""


def every_block(blocks: np.ndarray) -> np.ndarray:
    """Keeps the probed rows of all blocks."""
    return np.ones(len(blocks), bool)


class Job(NamedTuple):
    """Rounds that run side by side, and everything that training them needs, wherever that is done."""

    seats: Seats  # whose rounds sit in the chunk
    parts: tuple[Part, ...]  # of which these are asked for
    configurations: tuple[Configuration, ...]  # of each part
    task: Task
    network: eqx.Module | NetworkFactory | None  # the user's own
    segment_blocks: int = SEGMENT_BLOCKS
    instruments: Instruments = PLAIN
    data: Any = None  # for the instruments' source of batches
    probe_at: Choice = every_block
    kept_as: str | None = None  # the strand that it goes on from, which may have been begun for more seats

    @property
    def name(self) -> str:
        """What its strand is called: for one that begins, that depends on whose rounds they are alone."""
        if self.kept_as is not None:
            return self.kept_as
        if len(self.seats) == 1:
            who, first, stop = self.seats[0]
            return f"rounds-{first}-{stop - 1}-{who}"
        return f"rounds-{hashlib.sha256(json.dumps(self.seats).encode()).hexdigest()[:12]}"

    def asked_for(self) -> Job:
        """The same without seats that nobody asks for."""
        whose = zip(map(identity, self.configurations), self.parts, strict=True)
        seats = [(who, part.rounds.start, part.rounds.stop) for who, part in whose]
        ends = itertools.accumulate(len(part.rounds) for part in self.parts)
        moved = (part._replace(seats=slice(e - len(part.rounds), e)) for part, e in zip(self.parts, ends, strict=True))
        return self._replace(seats=seats, parts=tuple(moved))

    @property
    def rounds(self) -> list[int]:
        """The numbers of the rounds on its seats."""
        return [number for _, first, stop in self.seats for number in range(first, stop)]


def identity(configuration: Configuration) -> str:
    """By what the rounds of a configuration are known again."""
    return hashlib.sha256(dumps(configuration).encode()).hexdigest()[:16]


def train_strand(
    job: Job,
    *,
    listener: Listener = lambda progress: None,
    stopping: Callable[[], bool] = lambda: False,
    strand: Strand | None = None,
    timings: Sequence[tuple[str, int, float]] = (),
) -> list[PartResult]:
    """Trains the job's rounds until their budget is spent, none is active, or it is told to stop; what was reached is
    returned in any case, and nothing if that is nothing.

    Where there is a `strand`, they go on from its newest good checkpoint, and are kept in it when it is time, when they
    are told to stop, and at their end. `timings` are of what was done before.
    """
    first = job.configurations[0]
    programs, _ = programs_for(first, job.task, job.network, job.instruments, job.data)
    restored = None if strand is None else strand.restore(lambda checkpoint: _standing(checkpoint, job, programs))
    if restored is None:
        job = job.asked_for()
    chunk = _Chunk(job, restored, timings)
    if chunk.last:
        listener(finished(chunk.diverged))
    else:
        progress = ProgressReporter(chunk.recorder, first, job.rounds, listener)
        resumed = None if restored is None else Resumed(restored.blocks_done, restored.lanes)
        chunk.train(_segments(job, programs, resumed), progress, stopping, strand)
    return chunk.results()


def policy_arrays(parameters: Parameters, normaliser: Normaliser) -> dict[str, np.ndarray]:
    """A network's parameters, and the statistics its observations are normalised with, by path."""
    return by_path({"network": parameters, "normaliser": normaliser.observations})


class _Chunk:
    """What the host knows of a chunk that is being trained."""

    def __init__(self, job: Job, restored: Standing | None, timings: Sequence[tuple[str, int, float]]) -> None:
        self._job, self._count = job, len(job.rounds)
        self._block = job.configurations[0].training.learning_frequency
        self.recorder = _recorder(job) if restored is None else restored.recorder
        for timing in timings if restored is None else ():
            self.recorder.record_time(*timing)
        self._blocks_done = 0 if restored is None else restored.blocks_done
        self.last = restored is not None and restored.last
        self._lanes: Lane | None = None if restored is None else restored.lanes
        self._probed: list[tuple[np.ndarray, Any]] = []

    def train(
        self, segments: Any, progress: ProgressReporter, stopping: Callable[[], bool], strand: Strand | None
    ) -> None:
        """Runs segments to the end, or until it is told to stop."""
        if stopping():
            return
        for segment in segments:
            self._hear(segment)
            progress.report(np.asarray(segment.lanes.diverged_at), whole=segment.last, ended=segment.last)
            stop = stopping()
            if strand is not None and segment.last:
                self._finish(strand, segment)
            elif strand is not None and (stop or strand.due()):
                seconds = strand.save(self._snapshot(segment.on_host()))
                self.recorder.record_time("checkpoint", self._blocks_done * self._block, seconds)
            if stop:
                return

    def _finish(self, strand: Strand, segment: Segment) -> None:
        end = self._snapshot(segment.on_host())  # made now, as replays, which it does not need, are not to wait for it
        strand.finish(lambda: end)

    def _hear(self, segment: Segment) -> None:
        steps = segment.blocks_done * self._block
        blocks = np.arange(segment.blocks_done - segment.log.reward.shape[1], segment.blocks_done)
        chosen = self._job.probe_at(blocks)
        rows = jax.tree.map(lambda leaf: leaf[: self._count, chosen], segment.log.probed)
        self._probed.append((blocks[chosen], rows))
        self.recorder.record(segment.log)
        self.recorder.record_time("train", steps, segment.train_seconds)
        if segment.evaluation is not None:
            self.recorder.record_evaluation(segment.blocks_done, segment.evaluation, last=segment.last)
            self.recorder.record_time("evaluate", steps, segment.evaluate_seconds)
        self._blocks_done, self._lanes, self.last = segment.blocks_done, segment.lanes, segment.last

    def _snapshot(self, lanes: Lane) -> Any:
        standing = Standing(self._blocks_done, self.last, lanes, self.recorder)
        return snapshot(standing, self._job.seats, self._block)

    @property
    def diverged(self) -> int:
        """The rounds that went non-finite."""
        return 0 if self._lanes is None else int((np.asarray(self._lanes.diverged_at)[: self._count] >= 0).sum())

    def results(self) -> list[PartResult]:
        """What the parts that are asked for came to."""
        lanes = self._lanes
        if lanes is None:
            return []
        diverged_at = np.asarray(lanes.diverged_at)
        results = []
        for part, configuration in zip(self._job.parts, self._job.configurations, strict=True):
            share = len(part.rounds) / self._count
            tables = self.recorder.tables(part.seats, part.rounds, configuration, diverged_at, share=share)
            stored = policy_arrays(lanes.learner.parameters, lanes.normaliser)
            policies = {path: array[part.seats] for path, array in stored.items()}
            probed = [(blocks, taken(rows, part.seats)) for blocks, rows in self._probed]
            ring = None if self._job.instruments.blocks_kept is None else np.array(lanes.ring[part.seats])
            results.append(PartResult(part, tables, policies, self.last, probed, ring))
        return results


def _segments(job: Job, programs: Programs, resumed: Resumed | None) -> Any:
    return train_chunk(
        job.configurations[0],
        programs,
        job.rounds,
        numbers=_numbers([(each, len(part.rounds)) for each, part in zip(job.configurations, job.parts, strict=True)]),
        data=job.data,
        segment_blocks=job.segment_blocks,
        resumed=resumed,
    )


def _numbers(seated: Sequence[tuple[Configuration, int]]) -> Numbers:
    """The numbers of so many rounds of each configuration, one value per round."""
    each = [lane_numbers(configuration, rounds) for configuration, rounds in seated]
    return {name: np.concatenate([numbers[name] for numbers in each]) for name in each[0]}


def _recorder(job: Job) -> Recorder:
    return Recorder(job.configurations[0], endings_of(job.task), len(job.rounds))


def _standing(checkpoint: Checkpoint, job: Job, programs: Programs) -> Standing:
    if seats_of(checkpoint) != job.seats:
        raise InputError("it has other rounds")
    standing = standing_of(checkpoint, programs.form, _recorder(job), len(job.rounds))
    if not standing.last and len(job.parts) < len(job.seats):
        raise InputError("it has rounds of configurations that are not asked for")
    return standing
