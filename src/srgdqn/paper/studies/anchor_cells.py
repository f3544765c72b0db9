"""The cells that look at the anchors of both algorithms' training runs again: for Figure 3, right, and the anatomy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from srgdqn.paper.measurements import anchors
from srgdqn.paper.studies.cells import MeasurementCell, StudyCell
from srgdqn.paper.studies.experiment import configured
from srgdqn.paper.studies.scale import Scale

TRAJECTORIES = ("svr-dqn", "srg-dqn")
_FIRST = 0.04  # of the budget: 4,000 of 100,000 steps, when the replay is full


def cell_name(readings: str, trajectory: str) -> str:
    """What the cell of an algorithm's run is called."""
    return f"anchors-{trajectory}-{readings}"


def cells(scale: Scale, readings: str) -> Sequence[StudyCell]:
    """A cell per algorithm whose run is looked at."""
    moments = np.linspace(_FIRST * scale.anchor_steps, scale.anchor_steps, scale.anchor_moments).round(-2)
    listed = []
    for trajectory in TRAJECTORIES:
        configuration = configured(
            scale,
            "MountainCar",
            trajectory,
            readings,
            rounds=scale.anchor_rounds,
            steps=scale.anchor_steps,
            evaluation_interval=None,
        )
        plan = anchors.Plan(configuration, tuple(int(max(step, 1_100)) for step in moments))
        listed.append(MeasurementCell(cell_name(readings, trajectory), anchors.measure, plan))
    return listed
