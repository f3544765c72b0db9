"""Progress sent from one machine to another, as often as anybody looks."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from srgdqn.runs.throttle import Throttle
from srgdqn.training.reports import Listener, Progress, RoundReport, no_reports

SECONDS = 0.5
"""Between two messages."""

Told = tuple[Progress, list[RoundReport]]
"""A message: progress, and what rounds have to report."""


def now_and_then(send: Callable[[Any], None]) -> Listener:
    """A listener that sends messages, with all steps since the last one; always at the end."""
    throttle, steps = Throttle(SECONDS), 0

    def listen(progress: Progress) -> None:
        nonlocal steps
        steps += progress.steps
        if throttle.due(anyway=progress.ended):
            send((progress._replace(steps=steps, reports=no_reports), progress.reports()))
            steps = 0

    return listen


class Heard:
    """Passes messages to a listener, which may ask for the reports at any time."""

    def __init__(self, listener: Listener) -> None:
        self._listener, self._unread = listener, collections.deque[RoundReport]()

    def hear(self, told: Told) -> None:
        """Takes a message."""
        progress, reports = told
        self._unread.extend(reports)
        self._listener(progress._replace(reports=self._read))

    def _read(self) -> list[RoundReport]:
        return [self._unread.popleft() for _ in range(len(self._unread))]
