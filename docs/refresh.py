"""Puts the report of a results folder into the documentation: `python docs/refresh.py results`.

Writes `docs/reproduction.md`, its images in `docs/reproduction/`, and the answer and the table of verdicts between the
README's marks.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from srgdqn.report.images import shrunk

DOCS = Path(__file__).parent
README = DOCS.parent / "README.md"
MARKED = "<!-- {} -->", "<!-- end of {} -->"


def refresh(results: Path) -> None:
    """Refreshes the page, the images and the README's table from a results folder."""
    page = (results / "report.md").read_text(encoding="utf-8")
    images = DOCS / "reproduction"
    images.mkdir(exist_ok=True)
    for old in images.glob("*.png"):
        old.unlink()
    for name in re.findall(r"\(figures/([\w.-]+\.png)\)", page):
        (images / name).write_bytes(shrunk((results / "figures" / name).read_bytes()))
    page = re.sub(r" \[Data\]\(tables/[\w.-]+\.csv\)\.", "", page.replace("(figures/", "(reproduction/"))
    (DOCS / "reproduction.md").write_text(page, encoding="utf-8")

    verdicts = json.loads((results / "verdicts.json").read_text(encoding="utf-8"))
    lines = ["| | what the paper claims | `corrected` | `printed` |", "|---|---|---|---|"]
    for claim in verdicts["claims"]:
        found = claim["verdicts"]
        lines.append(f"| {claim['name']} | {claim['claim']} | {found['corrected']} | {found['printed']} |")
    _replace("answer", f"**{verdicts['question']}** {verdicts['answer']}")
    _replace("verdicts", "\n".join(lines))


def _replace(what: str, text: str) -> None:
    """Puts a text between its marks in the README."""
    first, last = (mark.format(what) for mark in MARKED)
    before, rest = README.read_text(encoding="utf-8").split(first)
    after = rest.split(last)[1]
    README.write_text(f"{before}{first}\n\n{text}\n\n{last}{after}", encoding="utf-8")


if __name__ == "__main__":
    refresh(Path(sys.argv[1]))
