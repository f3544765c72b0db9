"""Puts a noise map into the documentation and the package: `python docs/refresh_noise.py results`.

Makes the report anew from the data, and writes what was found between the marks of `docs/noise-map.md`, its figures and
data to `docs/noise-map/`, and the evidence to the package, which shows it in every later report. The data of some tasks
may be put back into the folder of results (`results/noise/`), where `srgdqn reproduce noise --task …` adds others.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from marked import replace

from srgdqn.paper.claims.evidence import write_evidence
from srgdqn.paper.noise import evidence_in
from srgdqn.paper.report.files import shrunk, write_report
from srgdqn.paper.reproduce import noise_report

DOCS = Path(__file__).parent
PAGE, BESIDE = DOCS / "noise-map.md", DOCS / "noise-map"
EVIDENCE = DOCS.parent / "src" / "srgdqn" / "paper" / "evidence"


def refresh(results: Path) -> None:
    """Refreshes the page, the figures, the data and the evidence from a results folder."""
    place = results / "noise"
    evidence = evidence_in(place)
    write_evidence(evidence, EVIDENCE)
    write_report(noise_report(evidence, evidence.about["seconds"], preview=False), place)
    text = (place / "report.md").read_text(encoding="utf-8")
    found = text.split("*Here:* ")[1].split("\n## ")[0]
    found = re.sub(r" \[Data\]\(tables/[\w.-]+\.csv\)\.", "", found.replace("(figures/", "(noise-map/"))
    shutil.rmtree(BESIDE, ignore_errors=True)
    BESIDE.mkdir()
    for name in re.findall(r"\(noise-map/([\w.-]+\.png)\)", found):
        (BESIDE / name).write_bytes(shrunk((place / "figures" / name).read_bytes()))
    for data in place.glob("*.parquet"):
        shutil.copy(data, BESIDE / data.name)
    replace(PAGE, "found", found.strip())


if __name__ == "__main__":
    refresh(Path(sys.argv[1]))
