"""The report's page: one HTML file that needs no network, rendered by jinja2 from `page.html`.

What plotly draws is there as plain JSON: numbers, looks and layouts. `page.js` puts traces together, since it does so
again whenever a reader switches axis or series. Every list of positions is there once, however many series share it,
and numbers have five significant digits: a page with a hundred curves stays small.
"""

from __future__ import annotations

import base64
import functools
import html
import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from srgdqn.figures.charts import Chart, Panel, Series, point_size
from srgdqn.paper.report.contents import MARKS, Report, readings_of
from srgdqn.paper.report.markdown import counted, text_of, time_text
from srgdqn.results.curves import AXES

_DIGITS = 5
_LINE_WIDTH = 2
# Matplotlib's dashes in plotly's words, and as SVG has them.
_DASHES = {"-": ("solid", ""), "--": ("dash", "6 3"), ":": ("dot", "2 3"), "-.": ("dashdot", "6 3 2 3")}
# Series of one style in several groups differ in these, on the plots and beside the groups' names.
_SYMBOLS = (("circle", ""), ("square", "■"), ("triangle-up", "▲"), ("diamond", "◆"), ("triangle-down", "▼"))
# Verdicts differ in these as well as in colour.
_VERDICT_SYMBOLS = {"holds": "✓", "fails": "✕", "undecided": "?", "moot": "○"}
_PLOT_HEIGHT = 320
_AXIS_HEIGHT, _ROW_GAP, _ROW_HEIGHT = 62, 7, 9
_INK, _GRID = "#222222", "#e3e3e3"


def render_page(report: Report, images: Mapping[str, bytes]) -> str:
    """The page of a report, with PNGs of its charts by name."""
    charts = report.charts
    drawing = [get_plotlyjs(), _resource("page.js")] if charts else []
    return _template().render(
        report=report,
        readings=readings_of(report.cards),
        titles={section.name: section.title for section in report.sections},
        meanings={
            mark: meaning
            for mark, meaning in MARKS.items()
            if any(mark in marks for card in report.cards for marks in card.marks.values())
        },
        several_parts=any(len(parts) > 1 for card in report.cards for parts in card.parts.values()),
        figures={
            section.name: shown[0]
            for section in report.sections
            if (shown := [each for each in section.charts if each.panels])
        },
        symbols=_VERDICT_SYMBOLS,
        controls={chart.name: _controls(chart, images[chart.name]) for chart in charts},
        style=Markup(_resource("page.css")),
        # What is folded opens before it is drawn for print.
        scripts=[trusted_script(source) for source in (_resource("folds.js"), *drawing)],
    )


def trusted_script(source: str) -> Markup:
    """A script of our own as part of the page; a ValueError if it would end its element early."""
    if re.search(r"</script|<!--", source, re.IGNORECASE):
        raise ValueError("the source has '</script' or '<!--' in it, which would end or upset its element")
    return Markup(source)


def json_data(data: Any) -> Markup:
    r"""Data for scripts as JSON. No text in it can end the element: `<` is written as `\u003c`."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))


def anchor(*parts: str) -> str:
    """A valid `id` made of names: without white space.

    >>> anchor("chart", "figure 2")
    'chart-figure-2'
    """
    return re.sub(r"\s+", "-", "-".join(parts))


def asides(text: str) -> list[str]:
    """A text in parts, of which every second stands in parentheses.

    >>> asides("0.318 (0 %) dqn-adam")
    ['0.318 ', '(0 %)', ' dqn-adam']
    """
    return re.split(r"(\([^()]*\))", text)


@functools.cache
def _template() -> Any:
    environment = Environment(loader=FunctionLoader(_resource), autoescape=True, undefined=StrictUndefined)
    environment.globals |= {"anchor": anchor, "counted": counted}
    filters: dict[str, Any] = {
        "asides": asides,
        "description": description,
        "plot_height": plot_height,
        "number_class": lambda dtype: Markup(' class="number"') if dtype.is_numeric() else "",
        "split_paragraphs": lambda text: [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()],
        "text_of": text_of,
        "time_text": time_text,
    }
    environment.filters |= filters
    return environment.get_template("page.html")


def _resource(name: str) -> str:
    return files("srgdqn.paper.report").joinpath(name).read_text(encoding="utf-8")


# What a reader can switch on and off


def _controls(chart: Chart, image: bytes) -> dict[str, Any]:
    """What the template shows of a chart beside its own texts: choices, the image, and the data for `page.js`."""
    every = [series for panel in chart.panels for series in panel.series]
    styles = {series.label: series.style for series in reversed(every)}  # that of the first of a label
    labels = [
        {
            "name": label,
            "color": styles[label].color,
            "dashes": _DASHES[styles[label].dashes][1],
            "shown": any(series.shown for series in every if series.label == label),
        }
        for label in dict.fromkeys(series.label for series in every)
    ]
    pointed = all(series.kind == "points" for series in every)
    groups = [
        {
            "name": name,
            "mark": _SYMBOLS[place % len(_SYMBOLS)][1] or ("●" if pointed else ""),
            "color": _only_color([series for series in every if series.group == name]),
            "shown": any(series.shown for series in every if series.group == name),
        }
        for place, name in enumerate(_groups(chart))
    ]
    axes, axis = _axes(chart)
    said = "; ".join(f"{description(panel)}, against {next(iter(panel.x_labels.values()))}" for panel in chart.panels)
    return {
        "axes": axes,
        "axis": axis,
        "labels": labels if len(labels) > 1 else [],
        "groups": groups if len(groups) > 1 else [],
        "image": f"data:image/png;base64,{base64.b64encode(image).decode()}",
        "said": " ".join(said.split()),
        "data": json_data(plot_data(chart)),
    }


def _only_color(series: Sequence[Series]) -> str:
    """The colour of some series if they share one, and else the text's."""
    colors = {each.style.color for each in series}
    return colors.pop() if len(colors) == 1 else _INK


