"""Figures as images: charts, and the learning curves of runs."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import EngFormatter

from srgdqn.figures import check_figure
from srgdqn.figures.charts import Chart, Panel, PointSize, Series, point_size
from srgdqn.figures.learning_panels import Band, default_axes, learning_panel
from srgdqn.results.curves import AXES, Axis
from srgdqn.results.result import Result
from srgdqn.runs.destination import disk_errors_reported, written_whole

_PANEL_WIDTH, _PANEL_HEIGHT, _LEGEND_ROW = 4.4, 3.2, 0.24  # inches
_ABOVE_BANDS = 3
_NOTE_HEIGHT = 0.065  # of a panel's height

# Series of one style in several groups differ in these: the first for the first group, and so on.
_LINE_MARKERS = ("", "s", "^", "D", "v")
_POINT_MARKERS = ("o", "s", "^", "D", "v")
# Error bars of points, and those of small points.
_BARS: tuple[dict[str, Any], ...] = ({"linewidth": 1.3}, {"linewidth": 0.5, "alpha": 0.35})


def draw_chart(chart: Chart) -> Figure:
    """An image of a chart: what is shown of every panel against its first axis, with one legend for all.

    Titles are those of the panels: the chart's own, and its caption, belong to the text around the image.
    """
    columns = min(chart.columns, len(chart.panels))
    rows = -(-len(chart.panels) // columns)
    groups = list(dict.fromkeys(series.group for panel in chart.panels for series in panel.series))
    handles: dict[tuple[str, str], Any] = {}
    figure = Figure(layout=ConstrainedLayoutEngine(w_pad=0.12))
    for index, panel in enumerate(chart.panels):
        axes = figure.add_subplot(rows, columns, index + 1)
        for key, handle in draw_panel(axes, panel, groups=groups).items():
            handles.setdefault(key, handle)
    named = {key: handle for key, handle in handles.items() if any(key)}
    width, height = columns * _PANEL_WIDTH, rows * _PANEL_HEIGHT
    if named:
        several = len({group for _, group in named}) > 1
        texts = [_legend_text(label, group if several else "") for label, group in named]
        # About eleven letters of small type fit into an inch, and a sample of the line takes six.
        across = max(1, min(len(texts), int(11 * width) // (max(map(len, texts)) + 6)))
        height += _LEGEND_ROW * -(-len(texts) // across)
        figure.legend(
            list(named.values()), texts, loc="outside lower center", ncols=across, frameon=False, fontsize="small"
        )
    figure.set_size_inches(width, height)
    return figure


def draw_panel(axes: Axes, panel: Panel, *, groups: Sequence[str] = ()) -> dict[tuple[str, str], Any]:
    """Draws what is shown of a panel against its first axis; returns the legend handles by label and group.

    `groups` are those of the whole chart, so that each looks the same in every panel.
    """
    along = next(iter(panel.x_labels))
    drawn = [series for series in panel.series if series.shown]
    order = list(dict.fromkeys((*groups, *(each.group for each in drawn))))
    # Points of one category stand beside each other.
    beside = [series for series in drawn if panel.categories and series.kind == "points"]
    handles: dict[tuple[str, str], Any] = {}
    size = point_size(panel)
    for series in drawn:
        x = np.asarray(series.x[along], float)
        if series in beside:
            x = x + 0.8 / len(beside) * (beside.index(series) - (len(beside) - 1) / 2)
        place = order.index(series.group)
        handle = _draw_series(axes, series, x, place, size, panel.horizontal)
        handles.setdefault((series.label, series.group), handle)  # that of a line's first part
    _format_axes(axes, panel, along, drawn)
    _write_notes(axes, drawn)
    return handles


def comparison_figure(
    results: Sequence[Result], *, x: Axis | None = None, band: Band = "interval", labels: Sequence[str] | None = None
) -> Figure:
    """The learning curves of runs of one task in one panel, as `learning_panel` describes them, with a caption.

    Args:
      results: the runs.
      x: what the curves are drawn against; by default the budget's unit.
      band: what is drawn around the mean.
      labels: one per run.

    """
    along = default_axes(results)[:1] if x is None else (x,)
    panel = learning_panel(results, axes=along, band=band, labels=labels, count_diverged=True)
    figure = Figure(figsize=(6.8, 4.4), layout="constrained")
    axes = figure.subplots()
    draw_panel(axes, panel)
    axes.legend(frameon=False, fontsize="small")
    shown = {
        "interval": "mean over rounds and its 95 % bootstrap interval",
        "sd": "mean over rounds and one standard deviation to either side",
        "none": "mean over rounds",
    }[band]
    rounds = sorted({result.rounds.height for result in results})
    count = str(rounds[0]) if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]}"
    figure.supxlabel(f"{shown}; {count} round{'' if rounds == [1] else 's'}", fontsize="x-small", color="0.35")
    return figure


def save_figure(figure: Figure, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Writes a figure in the format of its suffix, atomically; the same figure gives the same bytes."""
    target = check_figure(path, overwrite=overwrite)
    suffix = target.suffix.removeprefix(".").lower()
    dates: dict[str, dict[str, Any]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}
    reproducible = matplotlib.rc_context({"svg.hashsalt": "srgdqn", "svg.fonttype": "none", "pdf.fonttype": 42})
    with written_whole(target) as scratch, disk_errors_reported(target), reproducible:
        figure.savefig(scratch, format=suffix, dpi=200, metadata=dates[suffix])
    return target


