"""`srgdqn watch`: shows the progress of a run."""

from __future__ import annotations

import contextlib
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
from srgdqn.runs.unfinished import how_to_resume

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
    try:
        return _watch(asked.run, once=asked.once or not sys.stdout.isatty())
    except KeyboardInterrupt:
        return INTERRUPTED


def _watch(given: Path, *, once: bool) -> int:
    """Shows the rows of a run, once or until it has ended, and then its results."""
    from rich.live import Live
    from rich.text import Text

    from srgdqn.cli.presentation import console

    is_file = given.suffix == ".jsonl" and not given.is_dir()
    rows = given if is_file else rows_file(given)
    out, reader, watched, seen = console(), LineReader(rows), RunState(), False
    with contextlib.nullcontext() if once else Live(console=out, auto_refresh=False, transient=True) as live:
        while True:
            lines = reader.read()
            for line in lines or ():
                watched.update(line)
            seen = seen or lines is not None
            is_saved = lines is None and not is_file and (given / MANIFEST).exists()
            abandoned = not is_file and is_abandoned(given)
            removed = seen and lines is None
            if live is None or is_saved or abandoned or removed or (is_file and watched.ended):
                break
            waiting = Text(f"waiting for a run to {given} to begin (Ctrl-C ends this)")
            live.update(_drawn(watched, _state(watched), out) if watched.header else waiting, refresh=True)
            time.sleep(_PAUSE)
    if is_saved:
        return _show_saved(given, out)
    if not seen:
        what = "rows" if is_file else "run, saved or running,"
        raise InputError(f"there is no {what} in {given}. Give the DIR of 'srgdqn train … --out DIR'.")
    lost = abandoned or (removed and not is_file)
    if watched.header:
        out.print(_drawn(watched, _GONE if lost else _state(watched), out))
    if lost:
        raise InputError(
            f"the run to {given} ended without being saved. What it had come to is in {rows}, as far as it was "
            f"written. {how_to_resume(given) or 'Train it again.'}"
        )
    return 0


def _show_saved(folder: Path, out: Any) -> int:
    """The last view, from a run's tables, and below it what `srgdqn show` prints."""
    from srgdqn.cli import show
    from srgdqn.results.result import load_result

    out.print(_drawn(state_of_result(load_result(folder)), "saved", out))
    out.print()
    return show.run([str(folder.absolute())])


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
