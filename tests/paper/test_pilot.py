import json

import numpy as np
import pytest

from srgdqn.paper.pilot import Pilot, as_json, pilot_of, read_pilot
from srgdqn.paper.scale import CONFIRMATORY, PAPER_SCALE
from srgdqn.paper.studies.figure_2 import TASKS
from synthetic_outcomes import CHANCE, planted_run, world


def test_margins_and_thresholds_by_hand() -> None:
    pilot = Pilot(0, {"A": -5.0, "B": 0.25}, {"A": -1.0, "B": 0.75}, {"A": "srg-dqn", "B": "dqn-adam"})
    assert pilot.margins == pytest.approx({"A": 0.2, "B": 0.025})  # 5 % of (best - random)
    assert pilot.thresholds == pytest.approx({"A": -3.0, "B": 0.5})  # halfway


def test_the_best_of_all_algorithms_sets_the_margin() -> None:
    outcomes = world(True)
    outcomes["MountainCar-dqn-gd-corrected"] = planted_run("MountainCar", "dqn-gd", [5.0, 7.0])
    # The best by its curve, but all of its rounds diverged.
    lost = planted_run("Pendulum", "dqn-gd", [50.0, 70.0], diverged={0: 3_000, 1: 3_000})
    outcomes["Pendulum-dqn-gd-corrected"] = lost
    pilot = pilot_of(outcomes, seed=3)
    assert pilot.seed == 3
    assert pilot.random == pytest.approx(dict.fromkeys(TASKS, CHANCE))
    assert pilot.best == pytest.approx({"MountainCar": 6.0, "Pendulum": 2.0, "CartPole": 2.0})
    assert pilot.best_algorithm == {"MountainCar": "dqn-gd", "Pendulum": "srg-dqn", "CartPole": "srg-dqn"}


def test_it_can_be_written_and_read() -> None:
    pilot = pilot_of(world(True), seed=3)
    assert Pilot(**json.loads(as_json(pilot))) == pilot


def test_the_released_pilot_is_of_pilot_seeds_and_leaves_room() -> None:
    pilot = read_pilot()
    assert pilot.seed == PAPER_SCALE.seed != CONFIRMATORY.seed
    assert set(pilot.random) == set(pilot.best) == set(TASKS)
    assert all(np.isfinite(margin) and margin > 0 for margin in pilot.margins.values())
