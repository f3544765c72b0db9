"""Runs the parts of a training on an executor, with the user's code, checkpoints and progress wherever they run."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

import cloudpickle
import jax

from srgdqn.adapters.failures import RAISED, described
from srgdqn.engines.executor import Executor, Lost, Send, never, packed, unpacked
from srgdqn.engines.shared_folders import claimed, marked
from srgdqn.engines.throttle import Throttle
from srgdqn.errors import InputError
from srgdqn.kernel.program_cache import enable_program_cache
from srgdqn.learner.own_rules import make_known, own_parts
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.training.jax_setup import in_this_precision, is_double
from srgdqn.training.reports import Listener, Progress, RoundReport, no_reports
from srgdqn.training.user_code import modules_behind

SECONDS = 0.5
"""Between two reports of progress from another machine."""

_CACHE = "jax_compilation_cache_dir"

Part = TypeVar("Part")
Outcome = TypeVar("Outcome")


Work = Callable[[Part, Listener, threading.Event, CheckpointManager | None], Outcome]
"""Trains one part until it is done or the event is set; it is checkpointed where there is a manager. It is pickled for
other processes; what all parts have in common belongs into it.
"""


def distribute(
    executor: Executor,
    work: Work[Part, Outcome],
    parts: Sequence[Part],
    listeners: Sequence[Listener],
    *,
    names: Sequence[str],
    stopping: Callable[[], bool] = never,
    manager: CheckpointManager | None = None,
    on_lost: Callable[[int, Lost], Outcome] | None = None,
) -> Generator[tuple[int, Outcome], None, None]:
    """Trains every part on the executor, and yields their indices and outcomes as they come: see `Executor.run`.

    Each part has a listener to its progress, and the name of its checkpoints. On machines that do not see the
    manager's folder nothing is checkpointed. `on_lost` gives the outcome of a part whose process died or raised an
    error; by default the error is raised.
    """
    if not executor.remote:

        def here(index: int, stop: threading.Event, send: Send) -> Outcome:
            return work(parts[index], listeners[index], stop, manager)

        for index, outcome in executor.run(in_this_precision(here), range(len(parts)), stopping=stopping):
            assert not isinstance(outcome, Lost)
            yield index, outcome
        return
    receivers = [_receiver(listener) for listener in listeners]
    with contextlib.ExitStack() as stack:
        claim: Callable[[str], AbstractContextManager[bool]] = _unclaimed
        if manager is not None and not executor.shares_disk:
            claim = functools.partial(claimed, stack.enter_context(marked(manager.folder)))
        cache = _cache_options(shares_disk=executor.shares_disk)
        pause = 0.0 if executor.shares_disk else SECONDS
        there = _Elsewhere(
            packed(work),
            _packed_parts(by_value=not executor.shares_disk),
            tuple(path for path in sys.path if path),
            is_double(),
            cache,
            manager,
            claim,
            pause,
            on_lost is not None,
        )
        items = list(zip(range(len(parts)), names, parts, strict=True))
        for (index, name, _), result in executor.run(
            there, items, on_message=lambda item, message: receivers[item[0]](*message), stopping=stopping
        ):
            if not isinstance(result, Lost):
                yield index, result
            elif on_lost is not None:
                yield index, on_lost(index, result)
            else:
                raise InputError(f"the process that trained {name} failed: {result.reason}. Resume the run.")


@dataclass(frozen=True)
class _Elsewhere:
    """Trains parts in another process, after making known there what only this one knows."""

    work: bytes
    parts: bytes  # estimators and rules of the user's own
    paths: tuple[str, ...]  # where this process finds modules
    double: bool
    cache: dict[str, Any] | None  # options of jax's cache of programs; None: the machine's own cache
    manager: CheckpointManager | None
    claim: Callable[[str], AbstractContextManager[bool]]  # whether the part of a name may be checkpointed
    pause: float  # seconds between two reports of progress
    forgiving: bool  # an error costs its part alone

    def __call__(self, item: tuple[int, str, Any], stop: threading.Event, send: Send) -> Any:
        try:
            return self._train(*item[1:], stop, send)
        except RAISED as error:
            if not self.forgiving:
                raise
            return Lost(described(error))

    def _train(self, name: str, part: Any, stop: threading.Event, send: Send) -> Any:
        sys.path += [path for path in self.paths if path not in sys.path]
        make_known(dict(unpacked(self.parts)))
        if self.cache is None:
            enable_program_cache()
        else:
            for option, value in self.cache.items():
                jax.config.update(option, value)
        with jax.enable_x64(self.double), self.claim(name) as mine:
            manager = self.manager if mine else None
            outcome = unpacked(self.work)(part, _throttled(send, self.pause), stop, manager)
            if manager is not None:
                manager.flush()  # this process may not be asked again
        return outcome


def _packed_parts(*, by_value: bool) -> bytes:
    """The users' estimators and rules. `by_value`: with the user's modules they are made of, which another machine may
    lack.
    """
    own = own_parts()
    modules = modules_behind(own.values()) if by_value else []
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        return packed(tuple(own.items()))
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)


def _unclaimed(name: str) -> AbstractContextManager[bool]:
    """Lets every part be checkpointed: nobody else is at work on the run."""
    return contextlib.nullcontext(True)


def _cache_options(*, shares_disk: bool) -> dict[str, Any] | None:
    """The options of jax's cache for another process, if programs are stored; None: another machine has its own."""
    if jax.config.values[_CACHE] is None:
        return {}
    names = (_CACHE, "jax_persistent_cache_min_compile_time_secs")
    return {name: jax.config.values[name] for name in names} if shares_disk else None


def _throttled(send: Send, seconds: float) -> Listener:
    """A listener that sends progress with all steps and reports since the last time; always at the end."""
    throttle, steps = Throttle(seconds), 0

    def listen(progress: Progress) -> None:
        nonlocal steps
        steps += progress.steps
        if throttle.due(anyway=progress.ended):
            send((progress._replace(steps=steps, reports=no_reports), progress.reports()))
            steps = 0

    return listen


def _receiver(listener: Listener) -> Callable[[Progress, list[RoundReport]], None]:
    """Passes progress from another process to a listener, which may ask for the reports at any time."""
    unread = deque[RoundReport]()

    def read() -> list[RoundReport]:
        return [unread.popleft() for _ in range(len(unread))]

    def receive(progress: Progress, reports: list[RoundReport]) -> None:
        unread.extend(reports)
        listener(progress._replace(reports=read))

    return receive
