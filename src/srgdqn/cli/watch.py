"""`srgdqn watch`: shows the progress of a run."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srgdqn.cli.options import SavedRun
from srgdqn.cli.parsing import parse
from srgdqn.errors import InputError
from srgdqn.integrations.watching import LineReader, RunState, is_abandoned, rows_file, state_of_result
from srgdqn.runs.destination import MANIFEST
from srgdqn.runs.run_folder import how_to_resume

_PAUSE = 0.5  # seconds between two looks
_GONE = "its process is gone"
_SILENCE = 15.0  # seconds without news that are worth mentioning


@dataclass(frozen=True)
class Watch:
    """Shows the progress of a run.

      srgdqn train MountainCar srg-dqn --rounds 16 --out runs/srg    in one terminal
      srgdqn watch runs/srg                                          in another, or before

    A row for every round (beyond 20: the lowest, the median and the highest) with the means of the last 100 episodes,
    until the run is saved; then its results, as 'srgdqn show' prints them. Ctrl-C ends the watching, not the run.
    """

    run: SavedRun
    """Folder that the run was given with --out, or the file of a JsonLines logger (*.jsonl)."""
    once: bool = False
    """Print one view and end, as is done where standard output is no terminal."""


def run(words: Sequence[str]) -> int:
    """Watches a run to its end."""
    from srgdqn.cli import INTERRUPTED

    asked = parse(Watch, words)
    source = _Source(asked.run)
    try:
        return _look_once(source) if asked.once or not sys.stdout.isatty() else _follow(source)
    except KeyboardInterrupt:
        return INTERRUPTED


class _Source:
    """What is watched: rows until the run is saved, then a folder."""

    def __init__(self, given: Path) -> None:
        self.given = given
        self.is_file = given.suffix == ".jsonl" and not given.is_dir()
        self.rows = given if self.is_file else rows_file(given)
        self._reader = LineReader(self.rows)

    def read(self, watched: RunState) -> bool:
        """Takes in what is new; returns whether there are rows at all."""
        lines = self._reader.read()
        for line in lines or ():
            watched.update(line)
        return lines is not None

    @property
    def is_saved(self) -> bool:
        return not self.is_file and (self.given / MANIFEST).exists()

    def lost(self) -> InputError:
        advice = None if self.is_file else how_to_resume(self.given)
        return InputError(
            f"the run to {self.given} ended without being saved. What it had come to is in {self.rows}, as far as it "
            f"was written. {advice or 'Train it again.'}"
        )


def _look_once(source: _Source) -> int:
    from srgdqn.cli.presentation import console

    out, watched = console(), RunState()
    if source.read(watched):
        abandoned = not source.is_file and is_abandoned(source.rows)
        if watched.header:
            out.print(_drawn(watched, _GONE if abandoned else _state(watched), out))
        if abandoned:
            raise source.lost()
        return 0
    if source.is_saved:
        return _show_saved(source, out)
    what = "rows" if source.is_file else "run, saved or running,"
    raise InputError(f"there is no {what} in {source.given}. Give the DIR of 'srgdqn train … --out DIR'.")


def _follow(source: _Source) -> int:
    from rich.live import Live
    from rich.text import Text

    from srgdqn.cli.presentation import console

    out, watched = console(), RunState()
    seen = gone = False
    with Live(console=out, auto_refresh=False, transient=not source.is_file) as live:
        while True:
            there = source.read(watched)
            if not there and (source.is_saved or seen):
                break
            abandoned = there and not source.is_file and is_abandoned(source.rows)
            if watched.header:
                live.update(_drawn(watched, _state(watched), out), refresh=True)
            else:
                live.update(Text(f"waiting for a run to {source.given} to begin (Ctrl-C ends this)"), refresh=True)
            if (abandoned and gone) or (source.is_file and watched.ended):
                break
            # A file that was only just made is not locked yet: only the second time counts.
            seen, gone = seen or there, abandoned
            time.sleep(_PAUSE)
    if source.is_file:
        return 0
    if abandoned or not source.is_saved:
        if watched.header:
            out.print(_drawn(watched, _GONE, out))
        raise source.lost()
    return _show_saved(source, out)


def _show_saved(source: _Source, out: Any) -> int:
    """The last view, from a run's tables, and below it what `srgdqn show` prints."""
    from srgdqn.cli import show
    from srgdqn.results.result import load_result

    watched = state_of_result(load_result(source.given))
    out.print(_drawn(watched, "saved", out))
    out.print()
    return show.run([str(source.given.absolute())])


def _state(watched: RunState) -> str:
    if watched.ended:
        return "ended"
    if not watched.rounds:
        return "starting, compiling"
    silent = time.time() - watched.header.get("started", time.time()) - watched.seconds
    return f"no news for {silent:.0f} seconds" if silent > _SILENCE else "running"


def _drawn(watched: RunState, state: str, out: Any) -> Any:
    from srgdqn.cli.live_view import MOST_ROUNDS, view

    blocks = out.encoding.lower().startswith("utf")
    # In a terminal everything should fit: title, bar, state, the table's head and its caption take a dozen lines.
    most = min(MOST_ROUNDS, max(out.height - 12, 3)) if out.is_terminal else MOST_ROUNDS
    return view(watched, state, width=out.width, blocks=blocks, most=most, moves=state != _GONE)
