"""The base of everything that calls a function for many items at once, and what its implementations share."""

from __future__ import annotations

import functools
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn, TypeVar

import cloudpickle

from srgdqn.errors import InputError
from srgdqn.interrupts import deferred_interrupts

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
Send = Callable[[Any], None]
"""Sends a message to whoever started the call."""
Function = Callable[[Item, threading.Event, Send], Outcome]
"""Is called with an item, an event that is set when it should stop (to be asked, not to be waited for), and a function
that sends messages.
"""
OnMessage = Callable[[Item, Any], None]
"""Is called with an item and a message from its call."""


class Lost(NamedTuple):
    """The outcome of a call whose process died."""

    reason: str


class CallsInterruptedError(KeyboardInterrupt):
    """Raised after Ctrl-C, once the calls that ran have ended and their outcomes were yielded."""


def ignore(item: Any, message: Any) -> None:
    """Does nothing with a message."""


def never() -> bool:
    """Never asks to stop."""
    return False


class Executor(ABC):
    """Calls a function for each of many items, on every core at once."""

    remote: bool
    """Whether calls run in other processes: then the function, items, messages and outcomes are pickled."""
    shares_disk: bool
    """Whether calls see this machine's files."""

    def __init__(self, cores: int | None = None) -> None:
        """With so many calls at the same time; by default one per core."""
        self._cores = cores

    @property
    def cores(self) -> int:
        """How many calls run at the same time."""
        return self._cores or usable_cores()

    def run(
        self,
        function: Function[Item, Outcome],
        items: Sequence[Item],
        *,
        on_message: OnMessage[Item] = ignore,
        stopping: Callable[[], bool] = never,
    ) -> Iterator[tuple[Item, Outcome | Lost]]:
        """Calls the function for each item and yields items with outcomes as they come.

        `on_message` is called with the messages of each call, in order and before its outcome is yielded; threads call
        it from where the message is sent. An exception of the function's is raised here once the other calls have been
        asked to stop and have ended.

        Once `stopping` returns True, or on Ctrl-C, no further call begins; those that run are asked to stop and their
        outcomes are yielded. After Ctrl-C a `CallsInterruptedError` is raised at the end. A second Ctrl-C raises an
        ordinary KeyboardInterrupt at once.
        """
        with deferred_interrupts() as interrupted:
            yield from self._run(function, items, on_message, lambda: interrupted.is_set() or stopping())
        if interrupted.is_set():
            raise CallsInterruptedError

    @abstractmethod
    def _run(
        self,
        function: Function[Item, Outcome],
        items: Sequence[Item],
        on_message: OnMessage[Item],
        stopping: Callable[[], bool],
    ) -> Iterator[tuple[Item, Outcome | Lost]]:
        """See `run`; `stopping` returns True after Ctrl-C as well."""


class Stop(threading.Event):
    """An event that is also set while a condition holds: to be asked, not to be waited for."""

    def __init__(self, condition: Callable[[], bool]) -> None:
        super().__init__()
        self._condition = condition

    def is_set(self) -> bool:
        """Whether it was set or the condition holds."""
        return super().is_set() or self._condition()

    def wait(self, timeout: float | None = None) -> NoReturn:
        """Raises: nothing would wake whoever waits when the condition begins to hold."""
        raise NotImplementedError("this cannot be waited for: ask is_set from time to time")


def usable_cores() -> int:
    """The cores that this process may run on; all of them where the system does not say."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def packed(value: Any) -> bytes:
    """The value as bytes for another process; an `InputError` if it cannot be pickled."""
    try:
        data: bytes = cloudpickle.dumps(value)
    except Exception as error:  # whatever of the user's raises
        raise InputError(
            "your environment, network or estimator, or what it refers to, cannot be handed to another process "
            f"({type(error).__name__}: {error}). Give what can be pickled, or train one round on this machine."
        ) from error
    return data


@functools.lru_cache(maxsize=8)
def unpacked(data: bytes) -> Any:
    """What was packed: one object for the same bytes, as compiled programs belong to an object."""
    return cloudpickle.loads(data)
