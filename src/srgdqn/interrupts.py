"""Ctrl-C and SIGTERM, made to reach the thread that waits."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


def let_interrupts_through() -> None:
    """Makes Ctrl-C wake the main thread while it waits for others.

    polars' own handler, set when it is imported, does not end the wait (pola-rs/polars#21739); setting Python's handler
    once more takes its place. Does nothing in other threads, which no signal reaches.
    """
    handler = signal.getsignal(signal.SIGINT)
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


_PAUSE, _PATIENCE = 0.02, 30.0  # seconds until an interrupt that was put off comes again, and until it is not any more


@contextmanager
def well_timed_interrupts() -> Iterator[None]:
    """Puts Ctrl-C off while it would be lost, or made something else of, until a moment later.

    Modules that are being imported make an ImportError of it, and print it themselves; what the garbage collector calls
    can raise nothing.
    """
    in_main = threading.current_thread() is threading.main_thread()
    # Otherwise it is ignored, as in the background of a shell, or somebody handles it already.
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    later = _Later()

    def interrupt(number: int, stack: FrameType | None) -> None:
        if not later.comes(number, stack):
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is interrupt:
            signal.signal(signal.SIGINT, signal.default_int_handler)


class _Later:
    """Sends signals once more, a moment later, that would be lost now."""

    def __init__(self) -> None:
        self._since: float | None = None

    def comes(self, number: int, stack: FrameType | None) -> bool:
        """Whether it comes later. One that was put off for long is not any more."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if _would_be_lost(stack) and now - self._since < _PATIENCE:
            again = threading.Timer(_PAUSE, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
            return True
        self._since = None
        return False


def _would_be_lost(stack: FrameType | None) -> bool:
    while stack is not None:
        code = stack.f_code
        if code.co_filename.startswith("<frozen importlib") or code.co_name in ("_xla_gc_callback", "__del__"):
            return True
        stack = stack.f_back
    return False


@contextmanager
def terminations_as_interrupts() -> Iterator[threading.Event]:
    """Makes of SIGTERM, by which schedulers and containers announce that they are about to kill, what Ctrl-C is; the
    event says which of the two it was. Where somebody handles it already, they still do.
    """
    terminated, later = threading.Event(), _Later()
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield terminated
        return

    def terminate(number: int, stack: FrameType | None) -> None:
        terminated.set()
        interrupt = signal.getsignal(signal.SIGINT)
        if callable(interrupt):
            interrupt(number, stack)
        elif not later.comes(number, stack):  # Ctrl-C is ignored, as in the background of a shell: this is not to be
            raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, terminate)
    try:
        yield terminated
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def left_to_the_parent() -> None:
    """Lets SIGTERM pass by this process, whose parent gets it as well and says what is to be done; those that this
    one starts end by it, as ever.
    """
    mine = os.getpid()

    def pass_by(number: int, stack: FrameType | None) -> None:
        if os.getpid() != mine:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, pass_by)


_deferred = threading.Lock()  # held while Ctrl-C sets an event instead of interrupting


@contextmanager
def deferred_interrupts() -> Iterator[threading.Event]:
    """Makes the first Ctrl-C set an event, for work that ends only where nothing is left half done; a second one raises
    a KeyboardInterrupt. Where Ctrl-C is ignored, as in the background of a shell, it still is; SIGTERM is not, where it
    is taken for Ctrl-C. The event is never set in another thread than the main one, which signals do not reach, nor
    within another such context, which sets its own.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread() or not _deferred.acquire(blocking=False):
        yield asked
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, stack: FrameType | None) -> None:
        if before is signal.SIG_IGN and number == signal.SIGINT:
            return
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    signal.signal(signal.SIGINT, note)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)
        _deferred.release()


def is_interrupt(error: BaseException | None) -> bool:
    """Whether it is Ctrl-C, or was before a compiled module that was being imported made something else of it."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


class StopRequestedError(Exception):
    """Raised by work that was asked to stop and has nothing to show yet."""
