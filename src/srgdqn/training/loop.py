"""The training loop: rounds advance a segment at a time, and are recorded, evaluated, reported and checkpointed.

What the rounds run on is behind a small protocol, `Rounds`: lanes of a compiled program or teams of the kernel
(`srgdqn.training.lanes`), or one round in a Gymnasium environment (`srgdqn.training.host.round`).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np

from srgdqn.adapters.failures import EnvironmentFailedError
from srgdqn.config import Configuration
from srgdqn.engines.executor import never
from srgdqn.errors import InputError
from srgdqn.learner.networks import Parameters
from srgdqn.learner.normalisation import Normaliser
from srgdqn.learner.outer_iteration import evaluates_others
from srgdqn.runs.checkpoint_manager import JobCheckpoints
from srgdqn.runs.checkpoints import Checkpoint
from srgdqn.runs.configurations import dumps
from srgdqn.runs.snapshots import Saveable, Snapshot, Tensors, by_path, restore_from, snapshot_of
from srgdqn.training.best_policies import BestPolicies, Played
from srgdqn.training.budget import evaluation_due, next_stop
from srgdqn.training.direction_errors import DirectionErrors
from srgdqn.training.evaluation import Evaluation
from srgdqn.training.lane import BlockLog
from srgdqn.training.program import SEGMENT_BLOCKS
from srgdqn.training.recorder import Recorder

Owners = list[tuple[str, int, int]]
"""Whose rounds train together: of each configuration its digest, its first round, and the one after its last."""

Halt = Callable[[], bool]


class Rounds(Protocol):
    """Rounds that advance together. Arrays have an axis of rounds first, which spare lanes may follow."""

    configuration: Configuration
    blocks: int  # done
    best: BestPolicies | None  # where they are kept

    @property
    def owners(self) -> Owners:
        """Whose rounds they are."""

    @property
    def active(self) -> bool:
        """Whether any of them has neither spent its budget nor diverged."""

    @property
    def divergence(self) -> np.ndarray:
        """The environment steps at which each diverged; -1 for those that did not."""

    @property
    def log(self) -> BlockLog:
        """What the blocks of the last `advance` left behind. It is valid until the next one."""

    @property
    def environments(self) -> np.ndarray | None:
        """Which environment each of those steps was made in, where a round has several."""

    def advance(self, stop: int, halt: Halt = never) -> None:
        """Runs blocks until `stop` are done, or fewer; none where it is to halt at once."""

    def evaluate(self, *, everyone: bool) -> Evaluation | None:
        """Greedy episodes of all rounds, or of the active ones; None where there is nothing to play them in."""

    def direction_errors(self, *, everyone: bool) -> DirectionErrors:
        """How far directions are from the gradient, of the same rounds; NaN where there is none."""

    def policies(self) -> Tensors:
        """What the greedy policies are made of, by path."""

    def acting_policies(self) -> Tensors | None:
        """The same of the parameters that act, where others are evaluated in their place."""

    def play_afresh(self, policies: Tensors) -> Evaluation | None:
        """Greedy episodes of all rounds with such policies, from fresh starts; None where none can be played."""

    def states(self, *, last: bool) -> dict[str, Saveable]:
        """What a checkpoint holds of them. After the last block nobody needs their replays any more."""


class Segment(NamedTuple):
    """What some blocks of all rounds gave. Its arrays are valid until the next segment."""

    blocks_done: int  # since the start
    log: BlockLog
    environments: np.ndarray | None
    evaluation: Evaluation | None  # greedy, after the segment, where one was due
    divergence: np.ndarray
    train_seconds: float
    evaluate_seconds: float
    last: bool
    directions: DirectionErrors | None = None  # measured at the same time, where they are asked for
    measure_seconds: float = 0.0
    failure: EnvironmentFailedError | None = None  # what ended the segment, or its evaluation


def segments(rounds: Rounds, *, most: int = SEGMENT_BLOCKS, halt: Halt = never) -> Iterator[Segment]:
    """Advances rounds by at most so many blocks at a time until none is active, or they are halted.

    What an environment does wrong is raised after the segment with the blocks before it.
    """
    settings = rounds.configuration.training
    while rounds.active:
        before, failure, evaluation, directions = rounds.blocks, None, None, None
        times = [time.perf_counter()]
        try:
            rounds.advance(next_stop(settings, before, most), halt)
            times.append(time.perf_counter())
            if rounds.blocks > before and (not rounds.active or evaluation_due(settings, rounds.blocks)):
                # A round that has stopped is evaluated once, when all have.
                evaluation = rounds.evaluate(everyone=not rounds.active)
                if rounds.best is not None:
                    if evaluation is not None:
                        rounds.best.offer(rounds.blocks, np.asarray(evaluation.total_reward))
                    if not rounds.active:
                        rounds.best.play_afresh(rounds)
                times.append(time.perf_counter())
                if settings.direction_errors:
                    directions = rounds.direction_errors(everyone=not rounds.active)
        except EnvironmentFailedError as error:
            failure = error
        if rounds.blocks > before:
            start, trained, evaluated, measured = *times, *[time.perf_counter()] * (4 - len(times))
            given = (rounds.log, rounds.environments, evaluation, rounds.divergence, trained - start)
            yield Segment(
                rounds.blocks,
                *given,
                evaluated - trained,
                last=not rounds.active,
                directions=directions,
                measure_seconds=measured - evaluated,
                failure=failure,
            )
        if failure is not None:
            raise failure
        if rounds.blocks == before:
            return


def record(recorder: Recorder, segment: Segment) -> None:
    """Records a segment, its evaluation and how long they took."""
    recorder.record(segment.log, segment.environments)
    recorder.record_time("train", recorder.steps, segment.train_seconds)
    if segment.evaluation is not None:
        recorder.record_evaluation(segment.blocks_done, segment.evaluation, last=segment.last)
        recorder.record_time("evaluate", recorder.steps, segment.evaluate_seconds)
    if segment.directions is not None:
        recorder.record_directions(segment.blocks_done, segment.directions, last=segment.last)
        recorder.record_time("measure", recorder.steps, segment.measure_seconds)


def train(
    rounds: Rounds,
    recorder: Recorder,
    report: Callable[[Segment], None],
    *,
    most: int = SEGMENT_BLOCKS,
    halt: Halt = never,
    checkpoints: JobCheckpoints | None = None,
) -> None:
    """Trains rounds until none is active, or they are halted; what an environment does wrong is raised.

    They are checkpointed when it is time, when they are halted, and at their end.
    """
    saved = rounds.blocks

    def save(checkpoints: JobCheckpoints) -> None:
        nonlocal saved
        seconds, saved = checkpoints.save(snapshot(rounds, recorder)), rounds.blocks
        recorder.record_time("checkpoint", recorder.steps, seconds)

    for segment in segments(rounds, most=most, halt=halt):
        record(recorder, segment)
        report(segment)
        if checkpoints is None or segment.failure is not None:
            continue
        if segment.last:
            checkpoints.finish(snapshot(rounds, recorder))
        elif checkpoints.due():
            save(checkpoints)
    if checkpoints is not None and rounds.active and rounds.blocks > saved:
        save(checkpoints)


def snapshot(rounds: Rounds, recorder: Recorder) -> Snapshot:
    """What a checkpoint of rounds holds."""
    last = not rounds.active
    about = {"rounds": [list(owner) for owner in rounds.owners], "last": last}
    return snapshot_of(about, {**rounds.states(last=last), "records": recorder})


def restore(checkpoint: Checkpoint, rounds: Rounds, recorder: Recorder) -> None:
    """Restores rounds that have not begun, and their recorder; an `InputError` if the checkpoint is not theirs."""
    if owners_of(checkpoint) != rounds.owners:
        raise InputError("it is of other rounds, or of another configuration")
    _, last = position_of(checkpoint)
    restore_from(checkpoint, {**rounds.states(last=last), "records": recorder})
    if recorder.blocks != rounds.blocks or last == rounds.active:
        raise InputError("it is none of this configuration's (it lacks some of what was there)")


def owners_of(checkpoint: Checkpoint) -> Owners:
    """Whose rounds a checkpoint is of."""
    try:
        owners = [(str(who), int(first), int(stop)) for who, first, stop in checkpoint.about["rounds"]]
        if not owners or not all(0 <= first < stop for _, first, stop in owners):
            raise ValueError("it has none")
        return owners
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"it does not say whose rounds it has ({error})") from error


def position_of(checkpoint: Checkpoint) -> tuple[int, bool]:
    """The blocks that the rounds of a checkpoint had done, and whether that was all."""
    blocks, last = checkpoint.tensors.get("state.blocks"), checkpoint.about.get("last")
    if blocks is None or blocks.shape != () or blocks.dtype != np.int64 or type(last) is not bool:
        raise InputError("it does not say how far it is")
    if not 0 <= blocks < 2**31:
        raise InputError("it does not say how far it is")
    return int(blocks), last


def configuration_digest(configuration: Configuration) -> str:
    """What a checkpoint knows a configuration by."""
    return hashlib.sha256(dumps(configuration).encode()).hexdigest()[:16]


def played_by(rounds: Rounds, lanes: slice) -> list[Played] | None:
    """What became of the policies of some of the rounds; None where the best are not kept."""
    if rounds.best is None:
        return None
    return rounds.best.played(rounds.blocks, lanes, acting=evaluates_others(rounds.configuration))


def policy_arrays(parameters: Parameters, normaliser: Normaliser) -> Tensors:
    """A network's parameters, and the statistics its observations are normalised with, by path."""
    return by_path({"network": parameters, "normaliser": normaliser.observations})
