"""The progress bar of a run: how far, how fast, how long still, and how well it goes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from srgdqn.settings import Configuration

if TYPE_CHECKING:
    from srgdqn.training.rounds import Listener
    from srgdqn.training.rounds import Progress as Report


@contextmanager
def reporting(
    configuration: Configuration, show: bool | None = None, *, title: str | None = None
) -> Iterator[Listener]:
    """A listener for training that draws a bar on standard error (by default only where that is a terminal), with a
    title (by default the run's).
    """
    if not (sys.stderr.isatty() if show is None else show):
        yield lambda report: None
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
    rounds = configuration.training.rounds
    title = (
        title or f"{configuration.task.task} · {configuration.algorithm} · {rounds} round{'s' if rounds > 1 else ''}"
    )
    with bar:
        task = bar.add_task(title, total=1.0, rate="starting, compiling", reward="")
        steps = 0

        def listen(report: Report) -> None:
            nonlocal steps
            steps += report.steps
            elapsed = bar.tasks[0].elapsed or 1e-9
            diverged = f" · {report.diverged} diverged" if report.diverged else ""
            bar.update(
                task,
                completed=report.share,
                rate=f"{steps / elapsed:,.0f} steps/s",
                reward=f"reward {report.reward:.3f}{diverged}",
            )

        yield listen
