"""Images of sweeps: what is drawn where, and what is told of rounds that diverged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes

from srgdqn.errors import InputError
from srgdqn.sweeps.grid import Base, GridPlan
from srgdqn.sweeps.heat_maps import sweep_figure
from srgdqn.sweeps.sweep import Sweep
from synthetic_runs import synthetic


def made(values: dict[str, Any], *, plan: dict[str, Any] | None = None, done: int | None = None) -> Sweep:
    """A sweep whose third cell, if it has so many, has two rounds that diverged."""
    grid = GridPlan(Base("MountainCar", "srg-dqn", options={"rounds": 3, "steps": 5_000}), values)
    finished = tuple(cell.values for cell in grid.cells.values())[:done]
    results = tuple(
        synthetic(rounds=3, steps=5_000, noise=number, diverged={0: 1_500, 1: 2_000} if number == 2 else None)
        for number in range(len(finished))
    )
    return Sweep(grid.base, plan or grid.as_words(), finished=finished, results=results, planned=grid.planned)


def panels(sweep: Sweep) -> list[Axes]:
    figure = sweep_figure(sweep)
    figure.draw_without_rendering()
    return [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]


def ticks(axes: Axes) -> tuple[list[str], list[str]]:
    return [text.get_text() for text in axes.get_xticklabels()], [text.get_text() for text in axes.get_yticklabels()]


def test_two_options_are_a_heat_map() -> None:
    sweep = made({"eta": [1e-4, 1e-3, 1e-2], "hidden": [(8,), (8, 8)]})
    (axes,) = panels(sweep)
    assert ticks(axes) == (["8", "8+8"], ["0.0001", "0.001", "0.01"])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("hidden", "eta")
    (image,) = axes.images
    shown = image.get_array()
    assert shown is not None
    assert shown.shape == (3, 2)
    assert shown.ravel().tolist() == pytest.approx(sweep.table["score"].to_list())
    # The third cell is in the second row: its mark lies there, and no other has one.
    (mark,) = [text for text in axes.texts if text.get_text().startswith("×")]
    assert mark.get_text() == "×2†"
    assert round(mark.xy[0] - 0.46) == 0  # type: ignore[attr-defined]
    assert round(mark.xy[1] - 0.42) == 1  # type: ignore[attr-defined]
    (frame,) = axes.patches
    assert (frame.get_x() + 0.5, frame.get_y() + 0.5) == (sweep.best % 2, sweep.best // 2)  # type: ignore[attr-defined]


def test_cells_that_are_not_finished_are_empty() -> None:
    (axes,) = panels(made({"eta": [1e-4, 1e-3], "gamma": [0.9, 0.99]}, done=3))
    (image,) = axes.images
    shown = image.get_array()
    assert shown is not None
    assert [bool(empty) for empty in shown.mask.ravel()] == [False, False, False, True]  # type: ignore[attr-defined]
    assert ticks(axes) == (["0.9", "0.99"], ["0.0001", "0.001"])


def test_one_option_is_a_line_with_its_interval() -> None:
    sweep = made({"eta": [1e-2, 1e-4, 1e-3]})
    (axes,) = panels(sweep)
    line = axes.lines[0]
    assert list(line.get_xdata()) == [1e-4, 1e-3, 1e-2]
    scores = sweep.table["score"].to_list()
    assert list(line.get_ydata()) == pytest.approx([scores[1], scores[2], scores[0]])
    assert axes.get_xscale() == "log"
    assert [text.get_text() for text in axes.texts] == ["×2†"]
    band = axes.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == pytest.approx(sweep.table["score_low"].min())  # type: ignore[index]
    assert band[:, 1].max() == pytest.approx(sweep.table["score_high"].max())  # type: ignore[index]


def test_words_are_points() -> None:
    (axes,) = panels(made({"loss": ["squared", "huber"]}))
    assert ticks(axes)[0] == ["squared", "huber"]


def test_more_options_are_more_maps() -> None:
    sweep = made({"eta": [0.1, 0.2], "gamma": [0.5, 0.9], "loss": ["squared", "huber"]})
    drawn = panels(sweep)
    assert [axes.get_title() for axes in drawn] == ["loss squared", "loss huber"]
    shown = drawn[1].images[0].get_array()
    assert shown is not None
    assert shown.ravel().tolist() == pytest.approx(sweep.table["score"].to_list()[1::2])


def test_very_many_maps_are_the_best_over_the_others() -> None:
    sweep = made({"eta": [0.1, 0.2], "gamma": [0.5], "batch_size": list(range(1, 14))})
    (axes,) = panels(sweep)
    assert axes.get_title() == "best over batch_size"
    shown = axes.images[0].get_array()
    assert shown is not None
    scores = sweep.table["score"].to_list()
    assert shown.ravel().tolist() == pytest.approx([max(scores[:13]), max(scores[13:])])


def test_a_search_is_points_against_every_option() -> None:
    sweep = made({"eta": [0.1, 0.2], "gamma": [0.5, 0.9]}, plan={"space": {}})
    drawn = panels(sweep)
    assert [axes.get_xlabel() for axes in drawn] == ["eta", "gamma"]
    assert all(len(axes.lines[0].get_xdata()) == 4 for axes in drawn)  # type: ignore[arg-type]


def test_to_a_file(tmp_path: Path) -> None:
    sweep = made({"eta": [1e-4, 1e-3, 1e-2]})
    path = sweep.heat_map(tmp_path / "map.svg")
    assert "evaluated with their" in path.read_text()
    with pytest.raises(InputError, match="exists already"):
        sweep.heat_map(path)
