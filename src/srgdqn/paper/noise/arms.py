"""The arms of the noise map as configurations: plain Adam with a batch size at a pace, contenders, and yardsticks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from srgdqn.config import Configuration
from srgdqn.config.configure import configure
from srgdqn.learner.outer_iteration import queries_per_iteration
from srgdqn.paper.noise.rules import (
    CENTRE_BATCH,
    COMMON,
    EVALUATIONS,
    PER_STEPS,
    PERIOD,
    QUERIES_PER_STEP,
    Contender,
    Pace,
    Plan,
    Regime,
    alpha_of,
)

ADAM, RANDOM = "adam", "random"
LEARNERS, YARDSTICK = "learners", "yardstick"
"""The parts of the study beside the two paces of plain Adam."""


class Arm(NamedTuple):
    """What has an α of its own: plain Adam with a batch size at a pace, a contender, or the random policy."""

    task: str
    part: str
    name: str
    batch: int


class Candidate(NamedTuple):
    """One of a contender's variants (0 of plain Adam), and a step of the grid of α."""

    variant: int
    alpha_step: int


FIRST = Candidate(0, 0)


def ceiling_arms(plan: Plan, task: str, pace: Pace) -> list[Arm]:
    """Plain Adam with every batch size at a pace."""
    return [Arm(task, pace, ADAM, batch) for batch in plan.batches]


def learner_arm(task: str, contender: Contender) -> Arm:
    """A contender as a learner."""
    return Arm(task, LEARNERS, contender.name, contender.batch)


def contender_of(plan: Plan, arm: Arm) -> Contender | None:
    """The contender or control that an arm trains; None for plain Adam and the random policy."""
    return next((each for each in (*plan.contenders, *plan.controls) if each.name == arm.name), None)


def grid_of(plan: Plan, arm: Arm) -> list[Candidate]:
    """The first candidates of an arm."""
    contender = contender_of(plan, arm)
    variants = 1 if contender is None else len(contender.variants)
    return [Candidate(variant, step) for variant in range(variants) for step in plan.alpha_steps]


def configuration_of(plan: Plan, arm: Arm, candidate: Candidate, rounds: int, seed: int, **more: Any) -> Configuration:
    """The configuration of a candidate; `more` options come last, and the target's period is not among them."""
    regime, contender = plan.regimes[arm.task], contender_of(plan, arm)
    budget = {"rounds": rounds, "seed": seed, "evaluation_interval": regime.steps // EVALUATIONS}
    chosen: dict[str, Any] = {"estimator": "none", "batch_size": arm.batch, **_of(contender, candidate), **more}
    if arm.name == RANDOM:
        chosen |= dict(epsilon_start=1.0, epsilon_end=1.0, alpha=0.0)
        return _configured(regime, PER_STEPS, {**budget, **chosen, "evaluation_interval": None})
    chosen.setdefault("alpha", alpha_of(CENTRE_BATCH if contender is not None else arm.batch, candidate.alpha_step))
    if arm.part == "updates":
        return _configured(regime, PER_STEPS, {**budget, **chosen})
    every = PER_STEPS
    for _ in range(2):  # what `window_svrg` costs depends on the target's period in iterations
        queries = queries_per_iteration(_configured(regime, every, {**budget, **chosen}))
        every = max(1, round(queries / QUERIES_PER_STEP))
    return _configured(regime, every, {**budget, **chosen})


def _of(contender: Contender | None, candidate: Candidate) -> dict[str, Any]:
    if contender is None:
        return {}
    name = contender.options.get("estimator", contender.name)
    options = {"estimator": name, "batch_size": contender.batch, **contender.options}
    options |= contender.variants[candidate.variant]
    if name == "none":
        options["alpha"] = alpha_of(options["batch_size"], candidate.alpha_step)
    return options


def _configured(regime: Regime, every: int, options: dict[str, Any]) -> Configuration:
    """With a target network that is copied after the same number of environment steps, whatever the pace."""
    common = COMMON | dict(regime.options) | options
    factor = common.pop("horizon", 1.0)
    period = max(1, round(factor * PERIOD / every))
    budget = {"steps": regime.steps, "learning_frequency": every, "target_period": period}
    return configure(regime.task, "dqn-adam", **common, **budget)


def side_by_side(configurations: Sequence[Configuration]) -> list[list[int]]:
    """The places of configurations that differ in numbers alone, together."""
    groups: dict[Configuration, list[int]] = {}
    for place, each in enumerate(configurations):
        groups.setdefault(each.shape(), []).append(place)
    return list(groups.values())
