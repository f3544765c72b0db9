"""Calls on threads of this process: for compiled code, which holds no Python lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial

from srgdqn.engines.executor import (
    CallsInterruptedError,
    Function,
    Item,
    OnMessage,
    Outcome,
    Stop,
    ignore,
    never,
    usable_cores,
)
from srgdqn.interrupts import deferred_interrupts


class Threads:
    """An `Executor` of threads. A single one is the caller's own, which some environments need."""

    remote = False
    shares_disk = True

    def __init__(self, cores: int | None = None) -> None:
        """With so many threads; by default one per core."""
        self.cores = cores or usable_cores()

    def run(
        self,
        function: Function[Item, Outcome],
        items: Sequence[Item],
        *,
        on_message: OnMessage[Item] = ignore,
        stopping: Callable[[], bool] = never,
    ) -> Iterator[tuple[Item, Outcome]]:
        """See `Executor.run`."""
        with deferred_interrupts() as interrupted:
            stop = Stop(lambda: interrupted.is_set() or stopping())

            def call(item: Item) -> Iterator[Outcome]:
                """The outcome; nothing if it is too late to begin."""
                return iter([] if stop.is_set() else [function(item, stop, partial(on_message, item))])

            if min(self.cores, len(items)) <= 1:
                for item in items:
                    for outcome in call(item):
                        yield item, outcome
            else:
                yield from self._in_pool(call, items, stop)
        if interrupted.is_set():
            raise CallsInterruptedError

    def _in_pool(
        self, call: Callable[[Item], Iterator[Outcome]], items: Sequence[Item], stop: Stop
    ) -> Iterator[tuple[Item, Outcome]]:
        with ThreadPoolExecutor(min(self.cores, len(items)), thread_name_prefix="job") as pool:
            futures = {pool.submit(call, item): item for item in items}
            try:
                for future in as_completed(futures):
                    for outcome in future.result():
                        yield futures[future], outcome
            finally:
                stop.set()
                pool.shutdown(cancel_futures=True)
