"""Puts the report of a results folder into the documentation: `python docs/refresh.py results`.

Writes `docs/reproduction.md`, its images in `docs/reproduction/`, and the table of verdicts between the README's marks.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from srgdqn.report.images import shrunk

DOCS = Path(__file__).parent
README = DOCS.parent / "README.md"
MARKS = "<!-- verdicts -->", "<!-- end of verdicts -->"


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
    before, rest = README.read_text(encoding="utf-8").split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    table = "\n".join(lines)
    README.write_text(f"{before}{MARKS[0]}\n\n{table}\n\n{MARKS[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    refresh(Path(sys.argv[1]))
