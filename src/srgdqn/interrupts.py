"""Ctrl-C, made to reach the thread that waits."""

from __future__ import annotations

import signal
import threading


def let_interrupts_through() -> None:
    """Makes Ctrl-C wake the main thread while it waits for others.

    polars' own handler, set when it is imported, lets the wait go on (pola-rs/polars#21739); setting Python's handler
    once more takes its place. Does nothing in other threads, which no signal reaches.
    """
    handler = signal.getsignal(signal.SIGINT)
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


class ToldToStopError(Exception):
    """Raised by work that was asked to stop and has nothing to show yet."""
