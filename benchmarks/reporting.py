"""How results are shown: a table on the terminal, a JSON file, and bars in an image beside it."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

_WIDTH = 160  # where no terminal says how wide it is

console = Console(width=None if sys.stdout.isatty() else _WIDTH)


class Bar(NamedTuple):
    """A median, and between what it lies."""

    label: str
    spread: dict[str, Any]
    ours: bool


class Panel(NamedTuple):
    """Bars that are compared with each other."""

    title: str
    axis: str
    bars: Sequence[Bar]


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, names: int = 1) -> None:
    """Prints rows of text. The first columns hold names, and the others numbers."""
    table = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < names else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def between(spread: dict[str, Any], form: str = ",.0f") -> str:
    """The lowest and the highest of a spread.

    >>> between({"lowest": 1_000.2, "highest": 2_000.4})
    '1,000 to 2,000'
    """
    return f"{spread['lowest']:{form}} to {spread['highest']:{form}}"


def write_report(path: Path, report: dict[str, Any], panels: Sequence[Panel]) -> None:
    """Writes the report and, where there is anything to draw, its image under the same name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n")
    console.print(f"written to {path}")
    if panels:
        image = path.with_suffix(".png")
        _draw(image, panels)
        console.print(f"drawn in {image}")


def _draw(path: Path, panels: Sequence[Panel]) -> None:
    """Horizontal bars on a logarithmic axis, from the lowest to the highest turn around the median."""
    # Only now: a process that is started by one with much in memory counts that as its own peak.
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    tallest = max(len(panel.bars) for panel in panels)
    figure = Figure(figsize=(6.4 * columns, rows * (1.2 + 0.28 * tallest)), layout="constrained")
    for index, panel in enumerate(panels):
        axes = figure.add_subplot(rows, columns, index + 1)
        medians = [bar.spread["median"] for bar in panel.bars]
        below = [bar.spread["median"] - bar.spread["lowest"] for bar in panel.bars]
        above = [bar.spread["highest"] - bar.spread["median"] for bar in panel.bars]
        colours = ["tab:blue" if bar.ours else "0.6" for bar in panel.bars]
        bars = axes.barh(range(len(medians)), medians, xerr=(below, above), color=colours, ecolor="0.2", capsize=2)
        axes.bar_label(bars, [_short(median) for median in medians], padding=4, fontsize="small")
        axes.set_yticks(range(len(medians)), [bar.label for bar in panel.bars])
        axes.invert_yaxis()
        axes.set_xscale("log")
        # Whole powers of ten on both sides, with room for the numbers.
        axes.set_xlim(10 ** math.floor(math.log10(min(medians))), 10 ** math.ceil(math.log10(5 * max(medians))))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel(panel.axis)
        axes.set_title(panel.title)
    figure.savefig(path, dpi=150)


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.2f}"
