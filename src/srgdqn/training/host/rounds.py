"""Rounds on the host, trained to their end: one after the other here, or shared out among processes or machines."""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import gymnasium as gym
import numpy as np

from srgdqn.adapters.environments import close
from srgdqn.adapters.failures import EnvironmentFailedError
from srgdqn.config import Configuration
from srgdqn.engines.executor import Executor, Lost, never, usable_cores
from srgdqn.engines.processes import Processes
from srgdqn.engines.threads import Threads
from srgdqn.errors import InputError
from srgdqn.learner.networks import NetworkFactory, make_network
from srgdqn.runs.checkpoint_manager import CheckpointManager, JobCheckpoints
from srgdqn.runs.checkpoints import Checkpoint
from srgdqn.runs.destination import disk_errors_reported
from srgdqn.runs.locks import LOCK, locked
from srgdqn.training.distribute import distribute
from srgdqn.training.host.gradient_noise import GradientNoise
from srgdqn.training.host.program import HostProgram, host_program
from srgdqn.training.host.round import HostRound
from srgdqn.training.host.steps import OpenSteps
from srgdqn.training.host.task import HostTask, make_player
from srgdqn.training.loop import Halt, Segment, played_by, restore, train
from srgdqn.training.recorder import Recorder
from srgdqn.training.reports import Listener, ProgressReporter, SharedProgress, finished
from srgdqn.training.rounds import Trained, merged
from srgdqn.training.tables import Tables


class RoundOutcome(NamedTuple):
    """What one round leaves."""

    number: int
    tables: Tables
    policies: dict[str, np.ndarray]
    whole: bool  # not cut short
    failure: str | None  # what its environment did wrong
    best: dict[str, np.ndarray] = {}  # noqa: RUF012  # the best policy, where it is kept


def train_on_host(
    configuration: Configuration,
    task: HostTask,
    user_network: eqx.Module | NetworkFactory | None = None,
    *,
    listener: Listener = lambda progress: None,
    workers: int | None = None,
    stop: threading.Event | None = None,
    measure_noise: bool = False,
    manager: CheckpointManager | None = None,
    executor: Executor | None = None,
) -> Trained:
    """Trains every round of the configuration on the executor: by default one round in the calling thread, several in
    `workers` processes (one per core).

    Ctrl-C ends the run after the present blocks, and what was reached is returned; so does setting `stop`.
    `measure_noise` is for loggers, and `manager` is where rounds are checkpointed, and resume from: see `train_round`.
    """
    rounds = configuration.training.rounds
    workers = min(workers or usable_cores(), rounds)
    executor = executor or (Threads(1) if workers == 1 else Processes(workers))
    if executor.remote:  # what is wrong with a network is found once, rather than by every process
        atoms = configuration.gradients.outputs_per_action
        make_network(configuration.network, task.network_input, task.actions.count, user_network, atoms=atoms)

    def work(number: int, listener: Listener, stop: threading.Event, manager: CheckpointManager | None) -> RoundOutcome:
        how: dict[str, Any] = dict(listener=listener, stopping=stop.is_set, manager=manager)
        return train_round(configuration, task, number, user_network, measure_noise=measure_noise, **how)

    def lost(number: int, lost: Lost) -> RoundOutcome:
        return RoundOutcome(number, {}, {}, False, f"the process that trained round {number} failed: {lost.reason}")

    shared = SharedProgress(listener, [1] * rounds)
    outcomes: list[RoundOutcome] = []
    interrupted = False
    try:
        for _, outcome in distribute(
            executor,
            work,
            range(rounds),
            [shared.of(number) for number in range(rounds)],
            names=[checkpoints_name(number) for number in range(rounds)],
            stopping=lambda: stop is not None and stop.is_set(),
            manager=manager,
            on_lost=lost,
        ):
            outcomes.append(outcome)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        if manager is not None:
            manager.flush()
    if interrupted and not outcomes:
        raise KeyboardInterrupt  # before any round had begun: there is nothing to return
    outcomes.sort(key=lambda outcome: outcome.number)
    whole = len(outcomes) == rounds and all(outcome.whole for outcome in outcomes)
    begun = [outcome for outcome in outcomes if outcome.tables]
    left = ([each.tables for each in begun], [each.policies for each in begun], [each.best for each in begun])
    trained = merged(*left, whole=whole)
    failures = {outcome.number: outcome.failure for outcome in outcomes if outcome.failure is not None}
    return trained._replace(failures=failures)


