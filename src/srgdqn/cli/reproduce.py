"""`srgdqn reproduce`: the paper's Figure 2 at its own scale, and what it shows, with intervals."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from srgdqn.cli.parsing import parse, whole

if TYPE_CHECKING:
    from srgdqn.studies.cells import Cell, Listener
    from srgdqn.studies.figure_2 import Contrast


@dataclass(frozen=True)
class Reproduce:
    """Trains the paper's four algorithms on its three tasks, at its own budgets and rounds, and draws its Figure 2.

    A cell (one algorithm on one task) that is finished is never computed again unless its configuration changed, so an
    interrupted reproduction goes on where it stopped. Beside the figures stands a table of SRG-DQN against every other
    algorithm, with 95 % bootstrap intervals over rounds.
    """

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("results")
    """Folder of the figures, the tables and the cells."""
    readings: tuple[Literal["corrected", "printed"], ...] = ("corrected", "printed")
    """Sets of readings to reproduce the figure with."""
    controls: tyro.conf.FlagCreatePairsOff[bool] = False
    """Train every control as well, and draw a second figure with all algorithms."""
    seed: Annotated[int, whole("seed", 0)] = 0
    """Seed that every round's own seed is derived from."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print the table as JSON, and nothing else, on standard output."""
    quiet: tyro.conf.FlagCreatePairsOff[bool] = False
    """Show neither progress nor tables."""


def run(words: Sequence[str]) -> int:
    """Reproduces Figure 2."""
    asked: Reproduce = parse(Reproduce, words, command="reproduce")

    from srgdqn.algorithms import ALGORITHMS, PAPER
    from srgdqn.cli import INTERRUPTED
    from srgdqn.cli.presentation import print_json
    from srgdqn.errors import InputError
    from srgdqn.figures import save_figure
    from srgdqn.program_cache import enable_program_cache
    from srgdqn.store.destination import make_folder, write_file
    from srgdqn.studies import figure_2
    from srgdqn.studies.cells import compute

    if not asked.readings:
        raise InputError("no set of readings was given. Give 'corrected', 'printed' or both after --readings.")
    chosen = tuple(dict.fromkeys(asked.readings))
    algorithms = tuple(ALGORITHMS) if asked.controls else PAPER
    folder = make_folder(asked.out)
    enable_program_cache()
    cells = [cell for name in chosen for cell in figure_2.cells(name, algorithms, seed=asked.seed)]
    try:
        with _progress(cells, shown=not asked.quiet) as (listener, say):
            results = compute(cells, folder / "cells", listener=listener, say=say)
    except KeyboardInterrupt:
        print(f"interrupted: finished cells are kept in {folder}, and the same command goes on there.", file=sys.stderr)
        return INTERRUPTED

    contrasts: list[Contrast] = []
    written = []
    for name in chosen:
        panels: dict[str, Sequence[str]] = {f"figure-2-{name}": PAPER}
        if asked.controls:
            panels[f"figure-2-{name}-controls"] = algorithms
        for stem, shown in panels.items():
            figure = figure_2.draw(results, name, shown)
            written += [save_figure(figure, folder / f"{stem}.{kind}", overwrite=True) for kind in ("png", "pdf")]
        contrasts += figure_2.contrasts(results, name, algorithms)
    table = figure_2.as_table(contrasts)
    written.append(write_file(folder / "figure-2.csv", table.write_csv().encode()))
    written.append(write_file(folder / "figure-2.md", figure_2.as_markdown(contrasts).encode()))
    written.append(write_file(folder / "diverged.csv", figure_2.diverged_rounds(results).write_csv().encode()))
    if asked.json:
        print_json({"contrasts": table.to_dicts(), "files": [str(path) for path in written]})
    elif not asked.quiet:
        _print(contrasts)
        for path in written:
            print(path)
    return 0


def _print(contrasts: Sequence[Contrast]) -> None:
    from srgdqn.cli.presentation import print_table
    from srgdqn.studies.figure_2 import interval_text

    for place in dict.fromkeys((contrast.task, contrast.readings) for contrast in contrasts):
        mine = [contrast for contrast in contrasts if (contrast.task, contrast.readings) == place]
        first = mine[0]
        champion = f"SRG-DQN scores {first.score:.3f}, {first.champion_diverged} of its rounds diverged"
        print_table(
            f"{first.task}, {first.readings}: {champion}",
            ("against", "score", "difference [95 %]", "log sd ratio [95 %]", "diverged"),
            [
                (
                    contrast.against,
                    f"{contrast.other_score:.3f}",
                    interval_text(contrast.difference),
                    interval_text(contrast.log_sd_ratio),
                    str(contrast.diverged),
                )
                for contrast in mine
            ],
        )


@contextmanager
def _progress(cells: Sequence[Cell], *, shown: bool) -> Iterator[tuple[Listener, Any]]:
    """One bar over all cells on standard error, where that is a terminal; what is said is printed there in any case."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    hidden = not (shown and console.is_terminal)
    bar = Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, disable=hidden)
    shares = dict.fromkeys((cell.name for cell in cells), 0.0)
    with bar:
        task = bar.add_task("Figure 2", total=len(cells))

        def listen(cell: Cell, report: Any) -> None:
            shares[cell.name] = report.share
            bar.update(task, completed=sum(shares.values()), description=cell.name)

        yield listen, console.print
