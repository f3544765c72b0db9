"""A chart's place in the page: its controls, its plots, what it shows in words, and the same as an image."""

from __future__ import annotations

import base64
from collections.abc import Iterable

from srgdqn.figures.charts import Chart, Panel, Series, Style
from srgdqn.paper.report.markup import Markup, anchor, join, json_script, tag
from srgdqn.paper.report.plots import dash_of, description, groups_of, labels_of, plot_data

# What marks the lines and points of the second group, of the third, and so on.
_MARKS = ("", "■", "▲", "◆", "▼")
_PATTERNS = {"dash": "6 3", "dot": "2 3", "dashdot": "6 3 2 3"}


def chart_block(chart: Chart, image: bytes, *, titles: dict[str, str]) -> Markup:
    """The block of a chart.

    Args:
      chart: the chart.
      image: it as a PNG.
      titles: of every chart of the page, by name.

    """
    data = anchor("data", chart.name)
    return tag(
        "figure",
        tag("h4", chart.title),
        _controls(chart),
        tag(
            "div", map(_plot, chart.panels), class_="plots", style=f"--columns: {min(chart.columns, len(chart.panels))}"
        ),
        tag("figcaption", chart.caption, _alternatives(chart, titles)),
        _image(chart, image),
        json_script(data, plot_data(chart)),
        class_="chart",
        id=anchor("chart", chart.name),
        data_chart=data,
    )


def _plot(panel: Panel) -> Markup:
    heading = tag("h5", panel.title) if panel.title else Markup()
    return tag("div", heading, tag("div", class_="plot", role="img", aria_label=description(panel)), class_="panel")


def _controls(chart: Chart) -> Markup:
    buttons = tag(
        "div",
        tag("button", "Reset zoom", type="button", data_reset=True),
        " ",
        tag("button", "Data as CSV", type="button", data_csv=True),
    )
    return tag("div", _axis_choice(chart), _label_choice(chart), _group_choice(chart), buttons, class_="controls")


def _axis_choice(chart: Chart) -> Markup:
    axes: dict[str, str] = {}
    switchable = [panel for panel in chart.panels if len(panel.x_labels) > 1]
    for panel in switchable:
        axes = {**panel.x_labels, **axes}
    if not axes:
        return Markup()
    first = {next(iter(panel.x_labels)) for panel in switchable}
    options = dict(axes) if len(first) == 1 else {"": "each panel’s own", **axes}
    chosen = next(iter(first)) if len(first) == 1 else ""
    group = anchor("axis", chart.name)
    inputs = (
        tag(
            "label",
            tag("input", type="radio", name=group, data_axis=name, checked=name == chosen, autocomplete="off"),
            " " + " ".join(label.split()),
        )
        for name, label in options.items()
    )
    return _fieldset("Against", inputs)


def _label_choice(chart: Chart) -> Markup:
    labels = labels_of(chart)
    if len(labels) < 2:
        return Markup()
    every = [series for panel in chart.panels for series in panel.series]
    boxes = []
    for label in labels:
        mine = [series for series in every if series.label == label]
        boxes.append(_checkbox(label, _swatch(mine[0].style), _any_shown(mine), data_label=label))
    if len(labels) > 3:
        choices = (("all", "on"), ("none", "off"))
        boxes += [tag("button", text, type="button", data_every=state) for text, state in choices]
    return _fieldset("Shown", boxes)


def _group_choice(chart: Chart) -> Markup:
    groups = groups_of(chart)
    if len(groups) < 2:
        return Markup()
    every = [series for panel in chart.panels for series in panel.series]
    boxes = []
    for place, group in enumerate(groups):
        mark = _MARKS[place % len(_MARKS)]
        shown = _any_shown(series for series in every if series.group == group)
        sign = tag("span", mark, aria_hidden="true") if mark else Markup()
        boxes.append(_checkbox(group or "others", sign, shown, data_group=group))
    return _fieldset("Groups", boxes)


def _fieldset(legend: str, content: Iterable[Markup]) -> Markup:
    return tag("fieldset", tag("legend", legend), content)


def _checkbox(text: str, sign: Markup, checked: bool, **data: str) -> Markup:
    box = tag("input", type="checkbox", checked=checked, autocomplete="off", **data)
    return tag("label", box, " ", sign, " ", text)


def _any_shown(series: Iterable[Series]) -> bool:
    return any(each.shown for each in series)


def _swatch(style: Style) -> Markup:
    """A piece of the line, which its label says all about that a listener needs."""
    dash = dash_of(style.dashes)
    line = tag(
        "line",
        x1=1,
        y1=5,
        x2=27,
        y2=5,
        stroke=style.color,
        stroke_width=3,
        stroke_dasharray=None if dash == "solid" else _PATTERNS.get(dash, dash.replace("px,", " ").removesuffix("px")),
    )
    return tag("svg", line, class_="swatch", width=28, height=10, aria_hidden="true")


def _alternatives(chart: Chart, titles: dict[str, str]) -> Markup:
    links = [tag("a", titles[name], href=f"#{anchor('chart', name)}") for name in chart.alternatives if name in titles]
    if not links:
        return Markup()
    listed = (join(", " if place else "", link) for place, link in enumerate(links))
    return join(" The same otherwise: ", listed, ".")


def _image(chart: Chart, image: bytes) -> Markup:
    # Open in the file, for readers without scripts; `page.js` closes it.
    said = "; ".join(f"{description(panel)}, against {next(iter(panel.x_labels.values()))}" for panel in chart.panels)
    source = f"data:image/png;base64,{base64.b64encode(image).decode()}"
    return tag(
        "details",
        tag("summary", "As an image"),
        tag("img", src=source, alt=" ".join(said.split())),
        class_="image",
        open=True,
    )
