"""A report as files: the page, and every figure and table for use elsewhere.

A chart is drawn only if its file is missing or shows something else: a digest of each is stored beside them.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import matplotlib
from PIL import Image

from srgdqn.figures.charts import Chart, data_of
from srgdqn.figures.images import draw_chart, save_figure
from srgdqn.paper.report.contents import Report
from srgdqn.paper.report.markdown import (
    as_markdown,
    first_markdown,
    report_markdown,
    verdict_frame,
    verdicts_json,
    verdicts_markdown,
)
from srgdqn.paper.report.page import render_page
from srgdqn.runs.destination import make_folder, write_file
from srgdqn.runs.untrusted import parse_json, read_file

_DIGESTS = ".drawn.json"
_LONGEST = 2**20  # bytes

# Of images on the page.
_WIDEST = 1_400  # pixels
_COLORS = 64


def write_report(report: Report, folder: str | os.PathLike[str]) -> list[Path]:
    """Writes a report, over an older one if there is one; the page comes last, when all that it goes with is there.

    Returns:
      The files: `report.html` and `report.md`, the first screen as `first-screen.md`, `verdicts.md`, `.csv` and
      `.json`; of each chart `figures/*.png`, `figures/*.pdf` and `tables/*.csv`, and of each table `tables/*.csv` and
      `tables/*.md`, called by their names.

    """
    charts, tables = report.charts, report.tables
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
    written.append(_text(target / "verdicts.csv", verdict_frame(report.cards).write_csv()))
    written.append(_text(target / "verdicts.json", verdicts_json(report)))
    written.append(_text(target / "first-screen.md", first_markdown(report)))
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


def draw_files(charts: Sequence[Chart], folder: Path, formats: Sequence[str]) -> dict[str, list[Path]]:
    """The image files of each chart, by its name, in the order of the formats."""
    digests = _stored_digests(folder)
    drawn = {}
    for chart in charts:
        files = [folder / f"{chart.name}.{suffix}" for suffix in formats]
        key = _key(chart)
        if digests.get(chart.name) != key or not all(file.is_file() for file in files):
            _draw(chart, files)
            digests[chart.name] = key
            write_file(folder / _DIGESTS, json.dumps(digests, indent=1).encode())
        drawn[chart.name] = files
    return drawn


def shrunk(png: bytes) -> bytes:
    """A PNG at the page's size and with few colours, which charts do not suffer from."""
    with Image.open(io.BytesIO(png)) as opened:
        image = opened.convert("RGB")
    if image.width > _WIDEST:
        image = image.resize((_WIDEST, round(image.height * _WIDEST / image.width)), Image.Resampling.LANCZOS)
    saved = io.BytesIO()
    image.quantize(_COLORS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(saved, format="PNG")
    return saved.getvalue()


def _draw(chart: Chart, files: Sequence[Path]) -> None:
    figure = draw_chart(chart)
    # The layout is computed once: it takes longer than drawing, and would be computed again for every file.
    layout = figure.get_layout_engine()
    if layout is not None:
        layout.execute(figure)
        figure.set_layout_engine("none")
    for file in files:
        save_figure(figure, file, overwrite=True)


def _stored_digests(folder: Path) -> dict[str, str]:
    """Digests of the charts drawn in the folder before; none where the file is missing or malformed."""
    with contextlib.suppress(OSError, ValueError):
        digests = parse_json(read_file(folder / _DIGESTS, _LONGEST))
        if isinstance(digests, dict):
            return digests
    return {}


def _key(chart: Chart) -> str:
    """Equal for charts that look the same: what they show, and how it is drawn."""
    digest = hashlib.sha256(_drawing())
    digest.update(repr((chart.name, chart.title, chart.columns)).encode())
    for panel in chart.panels:
        axes = panel.title, panel.y_label, dict(panel.x_labels), panel.log_x, panel.log_y
        names = panel.categories, panel.y_categories, panel.horizontal
        lines = [
            (series.label, series.style, series.kind, series.group, series.shown, series.note)
            for series in panel.series
        ]
        digest.update(repr((axes, names, lines)).encode())
    digest.update(data_of(chart).write_csv().encode())
    return digest.hexdigest()


@functools.cache
def _drawing() -> bytes:
    """The version of what draws."""
    sources = (resources.files("srgdqn.figures").joinpath(name).read_bytes() for name in ("charts.py", "images.py"))
    return b"\0".join((matplotlib.__version__.encode(), *sources))
