"""One round trained from its beginning to its end: blocks, evaluations, reports, and whatever goes wrong."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import gymnasium as gym
import jax
import numpy as np

from srgdqn.adapters.environments import close
from srgdqn.adapters.failures import EnvironmentFailedError
from srgdqn.config import Configuration
from srgdqn.errors import InputError
from srgdqn.learner.networks import NetworkFactory
from srgdqn.runs.checkpoint_manager import Keeping, Strand
from srgdqn.runs.checkpoints import Checkpoint, Snapshot
from srgdqn.training.chunk import evaluation_due
from srgdqn.training.evaluation import Evaluation
from srgdqn.training.host.checkpoint import (
    Records,
    RoundStanding,
    enter_again,
    no_records,
    round_snapshot,
    round_standing,
)
from srgdqn.training.host.evaluation import judge
from srgdqn.training.host.gradient_noise import GradientNoise
from srgdqn.training.host.program import HostProgram, host_program
from srgdqn.training.host.round import HostRound
from srgdqn.training.host.round_lock import occupied_strand
from srgdqn.training.host.step_log import MOST_BLOCKS
from srgdqn.training.host.task import HostTask, make_player
from srgdqn.training.job import identity, policy_arrays
from srgdqn.training.lane import TERMINATED, TRUNCATED
from srgdqn.training.reports import Listener, ProgressReporter, finished
from srgdqn.training.tables import Tables


class RoundOutcome(NamedTuple):
    """What one round leaves."""

    number: int
    tables: Tables
    policies: dict[str, np.ndarray]
    whole: bool  # not cut short
    failure: str | None  # what its environment did wrong


def train_round(
    configuration: Configuration,
    task: HostTask,
    number: int,
    user_network: eqx.Module | NetworkFactory | None = None,
    *,
    listener: Listener = lambda progress: None,
    stopping: Callable[[], bool] = lambda: False,
    measure_noise: bool = False,
    keeping: Keeping | None = None,
) -> RoundOutcome:
    """Trains round `number` until its budget is spent, it diverges, it is told to stop, or its environment fails.

    `measure_noise`: measure that of the gradients for every report that is asked for. `keeping`: it goes on from where
    it was last kept, and is kept when it is time, when it is told to stop, and at its end.
    """
    start = time.perf_counter()
    program, fresh = host_program(configuration, task.network_input, task.actions.count, user_network)
    with contextlib.ExitStack() as ending:
        strand = None if keeping is None else ending.enter_context(occupied_strand(keeping, number))
        standing = None if strand is None else strand.restore(_Restoring(configuration, task, program, number))
        if standing is not None and standing.last:
            round_, records = standing.round_, standing.records
            listener(finished(int(round_.diverged_at is not None)))
            return RoundOutcome(number, _tables(round_, records), _policy(round_), whole=True, failure=None)
        player, environments = make_player(configuration, task, number, () if standing is None else standing.begun)
        for environment in environments:
            ending.callback(close, environment, task.name)
        judged = _judging_copy(configuration, task)
        if judged is not None:
            ending.callback(close, judged, task.name)
        if standing is None:
            round_ = HostRound(configuration, task, program, player, number)
            records = no_records(configuration, task.endings)
        else:
            round_, records = standing.round_, standing.records
            enter_again(standing, player)
        if fresh:
            round_.compile()
            records.recorder.record_time("compile", round_.steps, time.perf_counter() - start)
        noise = GradientNoise(configuration, program.network).measure if measure_noise else None
        progress = ProgressReporter(
            records.recorder,
            configuration,
            [number],
            listener,
            measure_noise=None if noise is None else lambda: noise(round_),
        )
        life = _Life(round_, records, progress, judged, strand)
        failure = life.live(stopping)
        return RoundOutcome(number, _tables(round_, records), _policy(round_), life.whole, failure)


class _Restoring:
    """From a checkpoint to where the round stood."""

    def __init__(self, configuration: Configuration, task: HostTask, program: HostProgram, number: int) -> None:
        self._given = configuration, task, program, number

    def __call__(self, checkpoint: Checkpoint) -> RoundStanding:
        configuration, task, program, number = self._given
        round_ = HostRound(configuration, task, program, None, number)
        return round_standing(checkpoint, round_, identity(configuration))


class _Life:
    """A round from where it stands to its end, with all that is done on the way."""

    def __init__(
        self,
        round_: HostRound,
        records: Records,
        progress: ProgressReporter,
        judged: gym.Env | None,
        strand: Strand | None,
    ) -> None:
        self._round, self._records, self._progress = round_, records, progress
        self._judged, self._strand = judged, strand
        self._since = time.perf_counter()
        self.whole = False  # whether it has come to its end

    def live(self, stopping: Callable[[], bool]) -> str | None:
        """Lives block by block; what its environment did wrong, in words, if that ended it."""
        round_, strand, begun = self._round, self._strand, self._round.blocks
        assert round_.player is not None
        failure = None
        try:
            round_.player.check_spaces(round_.steps)
            self._since = time.perf_counter()
            while round_.active and not stopping():
                round_.live_block()
                due = not round_.active or evaluation_due(round_.configuration, round_.blocks)
                if due:
                    self._take_stock()
                now = self._progress.due(anyway=due)
                if now or len(round_.step_log) >= MOST_BLOCKS:
                    self._record()
                if now:
                    self._report()
                if now and strand is not None and strand.due() and round_.active:
                    self._keep(strand)
            self.whole = not round_.active
        except EnvironmentFailedError as error:
            failure = str(error)
        self._record()
        self._report(ended=True)
        if strand is not None and self.whole:
            end = self._snapshot()  # made now, as the memory that it does not need is not to wait for it
            strand.finish(lambda: end)
        elif strand is not None and failure is None and round_.blocks > begun:
            self._keep(strand)
        return failure

    def _report(self, *, ended: bool = False) -> None:
        self._progress.report(_diverged_at(self._round), whole=not self._round.active, ended=ended)

    def _take_stock(self) -> None:
        """Notes the time, and judges the policy."""
        round_, recorder = self._round, self._records.recorder
        assert round_.player is not None
        round_.player.check_spaces(round_.steps)
        self._note_time()
        if self._judged is not None:
            played = _judge(round_, self._judged)
            recorder.record_evaluation(round_.blocks, played, last=not round_.active)
            recorder.record_time("evaluate", round_.steps, time.perf_counter() - self._since)
        self._since = time.perf_counter()

    def _note_time(self) -> None:
        now = time.perf_counter()
        self._records.recorder.record_time("train", self._round.steps, now - self._since)
        self._since = now

    def _record(self) -> None:
        """Records the newest blocks."""
        log = self._round.step_log
        if self._strand is not None:
            ended = (log["flags"] & (TERMINATED | TRUNCATED)) > 0
            steps = (part.ravel() for part in (log["action"], log["reward"], ended, log["seats"]))
            self._records.trail.write(*steps)
        log.record(self._records.recorder)

    def _snapshot(self) -> Snapshot:
        return round_snapshot(self._round, self._records, identity(self._round.configuration), last=self.whole)

    def _keep(self, strand: Strand) -> None:
        self._note_time()
        self._record()
        seconds = strand.save(self._snapshot())
        self._records.recorder.record_time("checkpoint", self._round.steps, seconds)
        self._since = time.perf_counter()


def _tables(round_: HostRound, records: Records) -> Tables:
    if not round_.blocks:
        return {}
    return records.recorder.tables(slice(0, 1), [round_.number], round_.configuration, _diverged_at(round_))


def _diverged_at(round_: HostRound) -> np.ndarray:
    return np.array([-1 if round_.diverged_at is None else round_.diverged_at])


def _policy(round_: HostRound) -> dict[str, np.ndarray]:
    arrays = policy_arrays(round_.learner.parameters, round_.normaliser)
    return {path: array[None] for path, array in arrays.items()}


def _judging_copy(configuration: Configuration, task: HostTask) -> gym.Env | None:
    """Another copy of the environment to be judged in; none, with a warning, where there can be no other."""
    try:
        return task.source.fresh()
    except InputError as error:
        warnings.warn(f"there are no evaluations: {error}", RuntimeWarning, stacklevel=2)
        return None


def _judge(round_: HostRound, environment: gym.Env) -> Evaluation:
    settings, task = round_.configuration.training, round_.task
    played = judge(
        environment,
        task.name,
        task.observations,
        task.actions,
        round_.policy,
        seed=settings.seed,
        episodes=settings.evaluation_episodes,
        limit=task.evaluation_limit,
    )
    return jax.tree.map(lambda leaf: leaf[None], played)
