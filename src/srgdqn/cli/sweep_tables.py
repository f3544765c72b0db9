"""What a sweep came to, for readers and for programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from srgdqn.cli.presentation import NOTHING, number, print_json, print_table
from srgdqn.errors import InputError
from srgdqn.sweeps.grid import SCORES, written
from srgdqn.sweeps.scores import OFTEN
from srgdqn.sweeps.sweep import Sweep

_SHOWN = 30  # cells with scores of a longer table

_CAPTION = (
    "final reward: per action in the last 20 % of the budget, of the rounds that got there; greedy return: the last "
    "evaluation, on the raw reward, of all rounds, those that diverged by their last finite parameters; [ , ]: 95 % "
    "bootstrap interval of the mean over rounds"
)


def print_sweep_as_json(swept: Sweep, folder: Path | None, figure: Path | None) -> None:
    """Prints every cell, and where the sweep is."""
    best = _best(swept)
    print_json(
        {
            "task": swept.base.task,
            "algorithm": swept.base.algorithm,
            "score": swept.score,
            "diverged_score": swept.diverged_score,
            "planned": swept.planned,
            "interrupted": swept.interrupted,
            "failed": len(swept.failed),
            "best": None if best is None else {"cell": best, "options": swept.values(best)},
            "cells": swept.table.to_dicts(),
            "saved": None if folder is None else str(folder),
            "figure": None if figure is None else str(figure),
        }
    )


def print_sweep(swept: Sweep, folder: Path | None, figure: Path | None) -> None:
    """Prints a table of the cells, the best first, and where the sweep is."""
    best = _best(swept)
    if swept.cells:
        _print_cells(swept, best)
    if best is not None:
        given = " ".join(f"--{name.replace('_', '-')} {written(value)}" for name, value in swept.values(best).items())
        row = swept.table.row(best, named=True)
        lost = f"; {row['diverged']} of its {row['rounds']} rounds diverged" if row["diverged"] else ""
        lost += ", the smallest share of all cells" if row["often_diverged"] else ""
        print(f"The best cell: {given} (score {_interval(row, 'score')}{lost})")
        if (equals := len(swept.tied)) > 1:
            other = next(score for score in SCORES if score != swept.score)
            print(
                f"{equals} cells tie for the best score; this one has the highest final reward of them. To separate "
                f"them, give --score {other} or train longer."
            )
    print("not saved: give --out DIR to save a sweep" if folder is None else f"The sweep is in {folder}.")
    if figure is not None:
        print(f"The figure is in {figure}.")


def _print_cells(swept: Sweep, best: int | None) -> None:
    """Those that failed come last, all of them, as they have no score; why they did takes a line, which no column has
    room for.
    """
    share = pl.when("often_diverged").then(pl.col("diverged") / pl.col("rounds")).otherwise(0.0)
    ordered = swept.table.sort(
        share, "score", "final_reward", descending=[False, True, True], nulls_last=True, maintain_order=True
    )
    scored, failed = (ordered.filter(pl.col("failure").is_null() == good) for good in (True, False))
    rows = [
        (
            "✗" if row["failure"] else "★" if row["cell"] == best else "",
            *map(_value, swept.values(row["cell"]).values()),
            *(_interval(row, name) for name in ("final_reward", "greedy_return")),
            "failed" if row["failure"] else _diverged(row),
        )
        for row in pl.concat([scored.head(_SHOWN), failed]).iter_rows(named=True)
    ]
    counted = f"{len(swept.cells)} cells by {swept.score}, the best first"
    counted += f"; {len(swept.failed)} failed" if swept.failed else ""
    caption = _CAPTION
    if swept.diverged_score is not None:
        worst = number(swept.diverged_score)
        caption += f"; in the score, a diverged round has the final reward of the worst that finished, {worst}"
    if scored["often_diverged"].any():
        caption += f"; {OFTEN}: more than a twentieth of the rounds diverged, so that it comes after all others"
    print_table(
        f"{swept.base.task} · {swept.base.algorithm}: {counted}",
        ("", *swept.values(0), "final reward", "greedy return", "diverged"),
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


def _best(swept: Sweep) -> int | None:
    try:
        return swept.best
    except InputError:
        return None
