from dataclasses import replace
from pathlib import Path

import matplotlib.colors
import matplotlib.text
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from srgdqn.config.algorithms import ALGORITHMS, PAPER
from srgdqn.errors import InputError
from srgdqn.figures import check_figure
from srgdqn.figures.charts import GREY, STYLES, Chart, Panel, Series, Style, point_size
from srgdqn.figures.images import apart, comparison_figure, draw_chart, save_figure
from srgdqn.paper.experiment import YARDSTICKS
from srgdqn.results.curves import Axis, curve
from synthetic_report import LABELS, costs_chart, curves_chart, points_chart
from synthetic_runs import synthetic


def band_of(axes: Axes, index: int) -> np.ndarray:
    return axes.collections[index].get_paths()[0].vertices


def spanned(axes: Axes, index: int, x: float) -> tuple[float, float]:
    at = band_of(axes, index)
    column = at[at[:, 0] == x][:, 1]
    return float(column.min()), float(column.max())


def test_lines_are_the_means_and_bands_the_intervals() -> None:
    results = [synthetic(algorithm=name, rounds=6, steps=6_000, noise=k) for k, name in enumerate(PAPER)]
    figure = comparison_figure(results)
    (axes,) = figure.axes
    lines = axes.get_lines()
    labels = [f"{name} (0 of 6 diverged)" for name in PAPER]
    assert [line.get_label() for line in lines] == labels
    assert [text.get_text() for text in axes.get_legend().get_texts()] == labels
    for index, (line, result) in enumerate(zip(lines, results, strict=True)):
        rewards = result.curves.sort("round", "step")["reward"].to_numpy().reshape(6, 6)
        np.testing.assert_array_equal(line.get_xdata(), np.arange(1_000, 7_000, 1_000))
        np.testing.assert_allclose(line.get_ydata(), rewards.mean(0))
        low, high = curve(result).interval_band()
        assert spanned(axes, index, 3_000) == pytest.approx((low[2], high[2]))
        assert line.get_zorder() > axes.collections[index].get_zorder()
    assert axes.get_title() == "MountainCar"
    assert axes.get_xlabel() == "environment steps"
    assert axes.get_ylabel() == "reward per action\n(windows of 1,000 steps)"
    assert figure.get_supxlabel() == "mean over rounds and its 95 % bootstrap interval; 6 rounds"


def test_runs_of_one_algorithm_differ_in_style_and_label() -> None:
    results = [synthetic(eta=eta, rounds=1, steps=3_000) for eta in (0.1, 0.2, 0.3)]
    (axes,) = comparison_figure(results).axes
    lines = axes.get_lines()
    assert [line.get_label() for line in lines] == [f"srg-dqn, eta {eta} (0 of 1 diverged)" for eta in (0.1, 0.2, 0.3)]
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 3
    assert lines[0].get_color() == STYLES["srg-dqn"].color
    assert len(axes.collections) == 0  # one round has no band
    many = comparison_figure([synthetic(seed=seed, steps=2_000) for seed in range(12)])  # more than spare styles
    assert len(many.axes[0].get_lines()) == 12


@pytest.mark.parametrize(("x", "label"), [("queries", "gradient queries"), ("seconds", "training seconds per round")])
def test_the_x_axis_can_be_a_cost(x: Axis, label: str) -> None:
    result = synthetic(rounds=2, steps=5_000)
    (axes,) = comparison_figure([result], x=x).axes
    np.testing.assert_allclose(axes.get_lines()[0].get_xdata(), curve(result, x=x).x)
    assert axes.get_xlabel() == label
    assert axes.get_xlim()[0] == 0


def test_an_axis_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="not every run has its budget in episodes"):
        comparison_figure([synthetic(steps=2_000)], x="episodes")
    with pytest.raises(InputError, match=r"unknown axis 'step'\. Did you mean 'steps'"):
        comparison_figure([synthetic(steps=2_000)], x="step")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="different tasks"):
        comparison_figure([synthetic(steps=2_000), synthetic("Pendulum", steps=2_000)])


def test_every_algorithm_has_a_style_of_its_own() -> None:
    assert STYLES.keys() == ALGORITHMS.keys() | {*YARDSTICKS}
    assert {STYLES[name].color for name in YARDSTICKS} == {GREY}  # and nothing else is
    assert [name for name, style in STYLES.items() if style.color == GREY] == list(YARDSTICKS)
    assert len(set(STYLES.values())) == len(STYLES)


