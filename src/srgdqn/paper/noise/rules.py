"""The rules of the noise map, as constants: tasks, seeds, stages, grids, estimators and margins.

docs/noise-map.md has them in words, and what was looked at before they were fixed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

KIND = "noise"

Pace = Literal["updates", "queries"]
"""One update per 8 environment steps whatever B is, or 8 gradient queries per environment step."""
PACES: tuple[Pace, ...] = ("updates", "queries")
PER_STEPS, QUERIES_PER_STEP = 8, 8

Outcome = Literal["area", "final"]
"""The area under the curve of greedy evaluations divided by its steps, and the last greedy return: both are returns."""
OUTCOMES: tuple[Outcome, ...] = ("area", "final")

EVALUATIONS = 20
"""Of a round."""
PERIOD = 256
"""Environment steps between two copies of the target network, whatever an arm's pace."""
ERRORS_SHIFT = 104
"""Steps by which errors are measured less often than that, so that the target is of another age each time."""
ALPHA, CENTRE_BATCH, FACTOR = 1e-3, 64, 2.0
"""The grid of α is centred on ALPHA · √(B / CENTRE_BATCH); neighbours differ by FACTOR."""
ALPHA_STEPS = (-2, -1, 0, 1, 2)
LEAST_MEASURED = 0.9
"""Share of the measurements of the variant with most that a variant needs to be chosen: diverged rounds have none."""
MOST_WIDENINGS = 2
FINALISTS = 2
MARGIN = 0.05
"""The share of (best − random) that matters."""
AGAINST = 512
"""The batch size that smaller ones are compared with."""
ERROR_RATE = 0.025
"""Of Holm's procedure, on each side."""
RESAMPLES = 10_000

COMMON: dict[str, Any] = dict(
    reward="raw",
    hidden=(64, 64),
    target="hard",
    loss="squared",
    clip_norm=None,
    step="adam",
    adam_process=False,
    epsilon_start=1.0,
    epsilon_end=0.05,
    epsilon_fraction=0.2,
    learning_starts=1_024,
    replay_capacity=50_000,
    evaluation_episodes=10,
)


class Stage(NamedTuple):
    """Rounds of every candidate: so many with each of the seeds, which are cells of their own."""

    rounds: int
    seeds: tuple[int, ...]

    @property
    def total(self) -> int:
        """Rounds of a candidate."""
        return self.rounds * len(self.seeds)


SCREENING, PILOTS = Stage(12, (10_001, 10_002)), Stage(50, (10_003, 10_004))
ERRORS = Stage(8, (10_005,))


@dataclass(frozen=True)
class Regime:
    """How a task is learned. All arms share it; they differ in B, in α, in when they learn, and in the estimator."""

    task: str
    steps: int
    confirmation: Stage
    options: Mapping[str, Any]
    lowest: float
    """The lowest return that an episode can have, which a round that diverged scores."""
    seconds: float
    """Of two cores, for all stages: measured kernel speed times work (`docs/noise-map.md`)."""


class Contender(NamedTuple):
    """An estimator that may become a learner: options of its own, and three variants of one of its numbers."""

    name: str
    batch: int
    options: Mapping[str, Any]
    variants: tuple[Mapping[str, Any], ...]
    usual: int = 0
    """The variant of which errors are measured with other batch sizes and horizons."""


_INNER = dict(inner_iterations=4, inner_batch=8)
_C = tuple(dict(coefficient=c) for c in (0.5, 0.8, 1.0))

CONTENDERS: tuple[Contender, ...] = (
    Contender("storm", 32, {}, tuple(dict(a=a) for a in (0.1, 0.3, 0.6))),
    Contender("mars", 32, dict(longest=1e9), tuple(dict(weight=w) for w in (0.05, 0.225, 0.9))),
    Contender("page", 32, dict(refresh=1 / 8, anchor_batches=8), _C),
    Contender("spider", 32, dict(every=8, anchor_batches=8, radius=1e3), _C),
    Contender("window_svrg", 32, dict(anchor_batches=8), _C),
    Contender("srg", 64, _INNER, _C, 2),
    Contender("svrg", 64, _INNER, _C, 2),
    Contender("alpha_svrg", 64, _INNER, tuple(dict(svrg_start=a) for a in (0.3, 0.5, 0.8))),
    Contender("storm_inner", 64, _INNER, tuple(dict(a=a) for a in (0.1, 0.3, 0.6))),
    Contender("saga", 64, _INNER, _C),
)
"""What is measured as an estimator. The best of these, by their errors at equal queries, are trained as learners.

MARS and SPIDER do not shorten their directions: a direction of length 1 has a small error for being nearly zero.
"""

