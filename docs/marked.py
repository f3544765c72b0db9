"""Texts between a page's marks, which are made again by programs."""

from __future__ import annotations

from pathlib import Path


def replace(page: Path, what: str, text: str) -> None:
    """Puts a text between its marks in a page."""
    first, last = f"<!-- {what} -->", f"<!-- end of {what} -->"
    before, rest = page.read_text(encoding="utf-8").split(first)
    after = rest.split(last)[1]
    page.write_text(f"{before}{first}\n\n{text}\n\n{last}{after}", encoding="utf-8")
