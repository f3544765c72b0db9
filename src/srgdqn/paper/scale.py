"""How large the experiments are: the paper's own scale, a preview, and fresh seeds for the verdicts."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

from srgdqn.config.algorithms import ADAM_STEPS, ALGORITHMS, PAPER
from srgdqn.config.presets import FIGURE_2_ROUNDS

CONTROLS = tuple(name for name in ALGORITHMS if name not in (*PAPER, *ADAM_STEPS))

# No seed of one scale decides anything at another: what is seen while building must not decide.
_SEED = 0


@dataclass(frozen=True)
class Scale:
    """Rounds and budgets of every experiment, and the seed."""

    name: str
    seed: int
    rounds: Mapping[str, int]
    """Rounds of Figure 2 by task."""
    controls: Mapping[str, tuple[str, ...]]
    """Controls run beside the paper's four, by task."""
    exact_rounds: int
    """Figure 1's rounds and steps, of which the paper gives neither."""
    exact_steps: int
    anchor_rounds: int
    """Rounds and steps of Figure 3, right, and of the anatomy of the anchors' error; how often they are looked at."""
    anchor_steps: int
    anchor_moments: int
    episode_rounds: int
    """Figure 3, left."""
    episodes: int
    spread_rounds: int
    """Table 2."""
    spread_steps: int
    doses: tuple[tuple[float, int], ...]
    """Dose and response: pairs of the recursion's coefficient c and the b transitions of an inner iteration."""
    dose_rounds: int
    dose_steps: int
    timing_turns: int
    theorem: str
    """`whole` or `quick`."""
    lanes: int | None = None
    """Width of the compiled programs, where it is not to be the default."""
    shorter: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Budgets of Figure 2 that replace the paper's, by task."""


_DOSES = tuple(itertools.product((0.0, 0.5, 1.0), (1, 4, 16, 64)))

PAPER_SCALE = Scale(
    name="paper",
    seed=_SEED,
    rounds=FIGURE_2_ROUNDS,
    controls=dict.fromkeys(FIGURE_2_ROUNDS, CONTROLS),
    exact_rounds=10,
    exact_steps=20_000,
    anchor_rounds=10,
    anchor_steps=100_000,
    anchor_moments=6,
    episode_rounds=100,
    episodes=150,
    spread_rounds=50,
    spread_steps=100_000,
    doses=_DOSES,
    dose_rounds=25,
    dose_steps=20_000,
    timing_turns=6,
    theorem="whole",
)

QUICK = Scale(
    name="quick",
    seed=_SEED,
    rounds=dict.fromkeys(FIGURE_2_ROUNDS, 4),
    controls={"MountainCar": ("sgd-inner-adam",)},
    exact_rounds=2,
    exact_steps=2_000,
    anchor_rounds=2,
    anchor_steps=20_000,
    anchor_moments=2,
    episode_rounds=4,
    episodes=10,
    spread_rounds=4,
    spread_steps=20_000,
    doses=((0.0, 1), (0.5, 1), (1.0, 1)),
    dose_rounds=4,
    dose_steps=20_000,
    timing_turns=2,
    theorem="quick",
    lanes=4,
    shorter={"MountainCar": {"steps": 20_000}, "Pendulum": {"steps": 6_000}, "CartPole": {"episodes": 60}},
)

CONFIRMATION = dataclasses.replace(
    PAPER_SCALE,
    name="confirmation",
    seed=40_001,
    rounds={"MountainCar": 3_000, "Pendulum": 1_000, "CartPole": 2_000},
    exact_rounds=40,
    exact_steps=100_000,
    anchor_rounds=50,
    spread_rounds=100,
    dose_rounds=400,
    dose_steps=100_000,
    timing_turns=12,
)
"""What verdicts are taken on."""
SETS = ("corrected", "printed", "mnih")
"""The sets of readings that Figure 2 is drawn with, the primary one first."""
