"""All rounds of a run on the host: one after the other here, or shared out among processes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import numpy as np

from srgdqn.config import Configuration
from srgdqn.engines.workers import train_in_processes
from srgdqn.learner.networks import NetworkFactory
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.runs.interrupts import deferred_interrupts
from srgdqn.training.host.task import HostTask
from srgdqn.training.host.train_round import RoundOutcome, train_round
from srgdqn.training.machine import usable_cores
from srgdqn.training.reports import Listener, SharedProgress
from srgdqn.training.rounds import Trained
from srgdqn.training.tables import merge_tables

Engine = Callable[..., list[RoundOutcome]]
"""Trains every round somewhere: called as `srgdqn.engines.workers.train_in_processes` is."""


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
    engine: Engine | None = None,
) -> HostTrained:
    """Trains every round of the configuration: a single one in this process, several in one process per core, or all
    of them where an `engine` runs them.

    Ctrl-C ends the run once the blocks under way have been lived, and what was reached is kept; so does setting `stop`.
    `measure_noise` is for who watches, and `manager` is where rounds are kept, and go on from: see `train_round`.
    """
    rounds = configuration.training.rounds
    workers = min(workers or usable_cores(), rounds)
    shared = SharedProgress(listener, rounds)
    with deferred_interrupts() as interrupted:

        def stopping() -> bool:
            return interrupted.is_set() or (stop is not None and stop.is_set())

        if workers == 1 and engine is None:
            outcomes = _train_here(configuration, task, user_network, shared, stopping, measure_noise, manager)
        else:
            run = engine or train_in_processes
            outcomes = run(configuration, task, user_network, workers, shared, stopping, measure_noise, manager)
    if interrupted.is_set() and not outcomes:
        raise KeyboardInterrupt  # before any round had begun: there is nothing to keep
    outcomes = sorted(outcomes, key=lambda outcome: outcome.number)
    lived = [outcome for outcome in outcomes if outcome.tables]
    names = lived[0].policies if lived else ()
    trained = Trained(
        merge_tables([outcome.tables for outcome in lived]),
        {name: np.concatenate([outcome.policies[name] for outcome in lived]) for name in names},
        interrupted=len(outcomes) < rounds or not all(outcome.whole for outcome in outcomes),
    )
    return HostTrained(
        trained, {outcome.number: outcome.failure for outcome in outcomes if outcome.failure is not None}
    )


def _train_here(
    configuration: Configuration,
    task: HostTask,
    user_network: eqx.Module | NetworkFactory | None,
    shared: SharedProgress,
    stopping: Callable[[], bool],
    measure_noise: bool,
    manager: CheckpointManager | None,
) -> list[RoundOutcome]:
    outcomes = []
    for number in range(configuration.training.rounds):
        if stopping():
            break
        listener = shared.of(number)
        outcomes.append(
            train_round(
                configuration,
                task,
                number,
                user_network,
                listener=listener,
                stopping=stopping,
                measure_noise=measure_noise,
                manager=manager,
            )
        )
    if manager is not None:
        manager.flush()
    return outcomes
