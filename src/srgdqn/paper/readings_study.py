"""Every reading: the paper's comparisons over combinations of what the paper leaves open.

Eleven readings with two options each, in the twelve runs of Plackett and Burman (1946): every option stands beside
every other equally often, so that each reading's main effect can be separated from the others', though not from
interactions of two. The first run is the set `corrected`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from srgdqn.config.algorithms import PAPER
from srgdqn.config.presets import PRESETS
from srgdqn.paper.cells import RunCell
from srgdqn.paper.experiment import RANDOM, configured
from srgdqn.paper.scale import Scale
from srgdqn.paper.studies.figure_2 import TASKS, cell_name
from srgdqn.paper.studies.figure_3_left import ALGORITHMS as EPISODE_ALGORITHMS
from srgdqn.paper.studies.figure_3_left import cell_name as episodes_name

SEED_OFFSET = 2  # from the confirmatory seed
ROUNDS = {"MountainCar": 25, "Pendulum": 25, "CartPole": 25}
EPISODE_ROUNDS = 25


@dataclass(frozen=True)
class Reading:
    """What the paper leaves open, and the option that is not the default."""

    row: str
    """Its row in the table of readings."""
    what: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """The other option, for every task and algorithm."""
    by_task: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    by_algorithm: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


READINGS: tuple[Reading, ...] = (
    Reading("2", "y frozen for the outer iteration", {"target": "outer"}),
    Reading("3", "terminal states never masked", {"mask_terminal": False}),
    Reading("4", "D is the N newest transitions", {"sampling": "newest"}),
    Reading("6", "Adam receives g_M", {"adam_input": "gradient"}),
    Reading("7", "Adam steps from θ_M", {"adam_from": "previous"}),
    Reading("8", "Adam divides by a norm", {"adam_denominator": "norm"}),
    Reading("15", "two hidden layers", by_task={task: {"hidden": PRESETS[task]["hidden"] * 2} for task in TASKS}),
    Reading("16", "normal(0, 0.3) initialisation", {"initialisation": "normal"}),
    Reading(
        "17, 18, 21",
        "the other reward",
        by_task={
            "MountainCar": {"reward": "distance"},
            "Pendulum": {"reward_scale": 0.1},
            "CartPole": {"reward": "upright-cosine"},
        },
    ),
    Reading("26", "SVR-DQN makes M steps from θ_0", by_algorithm={"svr-dqn": {"anchor_step": False}}),
    Reading("27", "SVR-DQN without the Adam process", by_algorithm={"svr-dqn": {"adam_process": False}}),
)

# The generator of the design with twelve runs (Plackett and Burman, Biometrika 33, 1946).
_GENERATOR = (1, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0)


def design() -> np.ndarray:
    """(runs, readings): whether a run has a reading's other option. The first run has none."""
    rows = [np.roll(_GENERATOR, shift) for shift in range(len(_GENERATOR))]
    return np.array([np.zeros(len(_GENERATOR), int), *rows]).astype(bool)


def label(run: int) -> str:
    """The name of a run's set of readings."""
    return f"run-{run:02d}"


def cells(scale: Scale, run: int) -> list[RunCell]:
    """Figure 2 and Figure 3, left, with the readings of a run."""
    chosen = [reading for reading, other in zip(READINGS, design()[run], strict=True) if other]
    listed = []
    for task in TASKS:
        for algorithm in (*PAPER, RANDOM, *(("sgd-inner-adam",) if task == "MountainCar" else ())):
            budget = scale.shorter.get(task, {})
            rounds = ROUNDS[task] if scale.lanes is None else scale.lanes
            configuration = _configured(scale, chosen, task, algorithm, rounds=rounds, **budget)
            listed.append(RunCell(cell_name(task, label(run), algorithm), configuration))
    for algorithm in (*EPISODE_ALGORITHMS, RANDOM):
        rounds = EPISODE_ROUNDS if scale.lanes is None else scale.lanes
        configuration = _configured(scale, chosen, "MountainCar", algorithm, rounds=rounds, episodes=scale.episodes)
        listed.append(RunCell(episodes_name(label(run), algorithm), configuration))
    return listed


def effects(values: np.ndarray) -> np.ndarray:
    """Each reading's main effect on one value per run: the mean with its other option minus the mean without.

    NaN where no run with one of the two has a value.
    """
    there, found = np.isfinite(values), []
    for other in design().T:
        sides = values[there & other], values[there & ~other]
        found.append(sides[0].mean() - sides[1].mean() if all(map(len, sides)) else np.nan)
    return np.array(found)


def _configured(scale: Scale, chosen: Sequence[Reading], task: str, algorithm: str, **options: Any) -> Any:
    merged: dict[str, Any] = {}
    for reading in chosen:
        merged |= {**reading.options, **reading.by_task.get(task, {}), **reading.by_algorithm.get(algorithm, {})}
    seed = scale.seed + SEED_OFFSET
    return configured(
        scale, task, algorithm, "corrected", **{**merged, **options, "seed": seed, "evaluation_interval": None}
    )
