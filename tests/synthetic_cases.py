"""Made-up outcomes of the confirmatory run, of which every claim's verdict is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from srgdqn.config.algorithms import PAPER
from srgdqn.paper.claims.cases import Distances, Doses, Exact, Gathered, Reaching, Spreads, Theorem
from srgdqn.paper.claims.verdicts import MARGINS
from srgdqn.paper.scores import Values

ROUNDS, WINDOWS = 60, 6
TASKS = ("MountainCar", "Pendulum", "CartPole")
ARMS = (*PAPER, "sgd-inner", "sgd-inner-adam", "random", "untrained")
OURS = "srg-dqn"
DOSES = tuple((c, b) for c in (0.0, 0.5, 1.0) for b in (1, 4, 16))


def values(
    centre: float, spread: float, seed: int, rounds: int = ROUNDS, windows: int = WINDOWS, lost: int = 0
) -> Values:
    """Rounds around a centre, of which the first `lost` diverged."""
    made = centre + spread * np.random.default_rng(seed).standard_normal((rounds, windows))
    diverged = np.arange(rounds) < lost
    made[diverged] = np.nan
    return Values(made, diverged)


def arms(unit: float, best: str = OURS, **changes: Values) -> dict[str, Values]:
    """Arms of which the best is far ahead and steadiest; all but the yardsticks have learned."""
    made = {
        name: values(unit * {"random": 0.0, "untrained": -1.0, best: 9.0}.get(name, 5.0), 0.1 * unit, seed)
        for seed, name in enumerate(ARMS)
    }
    made[best] = values(9 * unit, 0.02 * unit, 99)
    return {**made, **changes}


def lengths(best: str = OURS) -> dict[str, Values]:
    centres = {"random": 1_200.0, "untrained": 1_500.0, best: 200.0}
    return {
        name: values(centres.get(name, 600.0), 3.0 if name == best else 40.0, 200 + seed)
        for seed, name in enumerate(ARMS)
    }


def exact(better: str = "exact", rounds: int = 40) -> Exact:
    other = "ordinary" if better == "exact" else "exact"
    made = {better: values(0.5, 0.01, 1, rounds, 20).windows, other: values(0.3, 0.05, 2, rounds, 20).windows}
    return Exact(made, np.full(rounds, 0.1), np.full(rounds, 0.05))


def spreads(ratio: float, rounds: int = 40) -> Spreads:
    """SRG's standard deviations are so many times SVR's, but for noise; the first step has no window."""
    rng = np.random.default_rng(5)

    def algorithm(size: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        vectors = size * rng.standard_normal((rounds, 4, 3))
        windows = size * rng.uniform(0.9, 1.1, (rounds, 4))
        windows[:, 0] = np.nan
        return vectors, windows, size * rng.uniform(0.9, 1.1, (2, rounds, 4))

    made = {"svr-dqn": algorithm(1.0), OURS: algorithm(ratio)}
    vectors, within, frozen = ({name: made[name][place] for name in made} for place in range(3))
    return Spreads(vectors, within, frozen, dict.fromkeys(made, 0.0))


def reaching(fast: str = OURS) -> dict[str, dict[str, Reaching]]:
    def arm(name: str) -> Reaching:
        seconds = np.random.default_rng(7).uniform(1.0, 1.2, ROUNDS) * (1.0 if name == fast else 3.0)
        return Reaching(seconds, np.ones(ROUNDS, bool), np.zeros(ROUNDS, bool))

    return {task: {name: arm(name) for name in (OURS, "svr-dqn", "dqn-sgd")} for task in TASKS}


def doses(sign: float = 1.0) -> Doses:
    """Rewards fall with the error."""
    errors = {dose: 0.1 * (place + 1) for place, dose in enumerate(sorted(DOSES, reverse=True))}
    made = {dose: values(0.5 - sign * 0.1 * np.log(errors[dose]), 0.01, 300 + i) for i, dose in enumerate(DOSES)}
    return Doses(made, errors)


def world(**changes: Any) -> Gathered:
    """An outcome in which every claim of the paper's holds."""
    all_tasks = {task: arms(MARGINS[task] * 10) for task in TASKS}
    made = Gathered(
        final=all_tasks,
        first_half=all_tasks,
        lengths=lengths(),
        exact=exact(),
        distances=Distances(
            {name: np.random.default_rng(8).normal(-0.5, 0.1, 40) for name in ("own", "present", "estimate")},
            {"svr-dqn": 0.0, OURS: 0.0},
        ),
        spreads=spreads(0.5),
        theorem=Theorem(0, 12, {("convex", "theory"): np.random.default_rng(9).normal(0.5, 0.1, 24)}),
        reaching=reaching(),
        shares={name: np.random.default_rng(10).uniform(0.2, 0.4, 40) for name in ("unseen", "drift")},
        doses=doses(),
    )
    return replace(made, **changes)


def opposite() -> Gathered:
    """An outcome in which the opposite of every claim is so."""
    others = {task: arms(MARGINS[task] * 10, best="svr-dqn") for task in TASKS}
    for task, made in others.items():
        made[OURS] = values(4 * MARGINS[task] * 10, 0.5 * MARGINS[task] * 10, 77)
    longer = {**lengths(best="svr-dqn"), OURS: values(700.0, 90.0, 78)}
    good = world()
    assert good.distances is not None
    return replace(
        good,
        final=others,
        first_half=others,
        lengths=longer,
        exact=exact("ordinary"),
        distances=good.distances._replace(ratios={name: -each for name, each in good.distances.ratios.items()}),
        spreads=spreads(2.0),
        theorem=Theorem(0, 12, {("convex", "theory"): np.random.default_rng(9).normal(-0.5, 0.1, 24)}),
        reaching=reaching("svr-dqn"),
        shares={"unseen": np.full(40, 0.3), "drift": np.random.default_rng(3).uniform(0.0, 0.02, 40)},
        doses=doses(-1.0),
    )


def diverging() -> Gathered:
    """An outcome in which a fifth of the rounds with exact anchors diverged."""
    planted = exact()
    lost = planted.values["exact"].copy()
    lost[:8, 5:] = np.nan
    return world(exact=planted._replace(values={**planted.values, "exact": lost}))
