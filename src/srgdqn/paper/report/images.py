"""Charts as images small enough to be part of the page."""

from __future__ import annotations

import io

from PIL import Image

from srgdqn.figures.charts import Chart
from srgdqn.figures.images import draw_chart

_WIDEST = 1_400  # pixels
_DOTS_PER_INCH = 110
_COLORS = 64


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
