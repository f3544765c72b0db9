"""Trains the cells of a sweep: those that differ only in numbers are lanes of one program, others run in turn.

Lanes are why grids are not left to Optuna's GridSampler, which would train one cell at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from srgdqn.adapters.failures import EnvironmentFailedError
from srgdqn.config import Configuration
from srgdqn.config.checks import check
from srgdqn.config.presets import PRESETS
from srgdqn.engines.choice import executor_of
from srgdqn.engines.executor import Send
from srgdqn.engines.threads import Threads
from srgdqn.errors import UserCodeError
from srgdqn.results.result import Result
from srgdqn.runs.checkpoint_manager import CheckpointManager, Pace
from srgdqn.runs.provenance import LOCAL
from srgdqn.runs.unfinished import UNFINISHED_CELLS
from srgdqn.session.cache import CellFolder, Say, TrainingCell
from srgdqn.session.prepare import NOTHING_OWN, prepare, result_of, with_kernel
from srgdqn.session.run_session import stamp_of
from srgdqn.sweeps.folder import CELLS, FAILED
from srgdqn.sweeps.grid import SweepCell
from srgdqn.tasks import task_of
from srgdqn.training import train_side_by_side
from srgdqn.training.jax_setup import in_this_precision
from srgdqn.training.loop import configuration_digest
from srgdqn.training.reports import Listener, SharedProgress


class SweepCells:
    """The results and failures of a sweep's cells, by name; in a folder if it has one, else in memory."""

    def __init__(
        self, folder: Path | None, say: Say, pace: Pace, engine: str, own: Mapping[str, Any] = NOTHING_OWN
    ) -> None:
        self.results: dict[str, Result] = {}
        self.failures: dict[str, str] = {}
        """Why cells have no result: what their environment did."""
        checkpoints = None if folder is None else CheckpointManager(folder / UNFINISHED_CELLS, *pace)
        self._folder = CellFolder(None if folder is None else folder / CELLS, say, checkpoints)
        self._engine, self._own = engine, own
        # Another folder, so that no failed cell takes the place of a finished one.
        self._failed = CellFolder(None if folder is None else folder / FAILED)

    def find(self, cells: Sequence[SweepCell]) -> None:
        """Reads the cells that are stored."""
        self._folder.find_all(list(map(self._training, cells)), self.results)

    def fill(self, cells: Sequence[SweepCell], listener: Listener) -> bool:
        """Reads the cells that are stored, trains and stores the others; none that failed is tried twice.

        Returns whether all was done: a KeyboardInterrupt ends it early.
        """

        def compute(missing: list[TrainingCell], done: Callable[[TrainingCell, Result], None]) -> None:
            tried = [cell for cell in missing if cell.name not in self.failures]

            def failed(place: int, error: EnvironmentFailedError | UserCodeError) -> None:
                if isinstance(error, EnvironmentFailedError) and error.result is not None:
                    self._failed.store(tried[place], error.result)
                self.failures[tried[place].name] = " ".join(str(error).split())

            train_each(
                [cell.configuration for cell in tried],
                lambda place, result: done(tried[place], result),
                failed=failed,
                listener=listener,
                manager=self._folder.checkpoints,
                engine=self._engine,
                own=self._own,
            )

        try:
            self._folder.fill(list(map(self._training, cells)), self.results, compute)
        except KeyboardInterrupt:
            return False
        return True

    def _training(self, cell: SweepCell) -> TrainingCell:
        return TrainingCell(cell.name, cell.configuration, self._own)

    def check_some_finished(self) -> None:
        """Raises an `EnvironmentFailedError` if everything that was tried failed."""
        if self.failures and not self.results:
            name, reason = next(iter(self.failures.items()))
            raise EnvironmentFailedError(f"no cell of the sweep was finished, as each one failed. {name}: {reason}")


Finished = Callable[[int, Result], None]
"""Called with a configuration's index and its result, on the thread that trained it."""

Failed = Callable[[int, EnvironmentFailedError | UserCodeError], None]
"""Called with the index of a configuration whose environment or estimator misbehaved, and the error."""


def _raise(place: int, error: EnvironmentFailedError | UserCodeError) -> None:
    raise error


def train_each(
    configurations: Sequence[Configuration],
    finished: Finished,
    *,
    failed: Failed = _raise,
    listener: Listener = lambda progress: None,
    manager: CheckpointManager | None = None,
    engine: str = LOCAL,
    own: Mapping[str, Any] = NOTHING_OWN,
) -> None:
    """Trains every configuration and calls `finished` with each result as soon as it is complete. If an environment or
    an estimator of the user's own misbehaves, `failed` is called, and the others continue unless it raises.

    Configurations of compiled tasks that differ in numbers alone are lanes of one program, with the bits that each has
    alone; such groups run in parallel as far as there are cores. Other tasks step on the host, one after the other. A
    KeyboardInterrupt is raised once running jobs have stopped; incomplete results are not reported. `manager` is where
    checkpoints are written and resumed from. The `engine` must be ready. `own` is the user's own code, as of `Given`.
    """
    environment = own.get("environment")
    resolved = [with_kernel(check(each), own_environment=environment is not None) for each in configurations]
    compiled: dict[Configuration, list[int]] = {}
    hosted: list[int] = []
    for place, configuration in enumerate(resolved):
        if environment is not None or configuration.task.task in PRESETS:
            compiled.setdefault(configuration.shape(), []).append(place)
        else:
            hosted.append(place)
    progress = SharedProgress(listener, [len(places) for places in compiled.values()] + [1] * len(hosted))
    executor, threads = executor_of(engine), Threads()
    workers = max(1, (executor or threads).cores // max(1, len(compiled)))

    def run(group: tuple[int, list[int]], stop: threading.Event, send: Send) -> None:
        index, places = group
        task = task_of(resolved[places[0]], environment)
        members = [resolved[place] for place in places]
        checkpoints = (
            None if manager is None else manager.stamped(stamp_of(prepare(members[0], **own).identity), "lanes")
        )
        how: dict[str, Any] = {"listener": progress.of(index), "workers": workers, "stop": stop, "manager": checkpoints}
        try:
            for member, trained in train_side_by_side(members, task, own.get("network"), **how, executor=executor):
                if not trained.interrupted:
                    finished(places[member], result_of(members[member], task, trained, ran_by=engine, own=own))
        except UserCodeError as error:  # where its program is compiled, before any of these rounds has begun
            for place in places:
                failed(place, error)
            progress.leave_out(index)

    if executor is not None:  # threads that only wait for other machines may be many
        threads = Threads(len(compiled))
    for _ in threads.run(in_this_precision(run), list(enumerate(compiled.values()))):
        pass
    for index, place in enumerate(hosted, start=len(compiled)):
        try:
            one = prepare(resolved[place], **own)
            stamp, below = stamp_of(one.identity), configuration_digest(one.configuration)
            checkpoints = None if manager is None else manager.stamped(stamp, below)
            result = one.train(listener=progress.of(index), manager=checkpoints, executor=executor, ran_by=engine)
        except (EnvironmentFailedError, UserCodeError) as error:
            failed(place, error)
            progress.leave_out(index)
            continue
        if result.run.provenance.get("interrupted", True):
            raise KeyboardInterrupt
        finished(place, result)
