"""What a sweep came to, for readers and for programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from srgdqn.cli.presentation import NOTHING, number, print_json, print_table
from srgdqn.errors import InputError
from srgdqn.sweeps.grid import written
from srgdqn.sweeps.scores import OFTEN
from srgdqn.sweeps.sweep import Sweep

_SHOWN = 30  # cells with scores of a longer table

_CAPTION = (
    "final reward: per action in the last 20 % of the budget, of the rounds that got there; greedy return: the last "
    "evaluation, on the raw reward, of all rounds, those that diverged by their last finite parameters; [ , ]: 95 % "
    "bootstrap interval of the mean over rounds"
)


_OF_SCORES = {
    "area": "; area: under the curve of greedy evaluations, per step",
    "solved": "; solved: the share of rounds whose greedy return is {threshold} or more",
}
_NAMED = 6  # cells that tie, in a line


def print_sweep_as_json(swept: Sweep, folder: Path | None, figure: Path | None) -> None:
    """Prints every cell, and where the sweep is."""
    tied = _tied(swept)
    best = tied[0] if len(tied) == 1 else None
    print_json(
        {
            "task": swept.base.task,
            "algorithm": swept.base.algorithm,
            "score": swept.score,
            "threshold": swept.threshold,
            "diverged_score": swept.diverged_score,
            "planned": swept.planned,
            "interrupted": swept.interrupted,
            "failed": len(swept.failed),
            "best": None if best is None else {"cell": best, "options": swept.values(best)},
            "tied": tied if best is None else [],
            "cells": swept.table.to_dicts(),
            "saved": None if folder is None else str(folder),
            "figure": None if figure is None else str(figure),
        }
    )


def print_sweep(swept: Sweep, folder: Path | None, figure: Path | None) -> None:
    """Prints a table of the cells, the best first, which is the best or which tie, and where the sweep is."""
    tied = _tied(swept)
    if swept.cells:
        _print_cells(swept, tied)
    if len(tied) == 1:
        row = swept.table.row(tied[0], named=True)
        lost = f"; {row['diverged']} of its {row['rounds']} rounds diverged" if row["diverged"] else ""
        lost += ", the smallest share of all cells" if row["often_diverged"] else ""
        print(f"The best cell: {_given(swept, tied[0])} (score {_interval(row, 'score')}{lost})")
    elif tied:
        score = number(swept.table["score"][tied[0]])
        named = "; ".join(_given(swept, cell) for cell in tied[:_NAMED])
        more = f"; and {len(tied) - _NAMED} more" if len(tied) > _NAMED else ""
        which = f"all {len(tied)} cells" if len(tied) == len(swept.cells) else f"{len(tied)} cells"
        print(f"No cell is the best: {which} tie by {swept.score} at {score}: {named}{more}. {_advice(swept, tied)}")
    print("not saved: give --out DIR to save a sweep" if folder is None else f"The sweep is in {folder}.")
    if figure is not None:
        print(f"The figure is in {figure}.")


def _given(swept: Sweep, cell: int) -> str:
    """A cell's values as on a command line."""
    return " ".join(f"--{name.replace('_', '-')} {written(value)}" for name, value in swept.values(cell).items())


def _advice(swept: Sweep, tied: list[int]) -> str:
    """How cells that tie can be told apart: by another score in which they do, if there is one."""
    for score in ("area", "final-reward", "greedy-return"):
        values = swept.table[score.replace("-", "_")].gather(tied)
        if score != swept.score and values.n_unique() > 1:
            return f"They differ in another score: give --score {score}."
    return "They tie by every other score, too: train longer, or sweep other values."


def _print_cells(swept: Sweep, tied: list[int]) -> None:
    """Those that failed come last, all of them, as they have no score; why they did takes a line, which no column has
    room for.
    """
    share = pl.when("often_diverged").then(pl.col("diverged") / pl.col("rounds")).otherwise(0.0)
    ordered = swept.table.sort(
        share, "score", "final_reward", descending=[False, True, True], nulls_last=True, maintain_order=True
    )
    scored, failed = (ordered.filter(pl.col("failure").is_null() == good) for good in (True, False))
    columns = {"final reward": "final_reward", "greedy return": "greedy_return"}
    if swept.score in ("area", "solved"):
        columns[swept.score] = "score"
    mark = "★" if len(tied) == 1 else "="
    rows = [
        (
            "✗" if row["failure"] else mark if row["cell"] in tied else "",
            *(_value(values[name]) if name in values else NOTHING for name in swept.names),
            *(_interval(row, name) for name in columns.values()),
            "failed" if row["failure"] else _diverged(row),
        )
        for row in pl.concat([scored.head(_SHOWN), failed]).iter_rows(named=True)
        for values in [swept.values(row["cell"])]
    ]
    counted = f"{len(swept.cells)} cells by {swept.score}, the best first"
    counted += f"; {len(swept.failed)} failed" if swept.failed else ""
    caption = _CAPTION + _OF_SCORES.get(swept.score, "").format(threshold=number(swept.threshold))
    if len(tied) > 1:
        caption += "; =: the cells that tie"
    if swept.diverged_score is not None:
        score, worst = swept.score.replace("-", " "), number(swept.diverged_score)
        caption += f"; in the score, a diverged round has the {score} of the worst that finished, {worst}"
    if scored["often_diverged"].any():
        caption += f"; {OFTEN}: more than a twentieth of the rounds diverged, so that it comes after all others"
    print_table(
        f"{swept.base.task} · {swept.base.algorithm}: {counted}",
        ("", *swept.names, *columns, "diverged"),
        rows,
        caption=caption,
    )
    if scored.height > _SHOWN:
        print(f"{scored.height - _SHOWN} cells further down are not shown.")


def _diverged(row: dict[str, Any]) -> str:
    return f"{row['diverged']}/{row['rounds']}{OFTEN if row['often_diverged'] else ''}"


def _value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else written(value)


def _interval(row: dict[str, Any], name: str) -> str:
    mean, low, high = (number(row[f"{name}{part}"]) for part in ("", "_low", "_high"))
    return mean if low == NOTHING else f"{mean} [{low}, {high}]"


def _tied(swept: Sweep) -> list[int]:
    """The cells with the highest score; none where no cell has one."""
    try:
        return list(swept.tied)
    except InputError:
        return []
