"""The progress bar of a video."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

Listener = Callable[[int, int], None]
"""Hears how many episodes are over, and how many images there are."""


@contextmanager
def filming(title: str, episodes: int, limit: int | None, show: bool | None = None) -> Iterator[Listener]:
    """A listener that draws a bar on standard error (by default only where that is a terminal).

    Nobody knows how long an episode will be: it counts as its limit, and the bar makes a leap where it ends before.
    """
    if not (sys.stderr.isatty() if show is None else show):
        yield lambda over, images: None
        return
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[done]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    with bar:
        task = bar.add_task(title, total=float(episodes), done="starting")
        begun = 0  # images before the open episode
        seen = 0

        def listen(over: int, images: int) -> None:
            nonlocal begun, seen
            if over > seen:
                begun, seen = images, over
            open_share = 0.0 if limit is None else min((images - begun) / limit, 1.0)
            bar.update(task, completed=over + open_share, done=f"episode {min(over + 1, episodes)}, {images} images")

        yield listen
