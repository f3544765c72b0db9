"""How results are shown: tables on the terminal and as Markdown, a JSON file, and bars in an image beside it."""

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


_printed: list[str] = []  # every table of this process, as Markdown


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
    _printed.append(as_markdown(title, columns, rows, names=names))


def as_markdown(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, names: int) -> str:
    """The same table for a page.

    >>> print(as_markdown("Speed", ["who", "steps/s"], [["we", "2"]], names=1))
    **Speed**
    <BLANKLINE>
    | who | steps/s |
    |---|---:|
    | we | 2 |
    """
    rules = ["---" if index < names else "---:" for index in range(len(columns))]
    lines = [f"| {' | '.join(cells)} |" for cells in (columns, *rows)]
    return "\n".join([f"**{title}**", "", lines[0], f"|{'|'.join(rules)}|", *lines[1:]])


def between(spread: dict[str, Any], form: str = ",.0f") -> str:
    """The lowest and the highest of a spread.

    >>> between({"lowest": 1_000.2, "highest": 2_000.4})
    '1,000 to 2,000'
    """
    return f"{spread['lowest']:{form}} to {spread['highest']:{form}}"


def multiple(ratio: dict[str, Any] | None) -> str:
    """A ratio of medians, and between what it lies; nothing where there is none.

    >>> multiple({"median": 2.04, "lowest": 1.5, "highest": 3.0})
    '2.0 (1.5 to 3.0)'
    """
    return "" if ratio is None else f"{ratio['median']:,.1f} ({between(ratio, ',.1f')})"


def place_for(script: str) -> Path:
    """Where a script writes by default."""
    return Path(script).parent / "measured" / f"{Path(script).stem}.json"


def write_report(path: Path, report: dict[str, Any], panels: Sequence[Panel]) -> None:
    """Writes the report, the tables printed so far and, where there is anything to draw, an image under one name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".md").write_text("\n\n".join(_printed) + "\n", encoding="utf-8")
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