def _axes(chart: Chart) -> tuple[dict[str, str], str]:
    """The x axes that a reader can choose from, and which one is chosen at first ("": each panel's own)."""
    axes: dict[str, str] = {}
    switchable = [panel for panel in chart.panels if len(panel.x_labels) > 1]
    for panel in switchable:
        axes = {**panel.x_labels, **axes}
    if not axes:
        return {}, ""
    first = {next(iter(panel.x_labels)) for panel in switchable}
    axes = {name: " ".join(label.split()) for name, label in axes.items()}
    return (axes, first.pop()) if len(first) == 1 else ({"": "each panel’s own", **axes}, "")


def _groups(chart: Chart) -> list[str]:
    return list(dict.fromkeys(series.group for panel in chart.panels for series in panel.series))


def description(panel: Panel) -> str:
    """A panel in words, without what stands on its x axis, for readers who cannot see it."""
    named = list(dict.fromkeys(series.label for series in panel.series if series.label))
    what = f"{panel.title}: {panel.y_label}" if panel.title else panel.y_label
    return " ".join(f"{what}{', for ' + ', '.join(named) if named else ''}".split())


def plot_height(panel: Panel) -> int:
    """Pixels: what suits curves, or as much as the rows of a forest plot need."""
    if not panel.horizontal:
        return _PLOT_HEIGHT
    return _AXIS_HEIGHT + len(panel.categories) * (_ROW_GAP + _ROW_HEIGHT * len(panel.series))


# What plotly draws


def plot_data(chart: Chart) -> dict[str, Any]:
    """All that `page.js` needs to draw a chart, one plot per panel."""
    groups = _groups(chart)
    return {"name": chart.name, "panels": [_panel(panel, groups) for panel in chart.panels]}


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
        series.append(_series(each, groups.index(each.group)) | {"x": x})
    return {
        "title": panel.title,
        "description": description(panel),
        "axes": {name: _text(label) for name, label in panel.x_labels.items()},
        "positions": [list(values) for values in places],
        "series": series,
        "layout": _layout(panel),
        "points": point_size(panel),
        "horizontal": panel.horizontal,
    }


def _series(series: Series, place: int) -> dict[str, Any]:
    """A series of the group in that place among the groups."""
    color = series.style.color
    found: dict[str, Any] = {
        "label": series.label,
        "group": series.group,
        "name": _text(" · ".join(part for part in (series.label, series.group, series.note) if part)),
        "kind": series.kind,
        "shown": series.shown,
        "y": rounded(series.y),
        "color": color,
        "line": {"color": color, "width": _LINE_WIDTH, "dash": _DASHES[series.style.dashes][0]},
        "symbol": _SYMBOLS[place % len(_SYMBOLS)][0],
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
    if panel.y_categories:
        vertical |= {
            "tickvals": list(range(len(panel.y_categories))),
            "ticktext": [_text(name) for name in panel.y_categories],
            "range": [-0.5, len(panel.y_categories) - 0.5],
            "tickfont": {"size": 10},
        }
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
    if panel.horizontal:
        rows = len(panel.categories)
        layout["xaxis"] = vertical | {"zeroline": True, "zerolinecolor": "#707070", "zerolinewidth": 1.5}
        layout["yaxis"] = horizontal | {"range": [rows - 0.5, -0.5]}
    if panel.categories and not lines_only:
        layout |= {"scattermode": "group", "scattergap": 0.35 if panel.horizontal else 0.2}
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
