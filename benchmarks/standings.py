"""From the measurements of all turns to a row per contender and arrangement, with ratios of medians."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from arrangements import Arrangement, Measurement
from lineup import Contender
from measuring import spread

Row = dict[str, Any]


class Entry(NamedTuple):
    """What is measured once in every turn."""

    task: str
    contender: Contender
    arrangement: Arrangement


def standings(turns: Mapping[Entry, Sequence[Measurement]], comparisons: Mapping[str, Mapping[str, str]]) -> list[Row]:
    """The rows. Ratios are of the best arrangement for so many rounds to the other's best.

    `comparisons` has the name of each ratio, and by job who it is a multiple of.
    """
    rows = [_row(entry, measurements) for entry, measurements in turns.items() if measurements]
    best: dict[tuple[str, int, str], Row] = {}
    for row in rows:
        place = row["task"], row["rounds"], row["contender"]
        if place not in best or _rate(row) > _rate(best[place]):
            best[place] = row
    for row in rows:
        row["best_arrangement"] = best[row["task"], row["rounds"], row["contender"]] is row
        for name, others in comparisons.items():
            other = best.get((row["task"], row["rounds"], others.get(row["job"], "")))
            row[name] = _ratio(row, other) if row["best_arrangement"] and other is not None else None
    return rows


def _row(entry: Entry, measurements: Sequence[Measurement]) -> Row:
    return {
        "task": entry.task,
        "job": entry.contender.job,
        "rounds": entry.arrangement.rounds,
        "contender": entry.contender.name,
        "label": entry.contender.label,
        "ours": entry.contender.ours,
        "arrangement": entry.arrangement.name,
        "steps_per_second": spread([each.steps_per_second for each in measurements]),
        "warm_up_seconds": statistics.median(each.warm_up_seconds for each in measurements),
        "peak_mib": statistics.median(each.peak_mib for each in measurements),
    }


def _rate(row: Row) -> float:
    return row["steps_per_second"]["median"]


def _ratio(row: Row, other: Row) -> dict[str, Any]:
    """The ratio of medians, and between what the ratios within each turn lie: the machine's speed drifts."""
    turns = row["steps_per_second"]["turns"], other["steps_per_second"]["turns"]
    return {
        **spread([mine / theirs for mine, theirs in zip(*turns, strict=False)]),
        "median": _rate(row) / _rate(other),
    }
