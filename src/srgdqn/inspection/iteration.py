"""Everything that one outer iteration of a round was made from, and what the run's own program made of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from srgdqn.learner.gradients import Transitions
from srgdqn.learner.normalisation import Normaliser
from srgdqn.learner.outer_iteration import LearnerState


class Moment(NamedTuple):
    """One outer iteration. Arrays are the host's."""

    block: int  # the number of the block before it, from 0
    step: int  # environment steps lived by then
    before: LearnerState
    after: LearnerState  # the same as before where it was discarded
    normaliser: Normaliser
    transitions: Transitions  # D as it is in the replay
    made_at: np.ndarray  # of every row of D, the environment step (counted from 1) that it was made in
    picks: np.ndarray  # rows of D, with axes of inner iterations and of the inner batch
    progress: np.ndarray  # the share of the budget that was spent
    numbers: dict[str, Any]  # the configuration's, as the program was given them
    told: np.ndarray  # what the program logged: loss, max_q, and the norms of Δ_M and of θ
    discarded: bool  # whether it led to what is no number
