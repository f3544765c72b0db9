"""Puts the report of a results folder into the documentation: `python docs/refresh.py results`.

Writes `docs/reproduction.md`, its images in `docs/reproduction/`, and the first screen between the README's marks.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from marked import replace

from srgdqn.paper.report.files import shrunk

DOCS = Path(__file__).parent
README = DOCS.parent / "README.md"


def refresh(results: Path) -> None:
    """Refreshes the page, the images and the README's result from a results folder."""
    page = (results / "report.md").read_text(encoding="utf-8")
    images = DOCS / "reproduction"
    images.mkdir(exist_ok=True)
    for old in images.glob("*.png"):
        old.unlink()
    for name in re.findall(r"\(figures/([\w.-]+\.png)\)", page):
        (images / name).write_bytes(shrunk((results / "figures" / name).read_bytes()))
    page = re.sub(r" \[Data\]\(tables/[\w.-]+\.csv\)\.", "", page.replace("(figures/", "(reproduction/"))
    (DOCS / "reproduction.md").write_text(page, encoding="utf-8")

    first = (results / "first-screen.md").read_text(encoding="utf-8")
    replace(README, "result", first.replace("(figures/", "(docs/reproduction/").strip())


if __name__ == "__main__":
    refresh(Path(sys.argv[1]))