@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_figures_are_written_by_suffix_and_always_alike(tmp_path: Path, suffix: str, magic: bytes) -> None:
    figure = comparison_figure([synthetic(rounds=3, steps=3_000)])
    path = save_figure(figure, tmp_path / f"one.{suffix}")
    again = save_figure(comparison_figure([synthetic(rounds=3, steps=3_000)]), tmp_path / f"two.{suffix}")
    assert path.read_bytes().startswith(magic)
    assert path.read_bytes() == again.read_bytes()
    assert sorted(item.name for item in tmp_path.iterdir()) == [f"one.{suffix}", f"two.{suffix}"]


def test_nothing_is_overwritten_by_accident(tmp_path: Path) -> None:
    figure, path = Figure(), tmp_path / "a.png"
    path.write_text("precious")
    with pytest.raises(InputError, match="exists already"):
        save_figure(figure, path)
    assert path.read_text() == "precious"
    save_figure(figure, path, overwrite=True)
    assert path.read_bytes().startswith(b"\x89PNG")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(InputError, match="exists already"):
        check_figure(tmp_path / "folder.png", overwrite=True)


def test_places_where_no_figure_can_be_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"End it in \.png, \.pdf or \.svg"):
        check_figure(tmp_path / "a.gif")
    with pytest.raises(InputError, match="is not a folder"):
        check_figure(tmp_path / "nowhere" / "a.png")
    with pytest.raises(InputError, match="cannot be written"):
        save_figure(Figure(), "/proc/a.png")


def test_an_image_shows_what_is_shown_of_a_chart() -> None:
    chart = curves_chart()
    figure = draw_chart(chart)
    for panel, axes in zip(chart.panels, figure.axes, strict=True):
        shown = [series for series in panel.series if series.shown]
        along = next(iter(panel.x_labels))
        assert (axes.get_title(), axes.get_xlabel()) == (panel.title, panel.x_labels[along])
        assert [line.get_label() for line in axes.get_lines()] == [series.label for series in shown]
        for line, series in zip(axes.get_lines(), shown, strict=True):
            np.testing.assert_array_equal(line.get_xdata(), series.x[along])
            np.testing.assert_array_equal(line.get_ydata(), series.y)
            assert line.get_color() == series.style.color
        assert len(axes.collections) == sum(series.low is not None for series in shown)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [label for label in LABELS if label != "dqn-adam"]


def test_groups_are_told_apart_where_several_are_shown() -> None:
    chart = curves_chart(labels=LABELS[:2])
    panels = tuple(
        replace(panel, series=tuple(replace(each, shown=True) for each in panel.series)) for panel in chart.panels
    )
    figure = draw_chart(replace(chart, panels=panels))
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == [f"{label} ({group})" for group in ("corrected", "printed") for label in LABELS[:2]]
    looks = [(line.get_color(), line.get_linestyle(), line.get_marker()) for line in figure.axes[0].get_lines()]
    assert len(set(looks)) == 4


def test_points_of_a_category_stand_beside_each_other() -> None:
    (axes,) = draw_chart(points_chart()).axes
    (panel,) = points_chart().panels
    assert [text.get_text() for text in axes.get_xticklabels()] == list(panel.categories)
    starts = [line.get_xdata()[0] for line in axes.get_lines()]
    np.testing.assert_allclose(starts, np.array([-1, 0, 1]) * 0.8 / 3)
    for line, errors, series in zip(axes.get_lines(), axes.collections, panel.series, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), series.y)
        for segment, low, high in zip(errors.get_segments(), series.low, series.high, strict=True):  # type: ignore[arg-type]
            np.testing.assert_allclose(segment[:, 1], [low, high])


def test_axes_may_be_logarithmic() -> None:
    left, right = draw_chart(costs_chart()).axes
    assert (left.get_yscale(), right.get_xscale(), right.get_yscale()) == ("log", "log", "log")


def test_panels_are_in_rows_and_the_caption_is_not_drawn() -> None:
    chart = replace(curves_chart(), columns=2)
    figure = draw_chart(chart)
    figure.draw_without_rendering()
    tops = [round(axes.get_position().y1, 3) for axes in figure.axes]
    assert tops[0] == tops[1] > tops[2]
    texts = [text.get_text() for text in figure.findobj(matplotlib.text.Text)]
    assert chart.caption not in texts
    assert chart.title not in texts


