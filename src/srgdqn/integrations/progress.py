"""The progress bar of a run: share, speed, time left and reward."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from srgdqn.config import Configuration
from srgdqn.engines.throttle import Throttle

if TYPE_CHECKING:
    from srgdqn.training.rounds import Listener
    from srgdqn.training.rounds import Progress as Report

_SECONDS = 60.0  # between two lines, where there is no terminal to draw a bar in


@contextmanager
def reporting(
    configuration: Configuration, show: bool | None = None, *, title: str | None = None, lines: bool = False
) -> Iterator[Listener]:
    """A listener for training that draws a bar on standard error (by default only in a terminal), with a title (by
    default the run's). `lines`: outside of a terminal, a line per minute.
    """
    rounds = configuration.training.rounds
    title = (
        title or f"{configuration.task.task} · {configuration.algorithm} · {rounds} round{'s' if rounds > 1 else ''}"
    )
    if not (sys.stderr.isatty() if show is None else show):
        yield _line_a_minute(title) if lines and show is None else lambda report: None
        return
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[reward]}"),
        console=Console(stderr=True),
    )
    with bar:
        task = bar.add_task(title, total=1.0, rate="starting, compiling", reward="")
        steps = 0

        def listen(report: Report) -> None:
            nonlocal steps
            steps += report.steps
            elapsed = bar.tasks[0].elapsed or 1e-9
            bar.update(task, completed=report.share, rate=_rate(steps, elapsed), reward=_reward(report))

        yield listen


def _line_a_minute(title: str) -> Listener:
    began, throttle, steps = time.monotonic(), Throttle(_SECONDS, at_once=False), 0

    def listen(report: Report) -> None:
        nonlocal steps
        steps += report.steps
        if throttle.due():
            rate = _rate(steps, time.monotonic() - began)
            print(f"{title}: {report.share:.0%}, {rate}, {_reward(report)}", file=sys.stderr, flush=True)

    return listen


def _rate(steps: int, seconds: float) -> str:
    return f"{steps / seconds:,.0f} steps/s"


def _reward(report: Report) -> str:
    diverged = f" · {report.diverged} diverged" if report.diverged else ""
    return f"reward {report.reward:.3f}{diverged}"
