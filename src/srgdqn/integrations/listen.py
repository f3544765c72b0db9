"""Loggers as a listener of training: asked for when enough has happened, and never in training's way."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from srgdqn.config import Configuration
from srgdqn.errors import InputError
from srgdqn.integrations.logger import Logger

if TYPE_CHECKING:
    from srgdqn.training.reports import Reports
    from srgdqn.training.rounds import Listener, Progress


@contextmanager
def listening(
    configuration: Configuration,
    loggers: Sequence[Logger],
    listener: Listener = lambda progress: None,
    about: Mapping[str, Any] | None = None,
    *,
    curves: bool = True,
) -> Iterator[Listener]:
    """A listener for training that calls `listener`, and tells the loggers what each round did.

    `about` is what they are told of versions and machine, by default the run's provenance. Where `curves` are wanted, a
    short run is told in as much detail as a long one; otherwise the clock alone decides how often.

    A logger that fails is dropped with one warning on standard error, and training goes on.
    """
    if not loggers:
        yield listener
        return
    crew = _Crew(loggers)
    crew.start(configuration, _provenance() if about is None else about)
    pace = _Pace(_SHARE if curves else math.inf)

    def listen(progress: Progress) -> None:
        listener(progress)
        if pace.is_due(progress):
            crew.hear(progress.reports)

    try:
        yield listen
    finally:
        for reports in pace.unheard:
            crew.hear(reports)
        crew.close()


class _Crew:
    """The loggers that still work."""

    def __init__(self, loggers: Sequence[Logger]) -> None:
        self._loggers = list(loggers)

    def start(self, configuration: Configuration, about: Mapping[str, Any]) -> None:
        try:
            self._each(lambda logger: logger.start(configuration, about), fatal=InputError)
        except InputError:
            self.close()
            raise

    def hear(self, reports: Reports) -> None:
        if self._loggers and (rows := reports()):
            self._each(lambda logger: logger.hear(rows))

    def close(self) -> None:
        self._each(lambda logger: logger.close())

    def _each(self, call: Callable[[Logger], None], fatal: type[Exception] | tuple[()] = ()) -> None:
        for logger in list(self._loggers):
            try:
                call(logger)
            except fatal:
                raise
            except Exception as error:
                self._loggers.remove(logger)
                print(f"warning: {logger} is no longer written: {_told(error)}. The run goes on.", file=sys.stderr)
                with contextlib.suppress(Exception):
                    logger.close()


_SHARE = 1 / 200
_SECONDS, _MOST_SECONDS = 0.25, 5.0  # seldomer as the run gets longer


class _Pace:
    """When a chunk's rounds are asked: whenever the run has come so far on, and now and then by the clock.

    Long runs spend no noticeable time on logs then, nor fill the disk with them.
    """

    def __init__(self, share: float) -> None:
        self._share, self._began = share, time.monotonic()
        self._asked: dict[Reports, tuple[float, float]] = {}  # when each was, at what share
        self.unheard: dict[Reports, None] = {}

    def is_due(self, progress: Progress) -> bool:
        now = time.monotonic()
        before, share = self._asked.get(progress.reports, (-float("inf"), 0.0))
        pause = min(max(_SECONDS, (now - self._began) / 100), _MOST_SECONDS)
        due = progress.ended or now - before >= pause or progress.share - share >= self._share
        if due:
            self._asked[progress.reports] = (now, progress.share)
            self.unheard.pop(progress.reports, None)
        else:
            self.unheard[progress.reports] = None
        return due


def _told(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def _provenance() -> dict[str, Any]:
    from srgdqn.runs.provenance import provenance

    return provenance()
