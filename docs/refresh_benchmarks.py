"""Puts what the benchmarks wrote into the documentation: `python docs/refresh_benchmarks.py benchmarks/measured`.

Writes the tables between the marks of `docs/benchmarks.md`, or of the page that a benchmark's belong to, when and with
what they were measured, and the images in `docs/benchmarks/`. A benchmark that has not been run keeps what is there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from marked import replace

from srgdqn.paper.report.files import shrunk

DOCS = Path(__file__).parent
PAGE = DOCS / "benchmarks.md"
PLACES = {
    **{name: (PAGE, name) for name in ("peers", "host", "frames", "limit", "growth", "cold_start", "queries")},
    "checkpoints": (DOCS / "reliability.md", "cost"),
    "cluster": (DOCS / "many-machines.md", "cluster"),
}
"""The page that a benchmark's tables belong to, and between which marks."""


def refresh(results: Path) -> None:
    """Refreshes the tables and the images of every benchmark that has results in the folder."""
    # Only what a benchmark wrote here: of others, whose reports are kept with the source, there are no tables.
    found = [results / f"{name}.json" for name in PLACES if (results / f"{name}.md").exists()]
    if not found:
        raise SystemExit(f"{results} has none of {', '.join(f'{name}.json' for name in PLACES)}. Run make bench first.")
    images = DOCS / "benchmarks"
    images.mkdir(exist_ok=True)
    for report in found:
        name = report.stem
        about = json.loads(report.read_text(encoding="utf-8"))["circumstances"]
        tables = report.with_suffix(".md").read_text(encoding="utf-8").strip()
        replace(*PLACES[name], f"{_measured(about)}\n\n{tables}")
        if (image := report.with_suffix(".png")).exists():
            (images / image.name).write_bytes(shrunk(image.read_bytes()))


def _measured(about: dict) -> str:
    versions = {**about["versions"], **about["peers"]}
    known = ", ".join(f"{name} {version}" for name, version in versions.items() if version is not None)
    cores = "one core" if about["usable_cores"] == 1 else f"{about['usable_cores']} cores"
    return f"Measured on {about['date']} on {cores} of {about['processor']}: {known}."


if __name__ == "__main__":
    refresh(Path(sys.argv[1]))
