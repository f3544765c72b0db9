"""One round trained from its beginning to its end: blocks, evaluations, reports, and whatever goes wrong."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import gymnasium as gym
import jax
import numpy as np

from srgdqn.errors import InputError
from srgdqn.host.environments import close
from srgdqn.host.failures import EnvironmentFailedError
from srgdqn.host.gradient_noise import GradientNoise
from srgdqn.host.judging import judge
from srgdqn.host.program import host_program
from srgdqn.host.reporting import RoundReports
from srgdqn.host.round import HostRound
from srgdqn.host.task import HostTask, make_player
from srgdqn.host.telling import Telling
from srgdqn.networks import NetworkFactory
from srgdqn.settings import Configuration
from srgdqn.training.chunk import evaluation_due
from srgdqn.training.evaluation import Evaluation
from srgdqn.training.records import ChunkHistory, Tables, chunk_tables
from srgdqn.training.rounds import Listener, policy_arrays


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
) -> RoundOutcome:
    """Trains round `number` until its budget is spent, it diverges, it is told to stop, or its environment fails.

    `measure_noise`: measure that of the gradients for every report that is asked for.
    """
    start = time.perf_counter()
    program, fresh = host_program(configuration, task.network_input, task.actions.count, user_network)
    player, environments = make_player(configuration, task, number)
    judged: gym.Env | None = None
    timings: list[tuple[str, int, float]] = []
    evaluations: list[tuple[int, bool, Evaluation]] = []
    failure, whole = None, False
    try:
        judged = _judging_copy(configuration, task)
        round_ = HostRound(configuration, task, program, player, number)
        if fresh:
            round_.compile()
            timings.append(("compile", 0, time.perf_counter() - start))
        noise = GradientNoise(configuration, program.network) if measure_noise else None
        reports = RoundReports(round_, noise)
        telling = Telling(round_, reports, listener)
        try:
            player.check_spaces(0)
            since = time.perf_counter()
            while round_.active and not stopping():
                round_.live_block()
                due = not round_.active or evaluation_due(configuration, round_.blocks)
                if due:
                    player.check_spaces(round_.steps)
                    timings.append(("train", round_.steps, time.perf_counter() - since))
                    if judged is not None:
                        begun = time.perf_counter()
                        played = _judge(configuration, task, judged, round_)
                        evaluations.append((round_.blocks, not round_.active, played))
                        reports.judged(np.asarray(played.total_reward[0]), np.asarray(played.length[0]))
                        timings.append(("evaluate", round_.steps, time.perf_counter() - begun))
                    since = time.perf_counter()
                telling.tell(everything=due)
            whole = not round_.active
        except EnvironmentFailedError as error:
            failure = str(error)
        telling.tell(ended=True)
        tables = _tables(configuration, task, round_, evaluations, timings) if round_.blocks else {}
        return RoundOutcome(number, tables, _policy(round_), whole, failure)
    finally:
        for environment in [*environments, *([] if judged is None else [judged])]:
            close(environment, task.name)


def _tables(
    configuration: Configuration,
    task: HostTask,
    round_: HostRound,
    evaluations: list[tuple[int, bool, Evaluation]],
    timings: list[tuple[str, int, float]],
) -> Tables:
    diverged_at = np.array([-1 if round_.diverged_at is None else round_.diverged_at])
    history = ChunkHistory(round_.diary.log(), evaluations, diverged_at, timings, round_.diary.seats[None])
    return chunk_tables(configuration, task.endings, [round_.number], history)


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


def _judge(configuration: Configuration, task: HostTask, environment: gym.Env, round_: HostRound) -> Evaluation:
    settings = configuration.training
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
