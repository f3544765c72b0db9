"""The progress bar of a run: how far, how fast, how long still, and how well it goes."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from srgdqn.config import Configuration

if TYPE_CHECKING:
    from srgdqn.training.rounds import Listener
    from srgdqn.training.rounds import Progress as Report


# Between two lines where there is no terminal to draw a bar in.
_SECONDS = 60.0


@contextmanager
def reporting(
    configuration: Configuration, show: bool | None = None, *, title: str | None = None, lines: bool = False
) -> Iterator[Listener]:
    """A listener for training that draws a bar on standard error (by default only where that is a terminal), with a
    title (by default the run's). `lines`: where there is none, a line a minute.
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
    began = told = time.monotonic()
    steps = 0

    def listen(report: Report) -> None:
        nonlocal steps, told
        steps += report.steps
        now = time.monotonic()
        if now - told >= _SECONDS:
            told = now
            line = f"{title}: {report.share:.0%}, {_rate(steps, now - began)}, {_reward(report)}"
            print(line, file=sys.stderr, flush=True)

    return listen


def _rate(steps: int, seconds: float) -> str:
    return f"{steps / seconds:,.0f} steps/s"


def _reward(report: Report) -> str:
    diverged = f" · {report.diverged} diverged" if report.diverged else ""
    return f"reward {report.reward:.3f}{diverged}"
