"""What the pilot has set before any verdict: margins and thresholds, from seeds that decide nothing."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import resources
from typing import Any

import numpy as np

from srgdqn.config.algorithms import ALGORITHMS
from srgdqn.paper.experiment import Outcomes
from srgdqn.paper.studies.figure_2 import TASKS, cell_name, random_score, scores

_SHARE = 0.05  # of (best - random) that a difference must exceed to matter
_FILE = "pilot.json"


@dataclass(frozen=True)
class Pilot:
    """By task: the score of the random policy, of the best algorithm, and which that was."""

    seed: int
    random: Mapping[str, float]
    best: Mapping[str, float]
    best_algorithm: Mapping[str, str]

    @property
    def margins(self) -> dict[str, float]:
        """δ: 5 % of (best pilot algorithm - random policy); 0 where no algorithm is ahead of that policy."""
        return {task: max(0.0, _SHARE * (self.best[task] - self.random[task])) for task in self.best}

    @property
    def thresholds(self) -> dict[str, float]:
        """Halfway from the random policy to the best pilot algorithm."""
        return {task: (self.best[task] + self.random[task]) / 2 for task in self.best}


def pilot_of(outcomes: Outcomes, seed: int, readings: str = "corrected") -> Pilot:
    """The pilot's figures from its cells: Figure 2 with all controls."""
    random, best, names = {}, {}, {}
    for task in TASKS:
        present = [name for name in ALGORITHMS if cell_name(task, readings, name) in outcomes]
        means = {name: float(np.mean(scores(outcomes, task, readings, name))) for name in present}
        names[task] = max(means, key=lambda name: means[name])
        random[task], best[task] = random_score(outcomes, task, readings), means[names[task]]
    return Pilot(seed, random, best, names)


@functools.cache
def read_pilot() -> Pilot:
    """The pilot that the package was released with."""
    text = resources.files("srgdqn.paper.evidence").joinpath(_FILE).read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return Pilot(content["seed"], content["random"], content["best"], content["best_algorithm"])


def as_json(pilot: Pilot) -> str:
    """The text that `read_pilot` reads."""
    return json.dumps(asdict(pilot), indent=2) + "\n"