def test_many_points_are_small_and_names_of_rows_stand_on_the_y_axis() -> None:
    (few,) = points_chart().panels
    many = replace(few.series[0], x={"task": np.arange(200.0)}, y=np.zeros(200), low=None, high=None)
    crowded = replace(few, series=(*few.series, many), categories=())
    rows = replace(few, categories=(), y_categories=("below", "above"))
    assert [point_size(panel) for panel in (few, crowded, rows)] == ["large", "small", "ticks"]
    large, small, ticks = draw_chart(Chart("name", "", "", (few, crowded, rows))).axes
    sizes = [{line.get_markersize() for line in axes.get_lines()} for axes in (large, small)]
    assert max(sizes[1]) < min(sizes[0])
    assert {line.get_marker() for line in ticks.get_lines()} == {"|"}
    assert [text.get_text() for text in ticks.get_yticklabels()] == ["below", "above"]
    assert ticks.get_ylim() == (-0.5, 1.5)


def test_what_stands_at_the_end_of_a_line_is_written_beside_it() -> None:
    x = {"steps": np.arange(1.0, 5.0)}
    ends = {"a": (2.0, "3 of 9 left"), "b": (2.0, "none of 9 left"), "c": (1.0, "")}
    lines = [
        Series(label, Style(color), x, np.array([0.0, 1.0, end, np.nan]), note=note)
        for (label, (end, note)), color in zip(ends.items(), ("#ff0000", "#00ff00", "#0000ff"), strict=True)
    ]
    hidden = replace(lines[0], label="d", shown=False, note="of what is not shown")
    nothing = replace(lines[0], label="e", y=np.full(4, np.nan), note="of no line at all")
    panel = Panel("task", "reward", {"steps": "steps"}, (*lines, hidden, nothing))
    (axes,) = draw_chart(Chart("c", "", "", (panel,))).axes
    notes = {text.get_text(): text for text in axes.texts}
    assert set(notes) == {"3 of 9 left", "none of 9 left"}
    for name, color in (("3 of 9 left", "#ff0000"), ("none of 9 left", "#00ff00")):
        assert notes[name].get_color() == color
        assert notes[name].get_position()[0] > 1  # to the right of the panel
    low, high = axes.get_ylim()
    heights = [notes[name].get_position()[1] for name in ("3 of 9 left", "none of 9 left")]
    assert heights == pytest.approx([(2.0 - low) / (high - low)] * 2, abs=0.06)
    assert abs(heights[0] - heights[1]) > 0.06  # both lines end there


def test_notes_stand_where_their_lines_end_on_a_logarithmic_axis() -> None:
    y = np.array([1.0, 10.0, 100.0])
    line = Series("a", Style("#ff0000"), {"steps": y}, y[:2].repeat([1, 2]), note="1 of 2 left")
    other = Series("b", Style("#00ff00"), {"steps": y}, y)
    panel = Panel("task", "length", {"steps": "steps"}, (line, other), log_y=True)
    (axes,) = draw_chart(Chart("c", "", "", (panel,))).axes
    low, high = np.log(axes.get_ylim())
    assert axes.texts[0].get_position()[1] == pytest.approx((np.log(10) - low) / (high - low))


@given(st.lists(st.floats(-0.2, 1.2), max_size=8))
def test_heights_are_moved_apart_in_their_order(heights: list[float]) -> None:
    moved = apart(heights, 0.1)
    assert len(moved) == len(heights)
    order = np.argsort(heights, kind="stable")
    assert (np.diff(np.array(moved)[order]) > 0.0999).all()
    assert all(-1e-9 <= each <= 1 for each in moved)
    distant = len(heights) < 2 or np.diff(np.sort(heights)).min() >= 0.1
    if distant and all(0 <= each <= 1 for each in heights):
        assert moved == heights


def test_a_line_in_two_parts_has_one_entry_that_looks_like_the_first() -> None:
    x = np.arange(3.0)
    solid = Series("a", Style("#ff0000"), {"steps": x}, x)
    dashed = Series("a", Style("#ff0000", "--"), {"steps": x + 2}, x + 2)
    figure = draw_chart(Chart("c", "", "", (Panel("", "", {"steps": ""}, (solid, dashed)),)))
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a"]
    assert legend.get_lines()[0].get_linestyle() == "-"
    assert [line.get_linestyle() for line in figure.axes[0].get_lines()] == ["-", "--"]
