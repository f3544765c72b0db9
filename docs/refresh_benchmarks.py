"""Puts what the benchmarks wrote into the documentation: `python docs/refresh_benchmarks.py benchmarks/measured`.

Writes the tables between the marks of `docs/benchmarks.md` (of `docs/many-machines.md`, for a cluster's), when and with
what they were measured, and the images in `docs/benchmarks/`. A benchmark that has not been run keeps what is there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from marked import replace

from srgdqn.report.images import shrunk

DOCS = Path(__file__).parent
PAGE = DOCS / "benchmarks.md"
PAGES = {"cluster": DOCS / "many-machines.md"}  # of those that are not on that page
NAMES = ("peers", "host", "frames", "limit", "growth", "cold_start", "queries", "cluster")


def refresh(results: Path) -> None:
    """Refreshes the tables and the images of every benchmark that has results in the folder."""
    # Only what a benchmark wrote here: of others, whose reports are kept with the source, there are no tables.
    found = [results / f"{name}.json" for name in NAMES if (results / f"{name}.md").exists()]
    if not found:
        raise SystemExit(f"{results} has none of {', '.join(f'{name}.json' for name in NAMES)}. Run make bench first.")
    images = DOCS / "benchmarks"
    images.mkdir(exist_ok=True)
    for report in found:
        name = report.stem
        about = json.loads(report.read_text(encoding="utf-8"))["circumstances"]
        tables = report.with_suffix(".md").read_text(encoding="utf-8").strip()
        replace(PAGES.get(name, PAGE), name, f"{_measured(about)}\n\n{tables}")
        (images / f"{name}.png").write_bytes(shrunk(report.with_suffix(".png").read_bytes()))


def _measured(about: dict) -> str:
    versions = {**about["versions"], **about["peers"]}
    known = ", ".join(f"{name} {version}" for name, version in versions.items() if version is not None)
    cores = "one core" if about["usable_cores"] == 1 else f"{about['usable_cores']} cores"
    return f"Measured on {about['date']} on {cores} of {about['processor']}: {known}."


if __name__ == "__main__":
    refresh(Path(sys.argv[1]))
