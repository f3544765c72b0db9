import numpy as np
import pytest

from srgdqn.figures.charts import STYLES, Chart, Panel, Series, data_of, needs_log
from synthetic_report import curves_chart


def test_every_point_has_a_row_of_its_panel_and_series() -> None:
    chart = curves_chart(points=20)
    data = data_of(chart)
    assert data.height == 3 * 10 * 20
    for panel in chart.panels:
        for series in panel.series:
            rows = data.filter(panel=panel.title, series=series.label, group=series.group)
            np.testing.assert_array_equal(rows["y"].to_numpy(), series.y)
            for axis in panel.x_labels:
                np.testing.assert_array_equal(rows[axis].to_numpy(), series.x[axis])
            low = np.full(20, np.nan) if series.low is None else series.low
            np.testing.assert_array_equal(rows["low"].to_numpy(), low)


def test_an_axis_that_a_panel_lacks_is_missing_there() -> None:
    x = np.arange(2.0)
    panels = tuple(
        Panel(name, "y", {name: name}, (Series("a", STYLES["srg-dqn"], {name: x}, x),)) for name in ("n", "m")
    )
    data = data_of(Chart("c", "", "", panels))
    assert data["n"].to_list() == [0.0, 1.0, None, None]
    assert data["m"].to_list() == [None, None, 0.0, 1.0]


@pytest.mark.parametrize(
    ("values", "shown", "needed"),
    [
        ([10.0, 99.0], True, False),
        ([10.0, 100.0, np.nan], True, True),
        ([10.0, 100.0], False, False),  # what is not shown needs nothing
        ([0.0, 100.0], True, False),  # and 0 has no logarithm
        ([np.nan], True, False),
    ],
)
def test_a_logarithmic_axis_is_needed_where_some_values_are_ten_times_others(
    values: list[float], shown: bool, needed: bool
) -> None:
    y = np.array(values)
    series = Series("a", STYLES["srg-dqn"], {"n": np.arange(len(y))}, y, shown=shown)
    assert needs_log([series]) == needed
    assert not needs_log([])
