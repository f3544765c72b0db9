import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srgdqn.figures.charts import STYLES, Chart, Panel, Series, Style
from srgdqn.paper.report.plots import dash_of, plot_data, rounded
from synthetic_report import bars_chart, curves_chart, points_chart


@pytest.mark.parametrize("chart", [curves_chart(), points_chart(), bars_chart()], ids=lambda chart: chart.name)
def test_every_number_of_the_chart_is_there(chart: Chart) -> None:
    data = json.loads(json.dumps(plot_data(chart), allow_nan=False))
    for panel, drawn in zip(chart.panels, data["panels"], strict=True):
        assert list(drawn["axes"]) == list(panel.x_labels)
        for series, each in zip(panel.series, drawn["series"], strict=True):
            kept = (each["label"], each["group"], each["kind"], each["shown"], each["color"])
            assert kept == (series.label, series.group, series.kind, series.shown, series.style.color)
            np.testing.assert_allclose(np.array(each["y"], float), series.y, rtol=1e-4)
            for axis, values in series.x.items():
                np.testing.assert_allclose(drawn["positions"][each["x"][axis]], values, rtol=1e-4)
            assert ("low" in each) == (series.low is not None)
            if series.low is not None:
                np.testing.assert_allclose(np.array(each["low"], float), series.low, rtol=1e-4)
                np.testing.assert_allclose(np.array(each["high"], float), series.high, rtol=1e-4)


def test_positions_that_series_share_are_there_once() -> None:
    (panel, *_) = plot_data(curves_chart())["panels"]
    assert {series["x"]["steps"] for series in panel["series"]} == {0}
    assert len(panel["positions"]) == 1 + 5 + 5


@given(st.lists(st.floats(allow_subnormal=False)))
def test_rounding_keeps_five_digits_and_what_json_can_hold(values: list[float]) -> None:
    found = rounded(np.array(values))
    json.dumps(found, allow_nan=False)
    for value, kept in zip(values, found, strict=True):
        assert kept == pytest.approx(value, rel=1e-4) if np.isfinite(value) else kept is None


def test_texts_are_no_markup_to_plotly() -> None:
    series = Series("<b>x</b>", STYLES["srg-dqn"], {"n": np.arange(2.0)}, np.arange(2.0), group="a&b")
    panel = Panel("<i>", "one\n<two>", {"n": "<n>"}, (series,), categories=("<u>", "&"))
    (drawn,) = plot_data(Chart("name", "", "", (panel,)))["panels"]
    assert drawn["series"][0]["name"] == "&lt;b&gt;x&lt;/b&gt; · a&amp;b"
    assert drawn["series"][0]["label"] == "<b>x</b>"  # compared with what controls say, never shown
    assert drawn["axes"] == {"n": "&lt;n&gt;"}
    assert drawn["layout"]["yaxis"]["title"]["text"] == "one<br>&lt;two&gt;"
    assert drawn["layout"]["xaxis"]["ticktext"] == ["&lt;u&gt;", "&amp;"]


def test_axes_are_as_the_panel_wants_them() -> None:
    left, right = (panel["layout"] for panel in plot_data(bars_chart())["panels"])
    assert (left["xaxis"]["type"], left["yaxis"]["type"]) == ("linear", "log")
    assert (right["xaxis"]["type"], right["yaxis"]["type"]) == ("log", "log")
    assert left["barmode"] == "group"
    (curves, *_) = plot_data(curves_chart())["panels"]
    assert curves["layout"]["xaxis"]["rangemode"] == "tozero"
    (points,) = plot_data(points_chart())["panels"]
    assert points["layout"]["scattermode"] == "group"


def test_every_style_has_dashes_in_plotlys_words() -> None:
    assert {dash_of(style.dashes) for style in STYLES.values()} == {"solid", "dash", "dot"}
    assert dash_of(Style("#000000", (0, (3, 1, 1, 1))).dashes) == "6px,2px,2px,2px"
