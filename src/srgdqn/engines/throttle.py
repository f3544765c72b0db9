"""How far work is, told from one machine to another as often as anybody looks."""

from __future__ import annotations

import collections
import math
import time
from collections.abc import Callable
from typing import Any

from srgdqn.training.reports import Listener, Progress, RoundReport, no_reports

_SECONDS = 0.5

Told = tuple[Progress, list[RoundReport]]
"""What is sent: progress, and what rounds have to report."""


def seldom() -> Callable[[], bool]:
    """Says whether somebody would see what is told now: the first time, and then twice a second at most."""
    said = -math.inf

    def due() -> bool:
        nonlocal said
        now = time.monotonic()
        if now - said < _SECONDS:
            return False
        said = now
        return True

    return due


def now_and_then(tell: Callable[[Any], None]) -> Listener:
    """A listener that tells of the steps since it last did, and always of the end."""
    due, steps = seldom(), 0

    def listen(progress: Progress) -> None:
        nonlocal steps
        steps += progress.steps
        if due() or progress.ended:
            tell((progress._replace(steps=steps, reports=no_reports), progress.reports()))
            steps = 0

    return listen


class Heard:
    """Hands on what is told to a listener, who may ask for reports whenever that suits."""

    def __init__(self, listener: Listener) -> None:
        self._listener, self._unread = listener, collections.deque[RoundReport]()

    def hear(self, told: Told) -> None:
        """Takes what was told."""
        progress, reports = told
        self._unread.extend(reports)
        self._listener(progress._replace(reports=self._read))

    def _read(self) -> list[RoundReport]:
        return [self._unread.popleft() for _ in range(len(self._unread))]
