"""Cells trained: those that differ in numbers alone as lanes of one program, others beside or after each other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from srgdqn.adapters.failures import EnvironmentFailedError
from srgdqn.api import identity_of, result_of, task_of, train_configured, with_kernel
from srgdqn.config import Configuration
from srgdqn.config.checks import check
from srgdqn.config.presets import PRESETS
from srgdqn.engines.choice import for_training
from srgdqn.engines.threads import run_locally
from srgdqn.learner.estimators import ESTIMATORS
from srgdqn.runs.checkpoint_manager import Keeping
from srgdqn.runs.interrupts import let_interrupts_through
from srgdqn.runs.provenance import LOCAL
from srgdqn.runs.result import Result
from srgdqn.runs.session import stamp_of
from srgdqn.training import Progress, train_side_by_side
from srgdqn.training.cores import usable_cores
from srgdqn.training.job import identity
from srgdqn.training.precision import in_this_precision
from srgdqn.training.rounds import Listener

Finished = Callable[[int, Result], None]
"""Is given a configuration's place and its result, on whichever thread trained it."""

Failed = Callable[[int, EnvironmentFailedError], None]
"""Is given the place of a configuration whose environment misbehaved, and what it did."""


def _raise(place: int, error: EnvironmentFailedError) -> None:
    raise error


def train_each(
    configurations: Sequence[Configuration],
    finished: Finished,
    *,
    failed: Failed = _raise,
    listener: Listener = lambda progress: None,
    keeping: Keeping | None = None,
    engine: str = LOCAL,
) -> None:
    """Trains every configuration, and hands on each result as soon as it is complete. If an environment misbehaves,
    that is handed to `failed`, and the others go on unless it raises.

    Those of compiled tasks that differ in numbers alone are lanes of one program, with the bits that each has alone;
    such groups run beside each other as far as there are cores. Other tasks step on the host, one after the other. A
    KeyboardInterrupt is raised once what is under way has ended; results that it cut short are not handed on. What is
    under way is kept where `keeping` says, and goes on from there. `engine` is where it runs, and is ready.
    """
    settled = [with_kernel(check(configuration, {"none", *ESTIMATORS})) for configuration in configurations]
    compiled: dict[Configuration, list[int]] = {}
    hosted: list[int] = []
    for place, configuration in enumerate(settled):
        if configuration.task.task in PRESETS:
            compiled.setdefault(configuration.shape(), []).append(place)
        else:
            hosted.append(place)
    heard = _Together(listener, [len(places) for places in compiled.values()] + [1] * len(hosted))
    by = for_training(engine, compiled=True)
    cores = by.get("workers") or usable_cores()
    workers = max(1, cores // max(1, len(compiled)))

    def run(group: tuple[int, list[int]], stop: threading.Event) -> None:
        index, places = group
        task = task_of(settled[places[0]])
        members = [settled[place] for place in places]
        kept = None if keeping is None else keeping.stamped(stamp_of(identity_of(members[0])[1]), "lanes")
        how: dict[str, Any] = {"listener": heard.of(index), "workers": workers, "stop": stop, "keeping": kept}
        for member, trained in train_side_by_side(members, task, **how, engine=by.get("engine")):
            if not trained.interrupted:
                finished(places[member], result_of(members[member], task, trained, ran_by=engine))

    let_interrupts_through()
    # Threads that only wait for other machines may be many.
    at_once = None if engine == LOCAL else max(1, len(compiled))
    for _ in run_locally(in_this_precision(run), list(enumerate(compiled.values())), workers=at_once):
        pass
    by = for_training(engine, compiled=False)
    for index, place in enumerate(hosted, start=len(compiled)):
        try:
            decided, about = identity_of(settled[place])
            kept = None if keeping is None else keeping.stamped(stamp_of(about), identity(decided))
            result = train_configured(decided, progress=False, listener=heard.of(index), keeping=kept, **by)
        except EnvironmentFailedError as error:
            failed(place, error)
            heard.leave_out(index)
            continue
        if result.run.provenance.get("interrupted", True):
            raise KeyboardInterrupt
        finished(place, result)


class _Together:
    """Lets groups of cells report to one listener, each weighing as many cells as it has."""

    def __init__(self, listener: Listener, weights: Sequence[int]) -> None:
        self._listener, self._weights, self._lock = listener, weights, threading.Lock()
        self._shares, self._diverged = [0.0] * len(weights), [0] * len(weights)

    def leave_out(self, group: int) -> None:
        """Counts a group as done, as nothing more will be heard of it."""
        with self._lock:
            self._shares[group] = 1.0

    def of(self, group: int) -> Listener:
        """The listener for one group."""

        def listen(progress: Progress) -> None:
            with self._lock:
                self._shares[group], self._diverged[group] = progress.share, progress.diverged
                done = sum(share * weight for share, weight in zip(self._shares, self._weights, strict=True))
                whole = progress._replace(share=done / sum(self._weights), diverged=sum(self._diverged))
                self._listener(whole)

        return listen
