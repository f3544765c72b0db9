"""A report as files: the page, and every figure and table for use elsewhere."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

from srgdqn.figures.charts import data_of
from srgdqn.paper.report.contents import Report
from srgdqn.paper.report.drawings import draw_files, shrunk
from srgdqn.paper.report.markdown import as_markdown, report_markdown, verdict_frame, verdicts_json, verdicts_markdown
from srgdqn.paper.report.page import render_page
from srgdqn.runs.destination import make_folder, write_file


def write_report(report: Report, folder: str | os.PathLike[str]) -> list[Path]:
    """Writes a report, over an older one if there is one; the page comes last, when all that it goes with is there.

    Returns:
      The files: `report.html` and `report.md`, `verdicts.md`, `.csv` and `.json`; of each chart `figures/*.png`,
      `figures/*.pdf` and `tables/*.csv`, and of each table `tables/*.csv` and `tables/*.md`, called by their names.

    """
    charts = [chart for section in report.sections for chart in section.charts]
    tables = [table for section in report.sections for table in section.tables]
    _check_names([chart.name for chart in charts] + [table.name for table in tables])
    target = make_folder(folder)
    figures, numbers = make_folder(target / "figures"), make_folder(target / "tables")
    written: list[Path] = []
    images = {}
    # A preview is to be looked at, not to be printed.
    drawn = draw_files(charts, figures, ("png",) if report.preview else ("png", "pdf"))
    for chart in charts:
        images[chart.name] = shrunk(drawn[chart.name][0].read_bytes())
        written += [*drawn[chart.name], _text(numbers / f"{chart.name}.csv", data_of(chart).write_csv())]
    for table in tables:
        written.append(_text(numbers / f"{table.name}.csv", table.frame.write_csv()))
        noted = f"{as_markdown(table.frame)}\n{table.note}\n" if table.note else as_markdown(table.frame)
        written.append(_text(numbers / f"{table.name}.md", f"{table.title}\n\n{noted}"))
    written.append(_text(target / "verdicts.md", verdicts_markdown(report)))
    written.append(_text(target / "verdicts.csv", verdict_frame(report.claims).write_csv()))
    written.append(_text(target / "verdicts.json", verdicts_json(report)))
    written.append(_text(target / "report.md", report_markdown(report)))
    return [_text(target / "report.html", render_page(report, images)), *written]


def _text(path: Path, text: str) -> Path:
    return write_file(path, text.encode())


def _check_names(names: list[str]) -> None:
    for name in names:
        if not re.fullmatch(r"[\w][\w.-]*", name):
            raise ValueError(f"{name!r} cannot be the name of a file: use letters, digits, '-', '_' and '.' only")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"charts and tables need names of their own, but there are several called {', '.join(twice)}")
