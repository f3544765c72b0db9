"""The view of a watched run in a terminal."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from srgdqn.cli.presentation import budget, count, number
from srgdqn.integrations.loggers import EPISODES, EPSILON, LENGTH, LOSS, MAX_Q, RECENT, RETURN
from srgdqn.integrations.watching import Curve, RunState

MOST_ROUNDS = 20
"""Rounds that have rows of their own; more are summarised by lowest, median and highest."""

BLOCKS = "▁▂▃▄▅▆▇█"
PLAIN = ".:-=+*#@"
"""For terminals that have no blocks."""

_BAR, _SPARK, _NARROW_SPARK = 40, 24, 8


class _Column(NamedTuple):
    title: str
    name: str
    shown: Callable[[float | None], str]


_COLUMNS = (
    _Column("step", "step", count),
    _Column("episodes", EPISODES, count),
    _Column("ep_rew_mean", RETURN, number),
    _Column("ep_len_mean", LENGTH, number),
    _Column("loss", LOSS, number),
    _Column("max_q", MAX_Q, number),
    _Column("ε", EPSILON, number),
    _Column("diverged", "diverged_at", count),
)
_DISPENSABLE = ("ε", "max_q", "ep_len_mean", "loss", "episodes")  # where a terminal is narrow, in this order


def view(
    watched: RunState, state: str, *, width: int, blocks: bool = True, most: int = MOST_ROUNDS, moves: bool = True
) -> RenderableType:
    """The whole view. `state` is shown as it is; `width` is the terminal's, and `blocks` whether it can draw them.
    Speed and time left are shown of a run that `moves` and has not ended.
    """
    parts: list[RenderableType] = [_title(watched), _progress(watched, moves=moves and not watched.ended), Text(state)]
    if watched.rounds:
        parts.append(_table(watched, width=width, marks=BLOCKS if blocks else PLAIN, most=most))
    return Group(*parts)


def _title(watched: RunState) -> Text:
    header = watched.header
    rounds = header["rounds"]
    amount = budget({header["budget"]["unit"]: header["budget"]["amount"]})
    title = f"{header['task']} · {header['algorithm']} · {rounds} round{'s' if rounds > 1 else ''} · {amount}"
    return Text(title, style="bold")


def _progress(watched: RunState, *, moves: bool) -> RenderableType:
    words = [f"{100 * watched.share:.0f} %"]
    if watched.speed is not None and moves:
        words.append(f"{watched.speed:,.0f} steps/s")
    if watched.seconds_left is not None and moves:
        words.append(f"{duration(watched.seconds_left)} left")
    line = Table.grid(padding=(0, 1))
    line.add_row(ProgressBar(total=1.0, completed=watched.share, width=_BAR), Text(" · ".join(words)))
    return line


def _table(watched: RunState, *, width: int, marks: str, most: int) -> Table:
    name, curves = watched.curves()
    end = max(known["step"] for known in watched.rounds.values())
    what = "return" if name == RETURN else "reward"
    several = len(watched.rounds) > most
    rows = _summary(watched, curves) if several else _rows(watched, curves)
    columns, spark = _fitting(rows, width)
    values = [value for row in rows for _, value in row.curve]
    low, high = (min(values), max(values)) if values else (0.0, 0.0)

    caption = f"ep_rew_mean, ep_len_mean: over the last {RECENT} episodes"
    if values:
        mean = "mean over rounds, " if several else ""
        caption += f"; {what}: {mean}over steps, from {number(low)} (lowest) to {number(high)} (highest)"
    table = Table(box=SIMPLE_HEAD, caption=caption, caption_justify="left")
    table.show_edge, table.pad_edge, table.collapse_padding = False, False, True
    table.add_column("round", no_wrap=True)
    for column in columns:
        table.add_column(column.title, justify="right", no_wrap=True)
    table.add_column(what, no_wrap=True)
    for row in rows:
        drawn = sparkline(row.curve, end=end, low=low, high=high, width=spark, marks=marks) if row.curve else ""
        table.add_row(row.name, *(_cell(row, column) for column in columns), drawn)
    return table


class _Row(NamedTuple):
    name: str
    known: dict[str, Any]  # numbers by name, or texts in their place
    curve: Curve


def _rows(watched: RunState, curves: dict[int, Curve]) -> list[_Row]:
    return [_Row(str(n), known, curves.get(n, [])) for n, known in sorted(watched.rounds.items())]


def _summary(watched: RunState, curves: dict[int, Curve]) -> list[_Row]:
    """The lowest, median and highest of each number by itself; how many rounds have diverged, and all their curves."""
    every = list(watched.rounds.values())
    together = [point for curve in curves.values() for point in curve]
    diverged = sum("diverged_at" in known for known in every)
    return [
        _Row("lowest", _over(every, min), []),
        _Row("median", _over(every, statistics.median), []),
        _Row("highest", _over(every, max), []),
        _Row("all", {"diverged_at": f"{diverged} of {len(every)}"}, together),
    ]


def _fitting(rows: list[_Row], width: int) -> tuple[list[_Column], int]:
    """The columns that a terminal of this width has room for, and how wide the curves are."""
    columns = list(_COLUMNS)
    for dropped in (None, *_DISPENSABLE):
        columns = [column for column in columns if column.title != dropped]
        cells = sum(max(len(text) for text in (c.title, *(_cell(r, c) for r in rows))) + 2 for c in columns)
        left = width - cells - max(len(text) for text in ("round", *(row.name for row in rows))) - 2
        if left >= _NARROW_SPARK:
            break
    return columns, max(min(left, _SPARK), _NARROW_SPARK)


def _cell(row: _Row, column: _Column) -> str:
    value = row.known.get(column.name)
    return value if isinstance(value, str) else column.shown(value)


def _over(rounds: list[dict[str, Any]], of: Callable[[list[float]], float]) -> dict[str, Any]:
    found = {c.name: [known[c.name] for known in rounds if c.name in known] for c in _COLUMNS}
    return {name: of(values) for name, values in found.items() if values and name != "diverged_at"}


def sparkline(
    curve: Sequence[tuple[int, float]],
    *,
    end: int,
    low: float,
    high: float,
    width: int,
    marks: str = BLOCKS,
) -> str:
    """A curve in one line of text: its means in `width` equal parts of the steps from 0 to `end`, between `low` and
    `high`. A part without values is drawn as the one before.

    >>> sparkline([(10, 0.0), (20, 1.0), (40, 2.0)], end=40, low=0.0, high=2.0, width=4)
    '▁▅▅█'
    """
    parts: list[list[float]] = [[] for _ in range(width)]
    for step, value in curve:
        parts[min(max(-(-step * width // max(end, 1)) - 1, 0), width - 1)].append(value)
    drawn, mark = [], " "
    last = max((i for i, part in enumerate(parts) if part), default=-1)
    for part in parts[: last + 1]:
        if part:
            share = (sum(part) / len(part) - low) / (high - low) if high > low else 0.5
            mark = marks[min(max(int(share * len(marks)), 0), len(marks) - 1)]
        drawn.append(mark)
    return "".join(drawn).ljust(width)


def duration(seconds: float) -> str:
    """A span of time.

    >>> duration(65), duration(3_725), duration(90_061)
    ('1:05', '1:02:05', '25:01:01')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
