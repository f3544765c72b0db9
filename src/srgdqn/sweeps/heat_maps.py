"""A sweep's scores as an image: a line, heat maps, or points where the cells form no grid."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from srgdqn.figures.charts import BLUE, RED, Panel, Series, Style
from srgdqn.figures.images import draw_panel
from srgdqn.sweeps.grid import written
from srgdqn.sweeps.scores import OFTEN

if TYPE_CHECKING:
    from srgdqn.sweeps.sweep import Sweep

_LABELS = {
    "greedy-return": "greedy return",
    "final-reward": "final reward per action",
    "area": "area under the evaluations' curve",
    "solved": "share of rounds solved",
}
_WIDTH, _HEIGHT = 4.4, 3.4  # inches of a panel
_CELL_WIDTH, _CELL_HEIGHT = 0.72, 0.46  # and of a cell, at least
_LETTERS = 14  # of the caption that fit into an inch
_MOST_MAPS, _ACROSS = 12, 3
_DECADE = 10


def sweep_figure(sweep: Sweep) -> Figure:
    """The figure of a sweep. With more options than two, there is a heat map over the first two for every combination
    of the others; with more than twelve such combinations, one of the best score over the others.
    """
    figure = Figure(layout="constrained")
    names = sweep.names if sweep.cells else []
    if "space" in sweep.plan or len(names) < 2:
        _draw_points(figure, sweep, names)
    else:
        _draw_maps(figure, sweep, names)
    rounds = sorted(set(sweep.table["rounds"].drop_nulls())) if sweep.cells else [0]
    count = str(rounds[0]) if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]}"
    lost = int(sweep.table["diverged"].sum()) if sweep.cells else 0
    scored = "evaluated with their last finite parameters"
    if sweep.score == "solved":
        scored = "which solve nothing"
    elif sweep.score != "greedy-return":
        worst = "" if sweep.diverged_score is None else f" ({sweep.diverged_score:.3g})"
        scored = f"scored as the worst that finished{worst}"
    note = f"; ×k: k of its rounds diverged, {scored}" if lost else "; none diverged"
    if sweep.cells and sweep.table["often_diverged"].any():
        note += f"; {OFTEN}: more than a twentieth of them, which is the best only if there is no other"
    if sweep.failed:
        note += (
            f"; {len(sweep.failed)} of {sweep.planned} failed and {'is' if len(sweep.failed) == 1 else 'are'} not shown"
        )
    caption = f"{_LABELS[sweep.score]}, mean over {count} round{'' if rounds == [1] else 's'}{note}"
    letters = int(_LETTERS * figure.get_size_inches()[0])
    figure.supxlabel(textwrap.fill(caption, letters), fontsize="x-small", color="0.35")
    figure.suptitle(f"{sweep.base.task}: {sweep.base.algorithm}", fontsize="medium")
    return figure


def _draw_points(figure: Figure, sweep: Sweep, names: Sequence[str]) -> None:
    """The score against every option by itself."""
    panels = figure.subplots(1, max(1, len(names)), squeeze=False)[0]
    figure.set_size_inches(_WIDTH * len(panels), _HEIGHT)
    table = sweep.table
    for axes, name in zip(panels, names, strict=False):
        values = [cell.values[name] for cell in sweep.cells if name in cell.values]
        having = np.array([name in cell.values for cell in sweep.cells])
        numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        categories = () if numeric else tuple(dict.fromkeys(map(written, values)))
        x = np.array(values, float) if numeric else np.array([categories.index(written(value)) for value in values])
        order = np.argsort(x, kind="stable")
        cells = np.flatnonzero(having)[order]
        score, low, high = (table[column].to_numpy()[cells].astype(float) for column in _INTERVAL)
        alone = len(names) == 1 and numeric and "space" not in sweep.plan
        series = Series(
            "",
            Style(BLUE),
            {name: x[order]},
            score,
            np.where(np.isfinite(low), low, score),
            np.where(np.isfinite(high), high, score),
            kind="line" if alone else "points",
        )
        # Without a single score there is nothing that a logarithmic axis could be scaled to.
        log_x = bool(np.isfinite(score).any() and numeric and x.min() > 0 and x.max() >= _DECADE * x.min())
        draw_panel(axes, Panel("", _LABELS[sweep.score], {name: name}, (series,), log_x=log_x, categories=categories))
        if alone:
            axes.plot(x[order], score, linestyle="none", marker="o", markersize=4, color=BLUE, zorder=4)
        for place, value, cell in zip(x[order], score, cells, strict=True):
            if (text := _diverged_text(table, int(cell))) and np.isfinite(value):
                _mark(axes, float(place), float(value), text, color=RED, offset=5)


_INTERVAL = ("score", "score_low", "score_high")


def _draw_maps(figure: Figure, sweep: Sweep, names: Sequence[str]) -> None:
    """Heat maps over the first two options."""
    axis_y, axis_x, *others = names
    tried = {
        name: list(dict.fromkeys(cell.values[name] for cell in sweep.cells if name in cell.values)) for name in names
    }
    planned = {name: list(sweep.plan["values"][name]) for name in (axis_y, axis_x)}
    combinations = [
        dict(zip(others, chosen, strict=True)) for chosen in itertools.product(*(tried[name] for name in others))
    ]
    best_only = len(combinations) > _MOST_MAPS
    if best_only:
        combinations = [{}]
    across = 2 if len(combinations) == 4 else min(_ACROSS, len(combinations))
    down = -(-len(combinations) // across)
    figure.set_size_inches(
        across * max(_WIDTH, _CELL_WIDTH * len(planned[axis_x]) + 1.6),
        down * max(_HEIGHT, _CELL_HEIGHT * len(planned[axis_y]) + 1.2),
    )
    grid = figure.subplots(down, across, squeeze=False).ravel()
    scores = sweep.table["score"].to_numpy().astype(float)
    finite = scores[np.isfinite(scores)]
    limits = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    image = None
    for axes, fixed in zip(grid, combinations, strict=False):
        image = _draw_map(axes, sweep, (axis_y, axis_x), planned, fixed, limits)
        shown = ", ".join(f"{name} {written(value)}" for name, value in fixed.items())
        axes.set_title(f"best over {', '.join(others)}" if best_only else shown, fontsize="small")
    for axes in grid[len(combinations) :]:
        axes.remove()
    if image is not None:
        figure.colorbar(image, ax=grid[: len(combinations)].tolist(), label=_LABELS[sweep.score])


def _draw_map(
    axes: Axes,
    sweep: Sweep,
    along: tuple[str, str],
    planned: Mapping[str, Sequence[str]],
    fixed: Mapping[str, Any],
    limits: tuple[float, float],
) -> Any:
    axis_y, axis_x = along
    shown = np.full((len(planned[axis_y]), len(planned[axis_x])), np.nan)
    chosen = np.full(shown.shape, -1)
    scores = sweep.table["score"].to_numpy().astype(float)
    often = sweep.table["often_diverged"].to_list()
    tied = sweep.tied if np.isfinite(scores).any() else ()
    best = tied[0] if len(tied) == 1 else None

    def rank(number: int) -> tuple[bool, bool, float]:
        return number == best, not often[number], scores[number] if np.isfinite(scores[number]) else -np.inf

    for number, cell in enumerate(sweep.cells):
        if all(cell.values.get(name, value) == value for name, value in fixed.items()):
            # One whose estimator lacks a number stands for all its values.
            places = [
                [planned[name].index(written(cell.values[name]))] if name in cell.values else range(len(planned[name]))
                for name in along
            ]
            for at in itertools.product(*places):
                if chosen[at] < 0 or rank(number) > rank(chosen[at]):
                    shown[at], chosen[at] = scores[number], number
    image = axes.imshow(shown, origin="lower", aspect="auto", cmap="viridis", vmin=limits[0], vmax=limits[1])
    axes.set(xlabel=axis_x, ylabel=axis_y)
    axes.set_xticks(range(shown.shape[1]), planned[axis_x])
    axes.set_yticks(range(shown.shape[0]), planned[axis_y])
    axes.spines[:].set_visible(False)
    dark = limits[0] + 0.6 * (limits[1] - limits[0])
    for (row, column), number in np.ndenumerate(chosen):
        if number < 0:
            continue
        value, color = scores[number], "black" if scores[number] > dark else "white"
        axes.text(column, row, f"{value:.3g}", ha="center", va="center", fontsize="x-small", color=color)
        if text := _diverged_text(sweep.table, int(number)):
            _mark(axes, column + 0.46, row + 0.42, text, color=color, inside=True)
        if number == best:
            place = (column - 0.5, row - 0.5)
            axes.add_patch(Rectangle(place, 1, 1, fill=False, edgecolor=RED, linewidth=2, clip_on=False))
    return image


def _diverged_text(table: pl.DataFrame, cell: int) -> str:
    """How many rounds of a cell diverged, and whether that are too many; empty if none did."""
    lost, often = table["diverged"][cell], table["often_diverged"][cell]
    return f"×{lost}{OFTEN if often else ''}" if lost else ""


def _mark(axes: Axes, x: float, y: float, text: str, *, color: str, inside: bool = False, offset: float = 0) -> None:
    axes.annotate(
        text,
        (x, y),
        (0, offset),
        textcoords="offset points",
        ha="right" if inside else "center",
        va="top" if inside else "bottom",
        fontsize="x-small",
        color=color,
    )
