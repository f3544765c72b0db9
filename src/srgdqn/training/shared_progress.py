"""How far several strands of work, or rounds on the host, are together."""

from __future__ import annotations

import threading

import numpy as np

from srgdqn.training.reports import Listener, Progress


class SharedProgress:
    """The progress of several strands, or rounds, as one, told from any thread."""

    def __init__(self, listener: Listener, count: int) -> None:
        self._listener, self._lock = listener, threading.Lock()
        self._shares, self._diverged = np.zeros(count), np.zeros(count, int)

    def of(self, number: int) -> Listener:
        """A listener for one of them."""

        def hear(progress: Progress) -> None:
            with self._lock:
                self._shares[number], self._diverged[number] = progress.share, progress.diverged
                whole = progress._replace(share=float(self._shares.mean()), diverged=int(self._diverged.sum()))
                self._listener(whole)

        return hear
