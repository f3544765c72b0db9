"""Whole rounds trained again, and held against the stored ones to the bit."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from srgdqn.adapters.failures import EnvironmentFailedError
from srgdqn.engines.host_rounds import train_on_host
from srgdqn.inspection.differences import Difference, parameter_differences, table_differences
from srgdqn.inspection.saved_run import Subject
from srgdqn.tasks import Task
from srgdqn.training.host.task import HostTask
from srgdqn.training.host.train_round import train_round
from srgdqn.training.job import Job, train_job
from srgdqn.training.loop import identity
from srgdqn.training.reports import Listener, Progress
from srgdqn.training.rounds import train_rounds
from srgdqn.training.schedule import Share
from srgdqn.training.tables import Tables


@dataclass(frozen=True)
class RoundCheck:
    """A round that was trained again."""

    number: int
    steps: int
    """Environment steps that were recomputed."""
    whole: bool
    """Whether that was all of it, so that its final parameters were compared, too."""
    rows: dict[str, int]
    """Of each table, the rows that were compared."""
    arrays: int
    """The arrays of parameters that were compared."""
    differences: tuple[Difference, ...]
    """The first of every table and array, the earliest before the others."""

    @property
    def identical(self) -> bool:
        """Whether every bit is the same."""
        return not self.differences


def check_rounds(
    subject: Subject, numbers: Sequence[int], steps: int | None, listener: Listener = lambda progress: None
) -> Iterator[RoundCheck]:
    """Trains rounds again, or their first `steps`, and compares. All rounds of a whole run use every core."""
    everyone = subject.result.rounds["round"].to_list()
    whole = not subject.result.run.provenance.get("interrupted") and len(everyone) == _planned(subject)
    if list(numbers) == everyone and whole and steps is None:
        yield from _check_all(subject, listener)
        return
    for number in numbers:
        yield _check_one(subject, number, steps, listener)


def _planned(subject: Subject) -> int:
    return subject.configuration.training.rounds


def _check_all(subject: Subject, listener: Listener) -> Iterator[RoundCheck]:
    if isinstance(subject.task, Task):
        trained = train_rounds(subject.configuration, subject.task, subject.network, listener=listener)
    else:
        trained, failures = train_on_host(subject.configuration, subject.task, subject.network, listener=listener)
        for number, failure in failures.items():
            raise _failed(number, failure)
    if trained.interrupted:
        raise KeyboardInterrupt
    for place, number in enumerate(subject.result.rounds["round"].to_list()):
        arrays = {path: array[place] for path, array in trained.policies.items()}
        yield _compared(subject, number, trained.tables, arrays, None)


def _check_one(subject: Subject, number: int, steps: int | None, listener: Listener) -> RoundCheck:
    lived = subject.row_of(number)["steps"]
    whole = steps is None or steps >= lived
    until = lived if steps is None else min(steps, lived)
    blocks = -(-until // subject.block)
    tables, arrays = (_compiled if isinstance(subject.task, Task) else _hosted)(subject, number, blocks, listener)
    return _compared(subject, number, tables, arrays if whole else {}, None if whole else until)


def _compiled(subject: Subject, number: int, blocks: int, listener: Listener) -> tuple[Tables, dict[str, np.ndarray]]:
    """A compiled round, until at least so many blocks have been lived. A run that was interrupted had stopped after a
    segment, as this does.
    """
    assert isinstance(subject.task, Task)
    lived, block = 0, subject.block

    def listen(progress: Progress) -> None:
        nonlocal lived
        lived += progress.steps
        listener(progress)

    configuration = subject.configuration
    share = Share(identity(configuration), range(number, number + 1), 0)
    job = Job((share,), (configuration,), subject.task, subject.network)
    [result] = train_job(job, listener=listen, stopping=lambda: lived >= blocks * block)
    return result.tables, {path: array[0] for path, array in result.policies.items()}


def _hosted(subject: Subject, number: int, blocks: int, listener: Listener) -> tuple[Tables, dict[str, np.ndarray]]:
    assert isinstance(subject.task, HostTask)
    outcome = train_round(
        subject.configuration,
        subject.task,
        number,
        subject.network,
        listener=listener,
        stopping=_after(blocks),
    )
    lived = int(outcome.tables["rounds"]["steps"][0]) if outcome.tables else 0
    # An environment that failed at the end of what the run has lived does so again: that is compared.
    if outcome.failure is not None and lived < min(blocks * subject.block, subject.row_of(number)["steps"]):
        raise _failed(number, outcome.failure)
    return outcome.tables, {path: array[0] for path, array in outcome.policies.items()}


def _failed(number: int, failure: str) -> EnvironmentFailedError:
    return EnvironmentFailedError(f"round {number} could not be recomputed: {failure}")


def _after(blocks: int) -> Callable[[], bool]:
    """Says to stop once it has been asked before each of so many blocks."""
    asked = itertools.count()
    return lambda: next(asked) >= blocks


def _compared(
    subject: Subject, number: int, tables: Tables, arrays: dict[str, np.ndarray], until: int | None
) -> RoundCheck:
    window = subject.configuration.training.window
    differences, rows = table_differences(subject.result.run.tables, tables, number, until, window)
    count = 0
    if until is None:
        others, count = parameter_differences(subject.result.parameters_of(number), arrays)
        differences += others
    steps = subject.row_of(number)["steps"] if until is None else until
    return RoundCheck(number, steps, until is None, rows, count, tuple(differences))
