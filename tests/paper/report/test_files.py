from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from srgdqn.figures.charts import Chart, data_of
from srgdqn.paper.report import files
from srgdqn.paper.report.files import draw_files, write_report
from synthetic_report import points_chart, synthetic_report


def test_everything_is_written_where_it_is_said_to_be(report_folder: Path) -> None:
    found = {str(path.relative_to(report_folder)) for path in report_folder.rglob("*") if path.is_file()}
    charts = ("first-contrasts", "figure-2", "scores", "costs")
    assert found == (
        {
            "report.html",
            "report.md",
            "first-screen.md",
            "verdicts.md",
            "verdicts.csv",
            "verdicts.json",
            "tables/table-2.csv",
            "tables/table-2.md",
            *(
                f"tables/first-{name}.{suffix}"
                for name in ("scores", "scores-mnih", "differences")
                for suffix in ("csv", "md")
            ),
        }
        | {"figures/.drawn.json", *(f"figures/{name}.png" for name in charts)}
        | {f"tables/{name}.csv" for name in charts}
    )
    assert (report_folder / "figures" / "costs.png").read_bytes().startswith(b"\x89PNG")


def test_tables_hold_the_numbers_of_the_report(report_folder: Path) -> None:
    report = synthetic_report()
    for chart in report.charts:
        frame = data_of(chart)
        read = pl.read_csv(report_folder / "tables" / f"{chart.name}.csv", schema_overrides=dict(frame.schema))
        assert_frame_equal(read.with_columns(pl.selectors.string().fill_null("")), frame)
    for table in report.tables:
        path = report_folder / "tables" / f"{table.name}.csv"
        assert_frame_equal(pl.read_csv(path, schema_overrides=dict(table.frame.schema)), table.frame)
        text = (report_folder / "tables" / f"{table.name}.md").read_text()
        assert text.startswith(f"{table.title}\n\n| {table.frame.columns[0]} | {table.frame.columns[1]} |")
        assert text.endswith(f"\n\n{table.note}\n")


def test_a_report_without_a_first_screen_or_claims_is_written(tmp_path: Path) -> None:
    report = replace(synthetic_report(), first=None, cards=(), sections=())
    write_report(report, tmp_path / "out")
    found = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    names = ("report.html", "report.md", "first-screen.md", "verdicts.md", "verdicts.csv", "verdicts.json")
    assert found == set(names)


def test_a_forest_without_rows_is_left_out(tmp_path: Path) -> None:
    report = synthetic_report()
    assert report.first is not None
    bare = replace(report.first, forest=replace(report.first.forest, panels=()))
    write_report(replace(report, first=bare, sections=()), tmp_path / "out")
    assert not list((tmp_path / "out" / "figures").iterdir())
    assert "first-contrasts" not in (tmp_path / "out" / "report.html").read_text()
    assert "first-contrasts" not in (tmp_path / "out" / "report.md").read_text()


def test_an_older_report_is_replaced_and_the_page_is_small(tmp_path: Path) -> None:
    section = replace(synthetic_report().sections[0], charts=(points_chart(),))
    for preview in (True, False):
        report = replace(synthetic_report(preview=preview), first=None, sections=(section,))
        paths = write_report(report, tmp_path / "out")
    assert paths[0] == tmp_path / "out" / "report.html"
    assert all(path.is_file() for path in paths)
    # A preview has no use for what is made for print.
    assert (tmp_path / "out" / "figures" / "scores.pdf").read_bytes().startswith(b"%PDF")
    page = paths[0].read_text()
    assert "Preview" not in page
    assert len(page) < 6e6  # of which plotly has 4.8


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("../up", "cannot be the name of a file"), ("", "cannot be the name"), ("table-2", "several called table-2")],
)
def test_names_that_are_none_for_files_are_refused(tmp_path: Path, name: str, wrong: str) -> None:
    section = replace(synthetic_report().sections[0], charts=(replace(points_chart(), name=name),))
    with pytest.raises(ValueError, match=wrong):
        write_report(replace(synthetic_report(), sections=(section,)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


# Charts are drawn again exactly if they would look otherwise


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the charts that are drawn."""
    names: list[str] = []
    real = files.draw_chart

    def draw(chart: Chart) -> object:
        names.append(chart.name)
        return real(chart)

    monkeypatch.setattr(files, "draw_chart", draw)
    return names


def other_number(chart: Chart) -> Chart:
    (panel,) = chart.panels
    first, *rest = panel.series
    moved = replace(first, y=np.asarray(first.y) + 0.3)
    return replace(chart, panels=(replace(panel, series=(moved, *rest)),))


def other_way(chart: Chart) -> Chart:
    (panel,) = chart.panels
    return replace(chart, panels=(replace(panel, horizontal=True),))


def other_label(chart: Chart) -> Chart:
    (panel,) = chart.panels
    return replace(chart, panels=(replace(panel, y_label="another"),))


def test_a_chart_is_drawn_once_unless_it_would_look_otherwise(tmp_path: Path, drawn: list[str]) -> None:
    chart = points_chart()
    first = draw_files([chart], tmp_path, ("png", "pdf"))["scores"]
    assert [path.suffix for path in first] == [".png", ".pdf"]
    assert draw_files([points_chart()], tmp_path, ("png", "pdf"))["scores"] == first
    assert drawn == ["scores"]
    for change in (other_number, other_label, other_way):
        before = first[0].read_bytes()
        chart = change(chart)
        draw_files([chart], tmp_path, ("png",))
        assert first[0].read_bytes() != before
    assert len(drawn) == 4


def test_a_missing_file_or_damaged_digests_are_no_obstacle(tmp_path: Path, drawn: list[str]) -> None:
    (png,) = draw_files([points_chart()], tmp_path, ("png",))["scores"]
    png.unlink()
    draw_files([points_chart()], tmp_path, ("png",))
    assert png.exists()
    (tmp_path / ".drawn.json").write_text("{")
    draw_files([points_chart()], tmp_path, ("png",))
    assert drawn == ["scores"] * 3
