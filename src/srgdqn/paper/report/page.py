"""The report's page: one HTML file that needs no network, rendered by jinja2 from `page.html`."""

from __future__ import annotations

import base64
import functools
import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from srgdqn.figures.charts import Chart, Series, Style
from srgdqn.paper.report.contents import Report, readings_of
from srgdqn.paper.report.markdown import text_of, time_text
from srgdqn.paper.report.plots import dash_of, description, groups_of, labels_of, plot_data

# What marks the lines and points of the second group, of the third, and so on.
_MARKS = ("", "■", "▲", "◆", "▼")
_PATTERNS = {"solid": "", "dash": "6 3", "dot": "2 3", "dashdot": "6 3 2 3"}


def render_page(report: Report, images: Mapping[str, bytes]) -> str:
    """The page of a report, with PNGs of its charts by name."""
    charts = [chart for section in report.sections for chart in section.charts]
    return _template().render(
        report=report,
        readings=readings_of(report.claims),
        titles={section.name: section.title for section in report.sections},
        controls={chart.name: _controls(chart, images[chart.name]) for chart in charts},
        style=Markup(_resource("page.css")),
        scripts=[trusted_script(get_plotlyjs()), trusted_script(_resource("page.js"))] if charts else [],
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


@functools.cache
def _template() -> Any:
    environment = Environment(loader=FunctionLoader(_resource), autoescape=True, undefined=StrictUndefined)
    environment.globals["anchor"] = anchor
    filters: dict[str, Any] = {
        "description": description,
        "number_class": lambda dtype: Markup(' class="number"') if dtype.is_numeric() else "",
        "split_paragraphs": lambda text: [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()],
        "text_of": text_of,
        "time_text": time_text,
    }
    environment.filters |= filters
    return environment.get_template("page.html")


def _controls(chart: Chart, image: bytes) -> dict[str, Any]:
    """What the template shows of a chart beside its own texts: choices, the image, and the data for `page.js`."""
    every = [series for panel in chart.panels for series in panel.series]
    labels = [_label(name, [each for each in every if each.label == name]) for name in labels_of(chart)]
    groups = [
        {"name": name, "mark": _MARKS[place % len(_MARKS)], "shown": any(s.shown for s in every if s.group == name)}
        for place, name in enumerate(groups_of(chart))
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


def _label(name: str, series: list[Series]) -> dict[str, Any]:
    style: Style = series[0].style
    dash = dash_of(style.dashes)
    dashes = _PATTERNS.get(dash, dash.replace("px,", " ").removesuffix("px"))
    return {"name": name, "color": style.color, "dashes": dashes, "shown": any(each.shown for each in series)}


def _resource(name: str) -> str:
    return files("srgdqn.paper.report").joinpath(name).read_text(encoding="utf-8")
