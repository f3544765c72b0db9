from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from srgdqn.figures.charts import data_of
from srgdqn.paper.report.files import write_report
from synthetic_report import points_chart, synthetic_report


def test_everything_is_written_where_it_is_said_to_be(report_folder: Path) -> None:
    found = {str(path.relative_to(report_folder)) for path in report_folder.rglob("*") if path.is_file()}
    charts = ("figure-2", "scores", "costs")
    assert found == (
        {
            "report.html",
            "report.md",
            "verdicts.md",
            "verdicts.csv",
            "verdicts.json",
            "tables/table-2.csv",
            "tables/table-2.md",
        }
        | {"figures/.drawn.json", *(f"figures/{name}.png" for name in charts)}
        | {f"tables/{name}.csv" for name in charts}
    )
    assert (report_folder / "figures" / "costs.png").read_bytes().startswith(b"\x89PNG")


def test_tables_hold_the_numbers_of_the_report(report_folder: Path) -> None:
    for section in synthetic_report().sections:
        for chart in section.charts:
            frame = data_of(chart)
            read = pl.read_csv(report_folder / "tables" / f"{chart.name}.csv", schema_overrides=dict(frame.schema))
            assert_frame_equal(read, frame)
        for table in section.tables:
            assert_frame_equal(pl.read_csv(report_folder / "tables" / f"{table.name}.csv"), table.frame)
            text = (report_folder / "tables" / f"{table.name}.md").read_text()
            assert text.startswith("Scores & intervals\n\n| algorithm | score | interval |\n")
            assert text.endswith("\n\nOver the same rounds.\n")


def test_an_older_report_is_replaced_and_the_page_is_small(tmp_path: Path) -> None:
    section = replace(synthetic_report().sections[0], charts=(points_chart(),))
    for preview in (True, False):
        paths = write_report(replace(synthetic_report(preview=preview), sections=(section,)), tmp_path / "out")
    assert paths[0] == tmp_path / "out" / "report.html"
    assert all(path.is_file() for path in paths)
    # A preview has no use for what is made for print.
    assert (tmp_path / "out" / "figures" / "scores.pdf").read_bytes().startswith(b"%PDF")
    page = paths[0].read_text()
    assert "Preview" not in page
    assert len(page) < 6e6  # of which plotly has 4.8


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".hidden", "a b"])
def test_names_that_are_none_for_files_are_refused(tmp_path: Path, name: str) -> None:
    section = replace(synthetic_report().sections[0], charts=(replace(points_chart(), name=name),))
    with pytest.raises(ValueError, match="cannot be the name of a file"):
        write_report(replace(synthetic_report(), sections=(section,)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_two_of_one_name_are_refused(tmp_path: Path) -> None:
    section = replace(synthetic_report().sections[0], charts=(replace(points_chart(), name="table-2"),))
    with pytest.raises(ValueError, match="several called table-2"):
        write_report(replace(synthetic_report(), sections=(section,)), tmp_path / "out")
