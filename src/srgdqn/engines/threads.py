"""Calls on threads of this process: for compiled code, which holds no Python lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial

from srgdqn.engines.executor import Executor, Function, Item, OnMessage, Outcome, Stop


class Threads(Executor):
    """An executor of threads. A single one is the caller's own, which some environments need."""

    remote = False
    shares_disk = True

    def _run(
        self,
        function: Function[Item, Outcome],
        items: Sequence[Item],
        on_message: OnMessage[Item],
        stopping: Callable[[], bool],
    ) -> Iterator[tuple[Item, Outcome]]:
        stop = Stop(stopping)

        def call(item: Item) -> list[Outcome]:
            """The outcome; nothing if it is too late to begin."""
            return [] if stop.is_set() else [function(item, stop, partial(on_message, item))]

        threads = min(self.cores, len(items))
        if threads <= 1:
            yield from ((item, outcome) for item in items for outcome in call(item))
            return
        with ThreadPoolExecutor(threads, thread_name_prefix="job") as pool:
            futures = {pool.submit(call, item): item for item in items}
            try:
                for future in as_completed(futures):
                    for outcome in future.result():
                        yield futures[future], outcome
            finally:
                stop.set()
                pool.shutdown(cancel_futures=True)
