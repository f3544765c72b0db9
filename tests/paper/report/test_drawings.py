"""Charts are drawn again exactly if they would look otherwise."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from srgdqn.paper.report import drawings
from srgdqn.paper.report.drawings import draw_files
from synthetic_report import points_chart


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the charts that are drawn."""
    names: list[str] = []
    real = drawings.draw_chart

    def draw(chart: drawings.Chart) -> object:
        names.append(chart.name)
        return real(chart)

    monkeypatch.setattr(drawings, "draw_chart", draw)
    return names


def test_the_same_chart_is_drawn_once(tmp_path: Path, drawn: list[str]) -> None:
    first = draw_files([points_chart()], tmp_path, ("png", "pdf"))
    before = [path.read_bytes() for path in first["scores"]]
    assert draw_files([points_chart()], tmp_path, ("png", "pdf")) == first
    assert drawn == ["scores"]
    assert [path.suffix for path in first["scores"]] == [".png", ".pdf"]
    assert [path.read_bytes() for path in first["scores"]] == before


def other_number() -> drawings.Chart:
    chart = points_chart()
    (panel,) = chart.panels
    first, *rest = panel.series
    moved = dataclasses.replace(first, y=np.asarray(first.y) + 0.3)
    return dataclasses.replace(chart, panels=(dataclasses.replace(panel, series=(moved, *rest)),))


def other_label() -> drawings.Chart:
    chart = points_chart()
    (panel,) = chart.panels
    return dataclasses.replace(chart, panels=(dataclasses.replace(panel, y_label="another"),))


@pytest.mark.parametrize("other", [other_number, other_label])
def test_another_number_or_label_is_drawn_anew(tmp_path: Path, drawn: list[str], other: object) -> None:
    (png,) = draw_files([points_chart()], tmp_path, ("png",))["scores"]
    before = png.read_bytes()
    draw_files([other()], tmp_path, ("png",))  # type: ignore[operator]
    assert drawn == ["scores", "scores"]
    assert png.read_bytes() != before


def test_a_missing_file_or_a_damaged_memory_is_no_obstacle(tmp_path: Path, drawn: list[str]) -> None:
    (png,) = draw_files([points_chart()], tmp_path, ("png",))["scores"]
    png.unlink()
    draw_files([points_chart()], tmp_path, ("png",))
    assert png.exists()
    (tmp_path / ".drawn.json").write_text("{")
    draw_files([points_chart()], tmp_path, ("png",))
    assert drawn == ["scores"] * 3
