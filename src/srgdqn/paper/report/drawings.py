"""Charts drawn to files, each only if it is not there already: what a file shows is remembered beside it."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import matplotlib

from srgdqn.figures.charts import Chart, data_of
from srgdqn.figures.images import draw_chart, save_figure
from srgdqn.runs import strict_json
from srgdqn.runs.destination import write_file
from srgdqn.runs.folders import read_ordinary

_MEMORY = ".drawn.json"
_LONGEST = 2**20  # bytes


def draw_files(charts: Sequence[Chart], folder: Path, formats: Sequence[str]) -> dict[str, list[Path]]:
    """The image files of each chart, by its name, in the order of the formats."""
    memory = _remembered(folder)
    drawn = {}
    for chart in charts:
        files = [folder / f"{chart.name}.{suffix}" for suffix in formats]
        key = _key(chart)
        if memory.get(chart.name) != key or not all(file.is_file() for file in files):
            _draw(chart, files)
            memory[chart.name] = key
            write_file(folder / _MEMORY, json.dumps(memory, indent=1).encode())
        drawn[chart.name] = files
    return drawn


def _draw(chart: Chart, files: Sequence[Path]) -> None:
    figure = draw_chart(chart)
    # The arrangement is found once and kept: it takes longer than drawing, and would be found again for every file.
    arrangement = figure.get_layout_engine()
    if arrangement is not None:
        arrangement.execute(figure)
        figure.set_layout_engine("none")
    for file in files:
        save_figure(figure, file, overwrite=True)


def _remembered(folder: Path) -> dict[str, str]:
    """What was drawn in the folder before; nothing where that cannot be told."""
    with contextlib.suppress(OSError, ValueError):
        memory = strict_json.parse(read_ordinary(folder / _MEMORY, _LONGEST))
        if isinstance(memory, dict):
            return memory
    return {}


def _key(chart: Chart) -> str:
    """Equal for charts that look the same: what they show, and how it is drawn."""
    digest = hashlib.sha256(_drawing())
    digest.update(repr((chart.name, chart.title, chart.columns)).encode())
    for panel in chart.panels:
        axes = panel.title, panel.y_label, dict(panel.x_labels), panel.log_x, panel.log_y, panel.categories
        lines = [(series.label, series.style, series.kind, series.group, series.shown) for series in panel.series]
        digest.update(repr((axes, lines)).encode())
    digest.update(data_of(chart).write_csv().encode())
    return digest.hexdigest()


@functools.cache
def _drawing() -> bytes:
    """What decides how a chart is drawn."""
    sources = (resources.files("srgdqn").joinpath(name).read_bytes() for name in ("charts.py", "figures.py"))
    return b"\0".join((matplotlib.__version__.encode(), *sources))
