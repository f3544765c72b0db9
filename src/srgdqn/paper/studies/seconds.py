"""What cells took to compute."""

from __future__ import annotations

from collections.abc import Iterable

from srgdqn.paper.studies.experiment import Outcomes
from srgdqn.runs.result import Result


def seconds_of(outcomes: Outcomes, names: Iterable[str]) -> float:
    """Seconds on one core, compiling included, added up over cells."""
    total = 0.0
    for name in dict.fromkeys(names):
        outcome = outcomes[name]
        total += float(outcome.timings["seconds"].sum()) if isinstance(outcome, Result) else outcome.about["seconds"]
    return total