CONTROLS: tuple[Contender, ...] = (
    Contender("fresh-halves", 64, dict(estimator="none"), tuple(dict(batch_size=b) for b in (16, 64, 256))),
    Contender("beta1", 64, dict(estimator="none"), tuple(dict(beta1=b) for b in (0.5, 0.95, 0.98))),
)
"""Plain Adam, which spends what an estimator spends on a second θ on fresh transitions: on batches of half as many as
those estimators query; or that averages over batches by a longer or a shorter momentum."""

MOST_CONTENDERS = 4
"""Learners beside the two controls."""


@dataclass(frozen=True)
class Plan:
    """How large the study is."""

    name: str
    regimes: Mapping[str, Regime]
    batches: tuple[int, ...] = (8, 32, 128, 512, 2_048)
    alpha_steps: tuple[int, ...] = ALPHA_STEPS
    screening: Stage = SCREENING
    pilots: Stage = PILOTS
    errors: Stage = ERRORS
    contenders: tuple[Contender, ...] = CONTENDERS
    controls: tuple[Contender, ...] = CONTROLS
    most_contenders: int = MOST_CONTENDERS
    coefficients: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    batch_factors: tuple[float, ...] = (0.5, 2.0, 4.0)
    """Of a contender's batch size."""
    horizons: tuple[float, ...] = (0.25, 1.0, 4.0)
    """Of the target's period, as factors."""
    swept: tuple[str, ...] = ("storm", "svrg", "srg")
    """Contenders whose errors are measured against queries, their coefficient and the horizon."""
    resamples: int = RESAMPLES
    described_batches: tuple[int, ...] = (32, 256)
    described_rounds: int = 20
    described_steps: Mapping[str, int] = field(default_factory=lambda: dict(LunarLander=60_000, Catch=20_000))
    described_seed: int = 10_006
    described_seconds: float = 600

    def stages(self, task: str) -> dict[str, Stage]:
        """The stages of a task by name, in their order."""
        confirmation = self.regimes[task].confirmation
        return {"screening": self.screening, "pilots": self.pilots, "confirmation": confirmation}


# Cells of the same seed train the same rounds, so that all arms are paired.
_FOUR_HUNDRED = Stage(80, (47_001, 47_002, 47_003, 47_004, 47_005))
_HUNDRED = Stage(50, (47_001, 47_002))

REGIMES: dict[str, Regime] = {
    each.task: each
    for each in (
        Regime("CartPole", 20_480, _FOUR_HUNDRED, dict(time_limit=500, gamma=0.99), 1, 4_260),
        Regime(
            "Pendulum",
            15_360,
            _FOUR_HUNDRED,
            dict(time_limit=200, gamma=0.95, reward_scale=0.1, torques="endpoints", dynamics="v1"),
            -200 * (math.pi**2 + 0.1 * 8**2 + 0.001 * 2**2),
            3_250,
        ),
        Regime(
            "MountainCar",
            46_080,
            _FOUR_HUNDRED,
            dict(
                time_limit=200,
                gamma=0.99,
                reward_scale=0.1,
                scale_observations=True,
                initialisation="normal",
                epsilon_end=0.1,
            ),
            -200,
            9_300,
        ),
        Regime(
            "Acrobot",
            30_720,
            _HUNDRED,
            dict(time_limit=500, gamma=0.99, reward_scale=0.1, epsilon_fraction=0.1),
            -500,
            4_300,
        ),
    )
}

PLAN = Plan("whole", REGIMES)


def alpha_of(batch: int, step: int) -> float:
    """A step of the grid of α.

    >>> alpha_of(64, 0), alpha_of(64, -1), alpha_of(1024, 0)
    (0.001, 0.0005, 0.004)
    """
    return ALPHA * math.sqrt(batch / CENTRE_BATCH) * FACTOR**step


def _brief(regime: Regime) -> Regime:
    """A regime of a few seconds, which shows only that everything runs."""
    confirmation = Stage(8, (10_009,))
    options = {**regime.options, "hidden": (8,), "learning_starts": 256, "evaluation_episodes": 1}
    return replace(regime, steps=2_560, confirmation=confirmation, options=options, seconds=60)


QUICK = Plan(
    "quick",
    {task: _brief(REGIMES[task]) for task in ("CartPole",)},
    batches=(8, 128, 512),
    alpha_steps=(-1, 0, 1),
    screening=Stage(4, (10_007,)),
    pilots=Stage(8, (10_008,)),
    errors=Stage(2, (10_007,)),
    contenders=tuple(each for each in CONTENDERS if each.name in ("storm", "svrg")),
    most_contenders=2,
    coefficients=(0.0, 1.0),
    horizons=(0.25, 1.0),
    batch_factors=(2.0,),
    swept=("svrg",),
    resamples=500,
    described_rounds=2,
    described_steps=dict(Catch=2_560),
    described_seconds=20,
)
"""All stages in about a minute, for no more than to see that they run: on pilot seeds, with a tiny network."""
