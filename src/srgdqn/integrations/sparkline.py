"""A curve in one line of text."""

from __future__ import annotations

from collections.abc import Sequence

BLOCKS = "▁▂▃▄▅▆▇█"
PLAIN = ".:-=+*#@"
"""For terminals that have no blocks."""


def sparkline(
    curve: Sequence[tuple[int, float]],
    *,
    end: int,
    low: float,
    high: float,
    width: int,
    marks: str = BLOCKS,
) -> str:
    """The means of a curve in `width` equal parts of the steps from 0 to `end`, drawn between `low` and `high`.

    A part without values is drawn as the one before, and is blank where there is none.

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