def _draw_series(
    axes: Axes, series: Series, x: np.ndarray, place: int, size: PointSize, horizontal: bool = False
) -> Any:
    """Draws a series of the group in that place among the groups."""
    look: dict[str, Any] = {"color": series.style.color, "label": series.label, "zorder": _ABOVE_BANDS}
    if series.kind == "points":
        look |= {"linestyle": "none", "marker": _pick(_POINT_MARKERS, place), "markersize": 1 if size == "small" else 5}
        if size == "ticks":
            look |= {"marker": "|", "markersize": 4, "markeredgewidth": 0.4}
    else:
        look |= {"linestyle": series.style.dashes, "linewidth": 1.6}
        if marker := _pick(_LINE_MARKERS, place):
            look |= {"marker": marker, "markersize": 4, "markevery": max(1, len(x) // 8)}
    y = np.asarray(series.y, float)
    (handle,) = axes.plot(*((y, x) if horizontal else (x, y)), **look)
    if series.low is not None and series.high is not None:
        if series.kind == "points":
            bars = axes.hlines if horizontal else axes.vlines
            bars(x, series.low, series.high, color=series.style.color, **_BARS[size == "small"])
        else:
            axes.fill_between(x, series.low, series.high, color=series.style.color, alpha=0.18, linewidth=0)
    return handle


def _format_axes(axes: Axes, panel: Panel, along: str, drawn: Sequence[Series]) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    if panel.horizontal:
        axes.set(title=panel.title, xlabel=panel.y_label)
        axes.set_yticks(range(len(panel.categories)), panel.categories)
        axes.set_ylim(len(panel.categories) - 0.5, -0.5)
        axes.grid(False, axis="y")
        axes.axvline(0, color="0.4", linewidth=0.9, zorder=1)
        return
    axes.set(title=panel.title, xlabel=panel.x_labels[along], ylabel=panel.y_label)
    if panel.log_x:
        axes.set_xscale("log")
    elif along in AXES and all(series.kind == "line" for series in drawn):
        # Costs start at 0.
        axes.margins(x=0)
        axes.set_xlim(left=0)
    if panel.log_y:
        axes.set_yscale("log")
    if panel.categories:
        crowded = sum(map(len, panel.categories)) > 40
        axes.set_xticks(
            range(len(panel.categories)),
            panel.categories,
            rotation=35 if crowded else 0,
            ha="right" if crowded else "center",
            rotation_mode="anchor",
        )
        axes.set_xlim(-0.5, len(panel.categories) - 0.5)
        axes.grid(False, axis="x")
    elif along in ("steps", "queries") and not panel.log_x:
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    if panel.y_categories:
        axes.set_yticks(range(len(panel.y_categories)), panel.y_categories, fontsize="xx-small")
        axes.set_ylim(-0.5, len(panel.y_categories) - 0.5)


def _write_notes(axes: Axes, drawn: Sequence[Series]) -> None:
    """The notes of lines beside the panel, each as near to its line's end as the others allow."""
    noted = [series for series in drawn if series.note and np.isfinite(series.y).any()]
    axes.get_ylim()  # settles the limits, which heights depend on
    to_height = axes.transScale + axes.transLimits
    ends = [np.asarray(series.y, float)[np.isfinite(series.y)][-1] for series in noted]
    heights = [float(to_height.transform((1.0, end))[1]) for end in ends]
    for series, height in zip(noted, apart(heights, _NOTE_HEIGHT), strict=True):
        axes.text(
            1.01,
            height,
            series.note,
            transform=axes.transAxes,
            color=series.style.color,
            fontsize="x-small",
            verticalalignment="center",
        )


def apart(heights: Sequence[float], gap: float) -> list[float]:
    """Heights between 0 and 1 in the same order, moved as far as needed to be a gap apart.

    >>> apart([0.5, 0.5, 0.1], 0.25)
    [0.5, 0.75, 0.1]
    """
    order = sorted(range(len(heights)), key=lambda index: heights[index])
    placed = dict.fromkeys(order, 0.0)
    lowest, highest = -math.inf, 1.0
    for index in order:
        placed[index] = lowest = max(min(heights[index], 1.0), lowest, 0.0)
        lowest += gap
    for index in reversed(order):
        placed[index] = highest = min(placed[index], highest)
        highest -= gap
    return [placed[index] for index in range(len(heights))]


def _legend_text(label: str, group: str) -> str:
    return f"{label} ({group})" if label and group else label or group


def _pick(choices: Sequence[str], place: int) -> str:
    return choices[place % len(choices)]
