"""Tables of a report, as HTML and as Markdown."""

from __future__ import annotations

import math
from typing import Any

import polars as pl

from srgdqn.paper.report.contents import Table
from srgdqn.paper.report.markup import Markup, anchor, join, tag


def table_block(table: Table) -> Markup:
    """A table of the page. Its first column names its rows."""
    note = tag("p", table.note, class_="note") if table.note else Markup()
    return join(scrolling(table.title, frame_table(table.title, table.frame, id=anchor("table", table.name))), note)


def frame_table(caption: str, frame: pl.DataFrame, **attributes: str) -> Markup:
    """A data frame as an HTML table."""
    sides = ["number" if dtype.is_numeric() else None for dtype in frame.dtypes]
    heads = (tag("th", name, scope="col", class_=side) for name, side in zip(frame.columns, sides, strict=True))
    rows = (
        tag(
            "tr",
            tag("th", text_of(row[0]), scope="row"),
            (tag("td", text_of(value), class_=side) for value, side in zip(row[1:], sides[1:], strict=True)),
        )
        for row in frame.iter_rows()
    )
    return tag("table", tag("caption", caption), tag("thead", tag("tr", heads)), tag("tbody", rows), **attributes)


def scrolling(name: str, content: Markup) -> Markup:
    """What is too wide for a phone, in a box that scrolls on its own and can be scrolled with keys."""
    return tag("div", content, class_="scrolling", tabindex="0", role="region", aria_label=name)


def as_markdown(frame: pl.DataFrame) -> str:
    """A data frame as a Markdown table."""
    rows = [frame.columns, ["---"] * frame.width, *([text_of(value) for value in row] for row in frame.iter_rows())]
    return "".join(f"| {' | '.join(map(_cell, row))} |\n" for row in rows)


def text_of(value: Any) -> str:
    """A value as a reader wants it: a dash for what there is none of.

    >>> text_of(0.25), text_of(None), text_of(float("nan"))
    ('0.25', '–', '–')
    """
    missing = value is None or (isinstance(value, float) and math.isnan(value))
    return "–" if missing else str(value)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
