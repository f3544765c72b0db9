"""Things that are costly to make, made once: threads that ask for the same wait for it, others go on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

Thing = TypeVar("Thing")


class Once(Generic[Thing]):
    """A memory of what was made for each key, of the `most` newest keys."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._made: dict[Hashable, Future[Thing]] = {}

    def get(self, key: Hashable, make: Callable[[], Thing]) -> tuple[Thing, bool]:
        """What is there for the key, and whether it was made by this call. What raises is not remembered."""
        with self._lock:
            fresh = key not in self._made
            promised = self._made.setdefault(key, Future())
            for oldest in list(self._made)[: -self._most]:
                del self._made[oldest]
        if fresh:
            try:
                promised.set_result(make())
            except BaseException as error:
                with self._lock:
                    self._made.pop(key, None)
                promised.set_exception(error)
                raise
        return promised.result(), fresh