def train_round(
    configuration: Configuration,
    task: HostTask,
    number: int,
    user_network: eqx.Module | NetworkFactory | None = None,
    *,
    listener: Listener = lambda progress: None,
    stopping: Halt = never,
    measure_noise: bool = False,
    manager: CheckpointManager | None = None,
) -> RoundOutcome:
    """Trains round `number` until its budget is spent, it diverges, it is asked to stop, or its environment fails.

    `measure_noise`: measure that of the gradients for every report that is asked for. `manager`: where it is
    checkpointed, and resumes from.
    """
    start = time.perf_counter()
    program, fresh = host_program(configuration, task.network_input, task.actions.count, user_network)
    with contextlib.ExitStack() as ending:
        checkpoints = None if manager is None else ending.enter_context(round_checkpoints(manager, number))
        restored = None
        if checkpoints is not None:
            restored = checkpoints.restore(lambda each: restored_round(each, configuration, task, program, number))
        if restored is not None and not restored[0].active:
            listener(finished(int(restored[0].diverged_at is not None)))
            return outcome_of(*restored)
        begun = () if restored is None else restored[0].begun
        player, environments = make_player(configuration, task, number, begun)
        for environment in environments:
            ending.callback(close, environment, task.name)
        if restored is None:
            round_, recorder = (
                HostRound(configuration, task, program, player, number),
                Recorder(configuration, task.endings, 1),
            )
            round_.open_steps = None if checkpoints is None else OpenSteps(configuration.training.environments)
        else:
            round_, recorder = restored
            round_.resume_episodes(player)
        round_.evaluation_environment = evaluation_environment(task)
        if round_.evaluation_environment is not None:
            ending.callback(close, round_.evaluation_environment, task.name)
        if fresh:
            round_.compile()
            recorder.record_time("compile", round_.steps, time.perf_counter() - start)
        noise = GradientNoise(configuration, program.network).measure if measure_noise else None
        measure = None if noise is None else lambda: noise(round_)
        progress = ProgressReporter(recorder, configuration, [number], listener, measure_noise=measure)

        def report(segment: Segment) -> None:
            progress.report(segment.divergence, whole=segment.last)

        failure = None
        try:
            train(round_, recorder, report, halt=stopping, checkpoints=checkpoints)
        except EnvironmentFailedError as error:
            failure = str(error)
        progress.report(round_.divergence, whole=not round_.active, ended=True)
        return outcome_of(round_, recorder, failure)


def restored_round(
    checkpoint: Checkpoint, configuration: Configuration, task: HostTask, program: HostProgram, number: int
) -> tuple[HostRound, Recorder]:
    """A round, without its environments, and its recorder from a checkpoint; an `InputError` if it is not its own."""
    round_, recorder = HostRound(configuration, task, program, None, number), Recorder(configuration, task.endings, 1)
    restore(checkpoint, round_, recorder)
    return round_, recorder


def outcome_of(round_: HostRound, recorder: Recorder, failure: str | None = None) -> RoundOutcome:
    """What a round has come to by now."""
    given = (slice(0, 1), [round_.number], round_.configuration, round_.divergence)
    tables = recorder.tables(*given, played=played_by(round_, slice(0, 1))) if round_.blocks else {}
    policies = round_.policies()
    best = {} if round_.best is None else round_.best.filled(policies)
    return RoundOutcome(round_.number, tables, policies, not round_.active and failure is None, failure, best)


def evaluation_environment(task: HostTask) -> gym.Env | None:
    """Another copy of the environment; none, with a warning, where there can be no other."""
    try:
        return task.source.fresh()
    except InputError as error:
        warnings.warn(f"there are no evaluations: {error}", RuntimeWarning, stacklevel=2)
        return None


def checkpoints_name(number: int) -> str:
    """The name of a round's checkpoints."""
    return f"round-{number}"


@contextlib.contextmanager
def round_checkpoints(manager: CheckpointManager, number: int) -> Iterator[JobCheckpoints | None]:
    """The checkpoints of round `number`, for one process at a time; none, with a warning, where the disk refuses, or
    where a process that was left behind by a run which is gone still writes to them after a moment.
    """
    name = checkpoints_name(number)
    folder = manager.folder / name
    with contextlib.ExitStack() as stack:
        try:
            with disk_errors_reported(folder):
                folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(folder, what="a round"))
        except InputError as error:
            manager.warn_not_written(error)
            yield None
            return
        try:
            yield manager.job(name)
            manager.flush()  # its end is not to wait until the round may be somebody else's
        finally:
            with contextlib.suppress(OSError):  # where nothing can be removed, or as there is something in it
                (folder / LOCK).unlink(missing_ok=True)  # whoever waits for it finds another file, and tries again
                folder.rmdir()
