"""How results are shown: tables for readers, JSON for programs."""

from __future__ import annotations

import errno
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from srgdqn.config.checks import BUDGETS
from srgdqn.errors import printable

if TYPE_CHECKING:
    from srgdqn.results.comparison import Spread, Summary
    from srgdqn.results.result import Result

NOTHING = "–"

CAPTION = (
    "final: the last 20 % of the budget; greedy: the last evaluation, on the raw reward; "
    "[ , ]: 95 % bootstrap interval of the mean over rounds"
)

_DIVERGED_SHOWN = 8
_WIDE, _NAME = 72, 16
_OUTPUT_ERRORS = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)


def console() -> Console:
    """Standard output, without rich's guesses: brackets and colons in a text are what they are."""
    return _Output(highlight=False, markup=False, emoji=False)


class _Output(Console):
    def on_broken_pipe(self) -> None:
        """Leaves the error to `srgdqn.cli.main`, where rich would end the program with code 1."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def discard_output(error: OSError) -> bool:
    """Whether an error is standard output's, as errors of files have names; if so, it is discarded from now on."""
    if error.filename is not None or error.errno not in _OUTPUT_ERRORS:
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return True


def print_json(content: Any) -> None:
    """Prints plain values as JSON; what is not finite becomes null."""
    print(json.dumps(_plain(content), indent=2, ensure_ascii=False, allow_nan=False))


def print_summary(result: Result, summary: Summary, place: str | None = None) -> None:
    """Prints what a run came to, and where it is."""
    rows = summary_rows(result, summary)
    if place is not None:
        rows.append(("saved in", place))
    print_rows(f"{summary.task} · {summary.label} · {summary.readings} readings", rows, caption=CAPTION)


def print_rows(title: str, rows: Iterable[tuple[str, str]], caption: str | None = None) -> None:
    """Prints names and what belongs to them."""
    table = _table(title, caption)
    table.show_header = False
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    _print(table, rows)


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    caption: str | None = None,
    numeric: bool = True,
) -> None:
    """Prints a table whose first column is text, and whose others are numbers (where `numeric`) or text, too."""
    table, rows = _table(title, caption), list(rows)
    table.collapse_padding = True
    widths = [max(map(len, [head, *(row[index] for row in rows)])) for index, head in enumerate(columns)]
    names = min(widths[0], _NAME)
    # Numbers stay on one line, and names make room, where that leaves enough of the names.
    whole = console().width >= max(_WIDE, names + sum(widths[1:]) + 2 * len(columns))
    table.add_column(columns[0], overflow="fold", min_width=names)
    for column in columns[1:]:
        how: Any = {"justify": "right", "no_wrap": whole} if numeric else {}
        table.add_column(column, overflow="fold", **how)
    _print(table, rows)


def _table(title: str, caption: str | None) -> Table:
    how: Any = {"title_justify": "left", "caption_justify": "left", "show_edge": False, "pad_edge": False}
    return Table(title=printable(title), caption=caption, box=SIMPLE_HEAD, **how)


def _print(table: Table, rows: Iterable[Sequence[str]]) -> None:
    for row in rows:
        table.add_row(*map(printable, row))
    console().print(table)
    console().print()


def summary_rows(result: Result, summary: Summary) -> list[tuple[str, str]]:
    """What a run came to, line by line."""
    phases = phase_seconds(result)
    ran = str(summary.rounds) if summary.rounds == summary.planned else f"{summary.rounds} of {summary.planned}"
    rows = [
        ("rounds", f"{ran}, of which {summary.reward.rounds} reached the final stretch"),
        ("diverged", diverged(summary)),
        *_what_it_came_to(result, summary),
        ("steps of all rounds", count(summary.steps)),
        ("queries per round", count(summary.queries)),
        (
            "seconds over all chunks",
            ", ".join(f"{phase} {seconds:.1f}" for phase, seconds in phases.items()) or NOTHING,
        ),
    ]
    if summary.censored:
        rows.insert(2, ("censored episodes", count(summary.censored)))
    if summary.interrupted:
        from srgdqn.results.comparison import greedy_returns, spread_of

        rows.insert(0, ("interrupted", "yes: the budget was not spent"))
        rows.insert(3, ("last reward per action", with_interval(summary.last_reward)))
        rows.insert(4, ("last greedy return", with_interval(spread_of(greedy_returns(result).values()))))
    return rows


def _what_it_came_to(result: Result, summary: Summary) -> list[tuple[str, str]]:
    per_action = [
        ("final reward per action", with_interval(summary.reward)),
        ("  interquartile mean", number(summary.reward.iqm)),
        ("  sd over rounds", number(summary.reward.sd)),
    ]
    per_episode = [
        ("final return per episode", with_interval(summary.episode_return)),
        ("final episode length", with_interval(summary.episode_length)),
    ]
    greedy = [
        ("greedy return", with_interval(summary.greedy_return)),
        ("greedy episode length", with_interval(summary.greedy_length)),
    ]
    greedy += fresh_rows(summary)
    if result.on_host:  # many environments reward every action alike, and know of no success
        return [*greedy, *per_episode, *per_action[:1]]
    return [*per_action, *per_episode, *greedy, ("greedy success", with_interval(summary.success, percentage))]


def fresh_rows(summary: Summary) -> list[tuple[str, str]]:
    """What the last and the best policies came to on fresh starts, line by line, where the best are kept."""
    averaged = summary.fresh_acting.rounds > 0
    named = {
        "last, averaged" if averaged else "last": summary.fresh_last,
        "last, not averaged": summary.fresh_acting,
        "best": summary.fresh_best,
    }
    return [
        (f"return on fresh starts: {name}", with_interval(spread)) for name, spread in named.items() if spread.rounds
    ]


def diverged(summary: Summary) -> str:
    """Which rounds diverged, and where."""
    if not summary.diverged:
        return "none"
    shown = [f"round {k} at step {count(step)}" for k, step in list(summary.diverged.items())[:_DIVERGED_SHOWN]]
    more = len(summary.diverged) - len(shown)
    return f"{len(summary.diverged)} of {summary.rounds}: {', '.join(shown)}" + (f" and {more} more" if more else "")


def phase_seconds(result: Result) -> dict[str, float]:
    """Seconds by phase, added up over chunks."""
    sums = result.timings.select("phase", "seconds").group_by("phase", maintain_order=True).sum()
    return dict(sums.iter_rows())


def budget(options: Mapping[str, Any]) -> str:
    """The budget among options.

    >>> budget({"steps": 100_000, "episodes": None})
    '100,000 steps'
    """
    (unit,) = (name for name in BUDGETS if options.get(name) is not None)
    return f"{options[unit]:,} {unit.replace('_', ' ')}"


def percentage(value: float | None) -> str:
    """A share in per cent."""
    return NOTHING if value is None else f"{100 * value:.0f} %"


def number(value: float | None) -> str:
    """A number in four digits."""
    return NOTHING if value is None else f"{value:.4g}"


def with_interval(spread: Spread, shown: Callable[[float | None], str] = number) -> str:
    """A mean and its interval."""
    mean, low, high = map(shown, (spread.mean, spread.low, spread.high))
    return mean if spread.low is None else f"{mean} [{low}, {high}]"


def count(value: float | None) -> str:
    """A large number, rounded to a whole one."""
    return NOTHING if value is None else f"{value:,.0f}"


def _plain(content: Any) -> Any:
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, Mapping):
        return {str(key): _plain(value) for key, value in content.items()}
    if isinstance(content, Sequence) and not isinstance(content, str):
        return [_plain(value) for value in content]
    return content
