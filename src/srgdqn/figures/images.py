"""Figures as images: charts, and the learning curves of runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import EngFormatter

from srgdqn.figures import check_figure
from srgdqn.figures.charts import Chart, Panel, Series
from srgdqn.figures.learning_panels import Band, default_axes, learning_panel
from srgdqn.results.curves import AXES, Axis
from srgdqn.results.result import Result
from srgdqn.runs.destination import disk_errors_reported, written_whole

_PANEL_WIDTH, _PANEL_HEIGHT, _LEGEND_ROW = 4.4, 3.2, 0.24  # inches
_ABOVE_BANDS = 3

# Series of one style in several groups differ in these: the first for the first group, and so on.
_LINE_MARKERS = ("", "s", "^", "D", "v")
_POINT_MARKERS = ("o", "s", "^", "D", "v")
_HATCHES = ("", "///", "...", "xxx", "\\\\\\")


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
    """Draws what is shown of a panel, without a legend.

    Args:
      axes: where to draw.
      panel: what to draw, against the first of its axes.
      groups: all groups of the chart that the panel belongs to, so that each looks the same in every panel.

    Returns:
      The legend handle of each series, by label and group.

    """
    along = next(iter(panel.x_labels))
    drawn = [series for series in panel.series if series.shown]
    order = {group: place for place, group in enumerate(dict.fromkeys((*groups, *(each.group for each in drawn))))}
    offsets, width = _side_by_side(drawn, along, panel)
    handles = {}
    for series, offset in zip(drawn, offsets, strict=True):
        x = np.asarray(series.x[along], float) + offset
        handles[series.label, series.group] = _draw_series(axes, series, x, width, order[series.group])
    _format_axes(axes, panel, along, drawn)
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
    with written_whole(target) as scratch, disk_errors_reported(target), _reproducible():
        figure.savefig(scratch, format=suffix, dpi=200, metadata=dates[suffix])
    return target


@contextmanager
def _reproducible() -> Iterator[None]:
    with matplotlib.rc_context({"svg.hashsalt": "srgdqn", "svg.fonttype": "none", "pdf.fonttype": 42}):
        yield


def _draw_series(axes: Axes, series: Series, x: np.ndarray, width: float, place: int) -> Any:
    color, y = series.style.color, np.asarray(series.y, float)
    edges = None if series.low is None or series.high is None else (series.low, series.high)
    if series.kind == "line":
        marks: Mapping[str, Any] = {}
        if marker := _pick(_LINE_MARKERS, place):
            marks = dict(marker=marker, markersize=4, markevery=max(1, len(x) // 8))
        (line,) = axes.plot(
            x, y, color=color, linestyle=series.style.dashes, linewidth=1.6, zorder=_ABOVE_BANDS, **marks
        )
        line.set_label(series.label)
        if edges is not None:
            axes.fill_between(x, *edges, color=color, alpha=0.18, linewidth=0)
        return line
    if series.kind == "points":
        (line,) = axes.plot(x, y, color=color, linestyle="none", marker=_pick(_POINT_MARKERS, place), markersize=5)
        line.set(label=series.label, zorder=_ABOVE_BANDS)
        if edges is not None:
            axes.vlines(x, *edges, color=color, linewidth=1.3)
        return line
    bars = axes.bar(x, y, width=width, color=color, label=series.label)
    if hatch := _pick(_HATCHES, place):
        for bar in bars:
            bar.set(hatch=hatch, edgecolor="white", linewidth=0)
    if edges is not None:
        axes.vlines(x, *edges, color="0.2", linewidth=1.1)
    return bars


def _side_by_side(drawn: Sequence[Series], along: str, panel: Panel) -> tuple[list[float], float]:
    """How far each series is moved so that bars, and points of one category, stand beside each other; a bar's width."""
    moved = [series.kind == "bars" or (series.kind == "points" and bool(panel.categories)) for series in drawn]
    positions = np.unique([float(x) for series in drawn if series.kind == "bars" for x in series.x[along]])
    distance = 1.0 if panel.categories or len(positions) < 2 else float(np.diff(positions).min())
    width = 0.8 * distance / max(1, sum(moved))
    slots = iter(width * (np.arange(sum(moved)) - (sum(moved) - 1) / 2))
    return [float(next(slots)) if move else 0.0 for move in moved], width


def _format_axes(axes: Axes, panel: Panel, along: str, drawn: Sequence[Series]) -> None:
    axes.set(title=panel.title, xlabel=panel.x_labels[along], ylabel=panel.y_label)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
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


def _legend_text(label: str, group: str) -> str:
    return f"{label} ({group})" if label and group else label or group


def _pick(choices: Sequence[str], place: int) -> str:
    return choices[place % len(choices)]
