"""Ctrl-C, made to reach the thread that waits."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


def let_interrupts_through() -> None:
    """Makes Ctrl-C wake the main thread while it waits for others.

    polars' own handler, set when it is imported, lets the wait go on (pola-rs/polars#21739); setting Python's handler
    once more takes its place. Does nothing in other threads, which no signal reaches.
    """
    handler = signal.getsignal(signal.SIGINT)
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


@contextmanager
def deferred_interrupts() -> Iterator[threading.Event]:
    """Makes the first Ctrl-C set an event, for work that ends only where nothing is left half done; a second one is
    Python's own. In another thread than the main one, which signals do not reach, the event is never set.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, stack: FrameType | None) -> None:
        asked.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, note)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


class ToldToStopError(Exception):
    """Raised by work that was asked to stop and has nothing to show yet."""
