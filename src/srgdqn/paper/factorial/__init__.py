"""Over all readings: the paper's algorithms under every combination of what the paper leaves open.

A full factorial of eight options. No reading gets a verdict: what is shown is how contrasts and shares spread over
readings, and which option moves them.
"""

from __future__ import annotations

from pathlib import Path

from srgdqn.paper.cells import Console, run_cells
from srgdqn.paper.claims.evidence import Evidence, evidence_of
from srgdqn.paper.experiment import seconds_of
from srgdqn.paper.factorial.arms import WHOLE, Extent, cell_name, cells
from srgdqn.paper.factorial.design import readings_of
from srgdqn.paper.factorial.report import in_brief, section
from srgdqn.paper.factorial.tables import analysed
from srgdqn.paper.studies.figure_2 import TASKS

__all__ = ["in_brief", "run", "section"]


def run(folder: Path, console: Console, extent: Extent = WHOLE) -> Evidence:
    """Trains all arms of all readings, and tells what came of them."""
    listed = cells(extent)
    outcomes = run_cells("all readings", listed, folder / "factorial", console)
    console.begin("statistics over all readings", ("statistics",))
    by_task = {
        task: {each: outcomes[cell_name(task, each)].tables["rounds"] for each in readings_of(task, extent.readings)}
        for task in TASKS
    }
    tables = analysed(by_task, extent.readings, extent.resamples)
    console.progress("statistics", 1.0)
    return evidence_of(
        "factorial",
        {},
        tables,
        seed=extent.seed,
        rounds=f"{extent.rounds} of each algorithm in each reading",
        seconds=seconds_of(outcomes, outcomes),
    )
