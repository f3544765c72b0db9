"""All rounds of a run on the host: one after the other here, or shared out among processes or machines."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import numpy as np

from srgdqn.config import Configuration
from srgdqn.engines.executor import Executor, Lost, usable_cores
from srgdqn.engines.processes import Processes
from srgdqn.engines.threads import Threads
from srgdqn.learner.networks import NetworkFactory, make_network
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.runs.locks import OccupiedError
from srgdqn.training.distribute import distribute
from srgdqn.training.host.task import HostTask
from srgdqn.training.host.train_round import RoundOutcome, checkpoints_name, train_round
from srgdqn.training.reports import Listener, SharedProgress
from srgdqn.training.rounds import Trained
from srgdqn.training.tables import merge_tables


class HostTrained(NamedTuple):
    """What training on the host leaves."""

    trained: Trained
    failures: dict[int, str]  # by round, what its environment did wrong


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
) -> HostTrained:
    """Trains every round of the configuration on the executor: by default one round in the calling thread, several in
    `workers` processes (one per core).

    Ctrl-C ends the run after the present blocks, and what was reached is returned; so does setting `stop`.
    `measure_noise` is for loggers, and `manager` is where rounds are checkpointed, and resume from: see `train_round`.
    """
    rounds = configuration.training.rounds
    workers = min(workers or usable_cores(), rounds)
    executor = executor or (Threads(1) if workers == 1 else Processes(workers))
    if executor.remote:  # what is wrong with a network is found once, rather than by every process
        make_network(configuration.network, task.network_input, task.actions.count, user_network)
    shared = SharedProgress(listener, rounds)
    outcomes: list[RoundOutcome] = []
    interrupted = False
    try:
        for _, outcome in distribute(
            executor,
            _TrainRound(configuration, task, user_network, measure_noise),
            range(rounds),
            [shared.of(number) for number in range(rounds)],
            names=[checkpoints_name(number) for number in range(rounds)],
            stopping=lambda: stop is not None and stop.is_set(),
            manager=manager,
            on_lost=_lost,
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
    begun = [outcome for outcome in outcomes if outcome.tables]
    names = begun[0].policies if begun else ()
    trained = Trained(
        merge_tables([outcome.tables for outcome in begun]),
        {name: np.concatenate([outcome.policies[name] for outcome in begun]) for name in names},
        interrupted=len(outcomes) < rounds or not all(outcome.whole for outcome in outcomes),
    )
    return HostTrained(
        trained, {outcome.number: outcome.failure for outcome in outcomes if outcome.failure is not None}
    )


@dataclass(frozen=True)
class _TrainRound:
    """Trains the round of a number."""

    configuration: Configuration
    task: HostTask
    network: eqx.Module | NetworkFactory | None
    measure_noise: bool

    def __call__(
        self, number: int, listener: Listener, stop: threading.Event, manager: CheckpointManager | None
    ) -> RoundOutcome:
        def train(manager: CheckpointManager | None) -> RoundOutcome:
            return train_round(
                self.configuration,
                self.task,
                number,
                self.network,
                listener=listener,
                stopping=stop.is_set,
                measure_noise=self.measure_noise,
                manager=manager,
            )

        try:
            return train(manager)
        except OccupiedError as error:  # by a process that outlived its run
            assert manager is not None
            manager.warn_not_written(error)
            return train(None)


def _lost(number: int, lost: Lost) -> RoundOutcome:
    return RoundOutcome(number, {}, {}, False, f"the process that trained round {number} failed: {lost.reason}")
