"""Charts drawn to files, and small enough to be part of the page.

A chart is drawn only if its file is missing or shows something else: a digest of each is stored beside them.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import matplotlib
from PIL import Image

from srgdqn.figures.charts import Chart, data_of
from srgdqn.figures.images import draw_chart, save_figure
from srgdqn.runs.destination import write_file
from srgdqn.runs.untrusted import parse_json, read_file

_DIGESTS = ".drawn.json"
_LONGEST = 2**20  # bytes

# Of images on the page.
_WIDEST = 1_400  # pixels
_DOTS_PER_INCH = 110
_COLORS = 64


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


def small_image(chart: Chart) -> bytes:
    """A PNG of a chart for the page."""
    drawn = io.BytesIO()
    draw_chart(chart).savefig(drawn, format="png", dpi=_DOTS_PER_INCH)
    return shrunk(drawn.getvalue())


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
        axes = panel.title, panel.y_label, dict(panel.x_labels), panel.log_x, panel.log_y, panel.categories
        lines = [(series.label, series.style, series.kind, series.group, series.shown) for series in panel.series]
        digest.update(repr((axes, lines)).encode())
    digest.update(data_of(chart).write_csv().encode())
    return digest.hexdigest()


@functools.cache
def _drawing() -> bytes:
    """The version of what draws."""
    sources = (resources.files("srgdqn.figures").joinpath(name).read_bytes() for name in ("charts.py", "images.py"))
    return b"\0".join((matplotlib.__version__.encode(), *sources))
