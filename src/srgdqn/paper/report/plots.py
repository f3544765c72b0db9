"""From charts to what the page draws them from with plotly: numbers, looks and layouts, as plain JSON.

`page.js` puts traces together, since it does so again whenever a reader switches axis or series. Every list of
positions is there once, however many series share it, and numbers have five significant digits: a page with a hundred
curves stays small.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import numpy as np

from srgdqn.figures.charts import Chart, Panel, Series
from srgdqn.results.curves import AXES

_DIGITS = 5
_DASHES = {"-": "solid", "--": "dash", ":": "dot", "-.": "dashdot"}
_LINE_WIDTH = 2
# Series of one style in several groups differ in these: the first for the first group, and so on.
_SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down")
_HATCHES = ("", "/", ".", "x", "\\")
_INK, _GRID = "#222222", "#e3e3e3"


def plot_data(chart: Chart) -> dict[str, Any]:
    """All that `page.js` needs to draw a chart, one plot per panel."""
    groups = groups_of(chart)
    return {
        "name": chart.name,
        "panels": [_panel(panel, groups) for panel in chart.panels],
    }


def labels_of(chart: Chart) -> list[str]:
    """The labels of a chart's series, each once."""
    return list(dict.fromkeys(series.label for panel in chart.panels for series in panel.series))


def groups_of(chart: Chart) -> list[str]:
    """The groups of a chart's series, each once."""
    return list(dict.fromkeys(series.group for panel in chart.panels for series in panel.series))


def description(panel: Panel) -> str:
    """A panel in words, without what stands on its x axis, for readers who cannot see it."""
    named = list(dict.fromkeys(series.label for series in panel.series if series.label))
    what = f"{panel.title}: {panel.y_label}" if panel.title else panel.y_label
    return " ".join(f"{what}{', for ' + ', '.join(named) if named else ''}".split())


def dash_of(dashes: str | tuple) -> str:
    """Matplotlib's dashes in plotly's words.

    >>> dash_of("--"), dash_of((0, (3, 1)))
    ('dash', '6px,2px')
    """
    if isinstance(dashes, str):
        return _DASHES[dashes]
    return ",".join(f"{length * _LINE_WIDTH:g}px" for length in dashes[1])


def rounded(values: np.ndarray) -> list[float | int | None]:
    """Numbers as JSON can hold them: whole ones as they are, others to five digits, None for what is not finite.

    >>> rounded(np.array([1_234_567, 0.123456, np.nan]))
    [1234567, 0.12346, None]
    """
    found: list[float | int | None] = []
    for value in np.asarray(values, float).tolist():
        if not np.isfinite(value):
            found.append(None)
        elif value.is_integer() and abs(value) < 1e15:
            found.append(int(value))
        else:
            short = float(f"{value:.{_DIGITS}g}")
            found.append(short if np.isfinite(short) else value)  # the largest numbers cannot be rounded up
    return found


def _panel(panel: Panel, groups: Sequence[str]) -> dict[str, Any]:
    places: dict[tuple[float | int | None, ...], int] = {}
    series = []
    for each in panel.series:
        x = {axis: places.setdefault(tuple(rounded(each.x[axis])), len(places)) for axis in panel.x_labels}
        series.append(_series(each, groups) | {"x": x})
    return {
        "title": panel.title,
        "description": description(panel),
        "axes": {name: _text(label) for name, label in panel.x_labels.items()},
        "positions": [list(values) for values in places],
        "series": series,
        "layout": _layout(panel),
    }


def _series(series: Series, groups: Sequence[str]) -> dict[str, Any]:
    place = groups.index(series.group)
    found: dict[str, Any] = {
        "label": series.label,
        "group": series.group,
        "name": _text(" · ".join(part for part in (series.label, series.group) if part)),
        "kind": series.kind,
        "shown": series.shown,
        "y": rounded(series.y),
        "color": series.style.color,
        "line": {"color": series.style.color, "width": _LINE_WIDTH, "dash": dash_of(series.style.dashes)},
        "symbol": _SYMBOLS[place % len(_SYMBOLS)],
        "hatch": _HATCHES[place % len(_HATCHES)],
        # Lines of the first group are bare; those of others have a few marks to differ from them.
        "marked": place > 0,
    }
    if series.low is not None and series.high is not None:
        found |= {"low": rounded(series.low), "high": rounded(series.high)}
    return found


def _layout(panel: Panel) -> dict[str, Any]:
    edges = [edge for each in panel.series for edge in (each.y, each.low, each.high) if edge is not None]
    horizontal = _axis(panel.log_x, [x for each in panel.series for x in each.x.values()], "SI")
    vertical = _axis(panel.log_y, edges, "power")
    vertical["title"] = {"text": _text(panel.y_label), "font": {"size": 13}}
    lines_only = all(series.kind == "line" for series in panel.series)
    if panel.categories:
        horizontal |= {
            "tickvals": list(range(len(panel.categories))),
            "ticktext": [_text(name) for name in panel.categories],
            "range": [-0.5, len(panel.categories) - 0.5],
            "showgrid": False,
        }
    elif lines_only and not panel.log_x and all(name in AXES for name in panel.x_labels):
        horizontal["rangemode"] = "tozero"  # what is spent starts at nothing
    layout: dict[str, Any] = {
        "font": {"family": "system-ui, sans-serif", "size": 14, "color": _INK},
        "margin": {"l": 10, "r": 10, "t": 8, "b": 10},
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "showlegend": False,
        "hovermode": "closest",
        "hoverlabel": {"font": {"size": 14}, "namelength": -1},
        "xaxis": horizontal,
        "yaxis": vertical,
    }
    if any(series.kind == "bars" for series in panel.series):
        layout |= {"barmode": "group", "bargap": 0.2}
    if panel.categories and all(series.kind == "points" for series in panel.series):
        layout |= {"scattermode": "group", "scattergap": 0.2}
    return layout


def _axis(log: bool, values: Sequence[np.ndarray], exponents: str) -> dict[str, Any]:
    axis: dict[str, Any] = {
        "type": "log" if log else "linear",
        "automargin": True,
        "zeroline": False,
        "gridcolor": _GRID,
        "linecolor": "#808080",
        "exponentformat": "power" if log else exponents,
        "tickfont": {"size": 13},
    }
    positive = np.concatenate([np.ravel(each).astype(float) for each in values]) if values else np.array([])
    positive = positive[np.isfinite(positive) & (positive > 0)]
    if log and len(positive) and positive.max() >= 20 * positive.min():
        axis["dtick"] = 1  # powers of ten, where there are some
    return axis


def _text(text: str) -> str:
    """Text for plotly, which takes some HTML in texts for markup."""
    return html.escape(text, quote=False).replace("\n", "<br>")
