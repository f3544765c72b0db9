"""On the machine itself: one thread per core. The work itself is compiled code that holds no Python lock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

from srgdqn.training.machine import usable_cores

Thing = TypeVar("Thing")
Outcome = TypeVar("Outcome")


def run_locally(
    function: Callable[[Thing, threading.Event], Outcome], things: Sequence[Thing], *, workers: int | None = None
) -> Iterator[tuple[Thing, Outcome]]:
    """Calls the function for each thing, on every core at once, and yields what comes as it comes.

    The function is also given an event that is set when it should come to an end: on a KeyboardInterrupt, or when
    another call has raised. Both are raised here once the calls under way have ended.
    """
    stop = threading.Event()
    with ThreadPoolExecutor(workers or usable_cores(), thread_name_prefix="cell") as pool:
        jobs = {pool.submit(function, thing, stop): thing for thing in things}
        try:
            for job in as_completed(jobs):
                yield jobs[job], job.result()
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
