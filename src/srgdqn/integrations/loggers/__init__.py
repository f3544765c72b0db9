"""Loggers: the protocol, the named numbers they write, and how training's reports reach them.

A module of this folder that defines a class with a `LoggerOption` as its `option` gives `srgdqn train` that option.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
import pkgutil
import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from srgdqn.config import Configuration
from srgdqn.engines.throttle import Throttle
from srgdqn.errors import InputError

if TYPE_CHECKING:
    from srgdqn.training.direction_errors import DirectionErrors
    from srgdqn.training.reports import GreedyEpisodes, Listener, Progress, Reports, RoundReport

RECENT = 100
"""The last episodes, over which returns and lengths are averaged."""

# Names that people know from Stable-Baselines3, and ours.
RETURN, LENGTH = "rollout/ep_rew_mean", "rollout/ep_len_mean"
REWARD = "rollout/reward"
EPSILON = "rollout/exploration_rate"
EPISODES = "time/episodes"
ITERATIONS = "train/n_updates"
LOSS, MAX_Q = "train/loss", "train/max_q"

Values = dict[str, float | None]

_SHARE = 1 / 200  # of a run, after which rounds are asked for reports
_SECONDS, _MOST_SECONDS = 0.25, 5.0  # between two reports; longer as the run gets longer


class Logger(Protocol):
    """Receives reports during training; its methods are called in this order, never at the same time. An exception
    drops it, with a warning that names it by its `str`; only an `InputError` of `start` ends the run, before it begins.
    """

    def start(self, configuration: Configuration, about: Mapping[str, Any]) -> None:
        """A run with this configuration begins; `about` has versions and the kind of machine."""

    def log(self, reports: Sequence[RoundReport]) -> None:
        """Logs what some rounds did since their last reports."""

    def close(self) -> None:
        """The run has ended, in whatever way."""


class LoggerOption(NamedTuple):
    """The option of `srgdqn train` that a logger is made from: the class is called with the option's value."""

    name: str
    metavar: str
    help: str


@functools.cache
def loggers_with_options() -> dict[str, Any]:
    """The classes in the modules of this folder that have an option, by its name."""
    modules = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    classes: list[Any] = [each for module in modules for each in vars(module).values() if isinstance(each, type)]
    return {each.option.name: each for each in classes if isinstance(getattr(each, "option", None), LoggerOption)}


class Scalars:
    """Turns the reports of all rounds into named numbers; remembers their last episodes."""

    def __init__(self) -> None:
        self._returns: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=RECENT))
        self._lengths: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=RECENT))

    def rows(self, report: RoundReport, seconds: float) -> list[tuple[int, Values]]:
        """Steps and their numbers, in order, `seconds` after the run began; None for a number that is missing."""
        found: dict[int, Values] = {evaluation.step: _greedy(evaluation) for evaluation in report.evaluations}
        for measured in report.directions:
            found.setdefault(measured.step, {}).update(_direction(measured.errors))
        last = {**self._training(report, seconds), **found.pop(report.step, {})}
        return [*sorted(found.items()), (report.step, last)]

    def _training(self, report: RoundReport, seconds: float) -> Values:
        returns, lengths = self._returns[report.round], self._lengths[report.round]
        returns.extend(report.returns.tolist())
        lengths.extend(report.lengths.tolist())
        return {
            RETURN: _mean(returns),
            LENGTH: _mean(lengths),
            REWARD: _finite(report.reward),
            EPSILON: _finite(report.epsilon),
            EPISODES: report.episodes,
            "time/fps": report.step / seconds if seconds > 0 else None,
            LOSS: _finite(report.loss),
            ITERATIONS: report.outer_iterations,
            MAX_Q: _finite(report.max_q),
            "train/delta_norm": _finite(report.delta_norm),
            "train/theta_norm": _finite(report.theta_norm),
            "train/gradient_variance": _finite(report.gradient_variance),
            "train/anchor_distance": _finite(report.anchor_distance),
            "train/queries": report.queries,
            "train/gradient_evaluations": report.gradient_evaluations,
            **{f"train/{name}": _finite(value) for name, value in report.logged.items()},
        }


def _greedy(evaluation: GreedyEpisodes) -> Values:
    return {
        "eval/mean_reward": float(evaluation.returns.mean()),
        "eval/mean_ep_length": float(evaluation.lengths.mean()),
    }


def _direction(errors: DirectionErrors) -> Values:
    return {f"directions/{name}": _finite(value) for name, value in errors._asdict().items()}


def _mean(values: deque[float]) -> float | None:
    return _finite(sum(values) / len(values)) if values else None


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


@contextmanager
def logging_to(
    configuration: Configuration,
    loggers: Sequence[Logger],
    listener: Listener = lambda progress: None,
    *,
    curves: bool = True,
) -> Iterator[Listener]:
    """A listener for training that calls `listener`, and passes each round's reports to the loggers.

    With `curves` a short run is logged in as much detail as a long one; otherwise the clock alone decides how often.

    A logger that fails is dropped with one warning on standard error, and training continues.
    """
    if not loggers:
        yield listener
        return
    for logger in loggers:
        if not callable(getattr(logger, "log", None)):
            raise InputError(
                f"{type(logger).__name__} has no method `log`, which gets each round's reports (once called "
                "`hear`). Give an object with the methods of srgdqn.integrations.Logger."
            )
    from srgdqn.runs.provenance import provenance

    about, active, schedule = provenance(), list(loggers), _Schedule(_SHARE if curves else math.inf)

    def each(call: Callable[[Logger], None], fatal: type[Exception] | tuple[()] = ()) -> None:
        for logger in list(active):
            try:
                call(logger)
            except fatal:
                raise
            except Exception as error:
                active.remove(logger)
                reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
                print(f"warning: {logger} is no longer written: {reason}. Training continues.", file=sys.stderr)
                with contextlib.suppress(Exception):
                    logger.close()

    def log(reports: Reports) -> None:
        if active and (rows := reports()):
            each(lambda logger: logger.log(rows))

    def listen(progress: Progress) -> None:
        listener(progress)
        if schedule.is_due(progress):
            log(progress.reports)

    try:
        each(lambda logger: logger.start(configuration, about), fatal=InputError)
        yield listen
    finally:
        for reports in schedule.unread:
            log(reports)
        each(lambda logger: logger.close())


class _Schedule:
    """Decides when a chunk's rounds are asked for reports: by share of the run, and by the clock, so that logging takes
    little of a long run's time and disk.
    """

    def __init__(self, share: float) -> None:
        self._share, self._began = share, time.monotonic()
        self._last: dict[Reports, tuple[Throttle, float]] = {}  # with the share of the run at the last reports
        self.unread: dict[Reports, None] = {}

    def is_due(self, progress: Progress) -> bool:
        throttle, share = self._last.get(progress.reports, (Throttle(_SECONDS), 0.0))
        throttle.seconds = min(max(_SECONDS, (time.monotonic() - self._began) / 100), _MOST_SECONDS)
        due = throttle.due(anyway=progress.ended or progress.share - share >= self._share)
        self._last[progress.reports] = throttle, progress.share if due else share
        self.unread[progress.reports] = None
        if due:
            del self.unread[progress.reports]
        return due
