"""Training that ends early, as a test says: asked to stop, interrupted, or gone like a process that is killed."""

from __future__ import annotations

import threading
from typing import Any, Literal

import pytest

from srgdqn.training import Progress


class Killed(BaseException):
    """Stands for the end of a process: only what was stored before remains."""


class CutShort:
    """Takes the place of `train_rounds`, or of `train_side_by_side`, where that is called from.

    It trains in short segments on one thread, counts the steps that are trained, and brings the next training to its
    end after as many reports as `after` says.
    """

    def __init__(self, patched: pytest.MonkeyPatch, where: str, segment_blocks: int = 2) -> None:
        self.after: int | None = None
        self.how: Literal["stop", "interrupt", "kill"] = "kill"
        self.steps = 0
        self._lock = threading.Lock()
        module, _, name = where.rpartition(".")
        self._train, self._segment_blocks = getattr(__import__(module, fromlist=[name]), name), segment_blocks
        patched.setattr(where, self)

    def __call__(self, *given: Any, **engine: Any) -> Any:
        stop = engine.get("stop") or threading.Event()
        listener = engine.get("listener", lambda progress: None)

        def listen(progress: Progress) -> None:
            listener(progress)
            with self._lock:
                self.steps += progress.steps
                if self.after is not None:
                    self.after -= 1
                ends = self.after == 0
                self.after = None if ends else self.after
            if ends:
                self._end(stop)

        shared = {"workers": 1, "segment_blocks": self._segment_blocks, "stop": stop, "listener": listen}
        return self._train(*given, **{**engine, **shared})

    def _end(self, stop: threading.Event) -> None:
        if self.how == "kill":
            raise Killed
        if self.how == "interrupt":
            raise KeyboardInterrupt
        stop.set()

    def counted(self) -> int:
        """The steps since this was last asked."""
        steps, self.steps = self.steps, 0
        return steps
