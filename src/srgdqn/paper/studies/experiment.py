"""What an experiment is: its cells, and what it shows of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from srgdqn.config import Configuration
from srgdqn.config.configure import configure
from srgdqn.paper.report.contents import Section
from srgdqn.paper.studies.cells import StudyCell
from srgdqn.paper.studies.scale import Scale

Outcomes = Mapping[str, Any]
"""What cells came to, by name: a `Result`, or the `Measured` of a measurement."""


@dataclass(frozen=True)
class Experiment:
    """A figure or table of the paper, or what a claim of it needs."""

    name: str
    title: str
    paper_says: str
    cells: Callable[[Scale, str], Sequence[StudyCell]]
    """The cells for a scale and a set of readings."""
    show: Callable[[Scale, Sequence[str], Outcomes], Section]
    """The section of the report for a scale and the sets of readings that were run."""
    budget_seconds: float
    """Single-core seconds that its own cells may take at the paper's scale, compiling included."""


RANDOM = "random"
"""An arm that is no algorithm: a policy that always explores and never learns, in the program of DQN with SGD."""


def configured(scale: Scale, task: str, arm: str, readings: str, **options: Any) -> Configuration:
    """The configuration of one arm (an algorithm, or the random policy) at a scale."""
    common: dict[str, Any] = {"readings": readings, "seed": scale.seed, **options}
    if arm == RANDOM:
        common |= dict(epsilon_start=1.0, epsilon_end=1.0, eta=0.0)
    if scale.lanes is not None:
        common.setdefault("lanes", scale.lanes)
    return configure(task, "dqn-sgd" if arm == RANDOM else arm, **common)
