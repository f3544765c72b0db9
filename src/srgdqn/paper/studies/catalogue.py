"""Every experiment, in the order of the report."""

from __future__ import annotations

from srgdqn.paper.studies.anatomy import ANATOMY
from srgdqn.paper.studies.controls import CONTROLS_EXPERIMENT
from srgdqn.paper.studies.dose_response import DOSE_RESPONSE
from srgdqn.paper.studies.experiment import Experiment
from srgdqn.paper.studies.figure_1 import FIGURE_1
from srgdqn.paper.studies.figure_2 import FIGURE_2
from srgdqn.paper.studies.figure_3_left import FIGURE_3_LEFT
from srgdqn.paper.studies.figure_3_right import FIGURE_3_RIGHT
from srgdqn.paper.studies.table_2 import TABLE_2
from srgdqn.paper.studies.theorem_1 import THEOREM_1
from srgdqn.paper.studies.training_time import TRAINING_TIME

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        FIGURE_1,
        FIGURE_2,
        CONTROLS_EXPERIMENT,
        FIGURE_3_LEFT,
        FIGURE_3_RIGHT,
        TABLE_2,
        THEOREM_1,
        TRAINING_TIME,
        ANATOMY,
        DOSE_RESPONSE,
    )
}
