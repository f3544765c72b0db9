"""Limits how often something is done: progress, reports, lines in a terminal."""

from __future__ import annotations

import math
import time


class Throttle:
    """Says when something that happens at most every `seconds` is due."""

    def __init__(self, seconds: float, *, at_once: bool = True) -> None:
        """Due at once, or else for the first time after `seconds`."""
        self.seconds = seconds
        self._last = -math.inf if at_once else time.monotonic()

    def due(self, *, anyway: bool = False) -> bool:
        """Whether it is due now, or is done `anyway`; if so, the time until the next begins."""
        now = time.monotonic()
        if not anyway and now - self._last < self.seconds:
            return False
        self._last = now
        return True
