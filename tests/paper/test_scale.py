import itertools
from typing import Any

import jax
import numpy as np
import pytest

from srgdqn.config.algorithms import ADAM_STEPS, ALGORITHMS, PAPER
from srgdqn.paper import adam_steps, confirmation, fingerprint, tuned_settings, tuning_search
from srgdqn.paper.cells import RunCell
from srgdqn.paper.factorial.arms import WHOLE
from srgdqn.paper.scale import CONFIRMATION, CONTROLS, PAPER_SCALE, QUICK, Scale
from srgdqn.paper.studies import EXPERIMENTS
from srgdqn.paper.studies.figure_2 import TASKS
from srgdqn.training.lane import round_keys

ALL = (PAPER_SCALE, QUICK, CONFIRMATION)


def configurations(scale: Scale) -> dict[str, Any]:
    """Every configuration of every cell, by the cell's name (and a name within it, where there are several)."""
    found: dict[str, Any] = {}
    for experiment, readings in itertools.product(EXPERIMENTS.values(), ("corrected", "printed")):
        for cell in experiment.cells(scale, readings):
            asked = cell if isinstance(cell, RunCell) else cell.plan
            if hasattr(asked, "configuration"):
                found[cell.name] = asked.configuration
            found |= {f"{cell.name}/{name}": each for name, each in getattr(asked, "configurations", {}).items()}
    return found


def test_the_paper_scale_has_the_papers_numbers() -> None:
    """Captions of Figures 2 and 3, and Tables 1 and 2."""
    assert PAPER_SCALE.rounds == {"MountainCar": 50, "Pendulum": 50, "CartPole": 10}
    assert (PAPER_SCALE.episodes, PAPER_SCALE.episode_rounds) == (150, 100)
    assert (PAPER_SCALE.spread_rounds, PAPER_SCALE.spread_steps) == (50, 100_000)
    assert not PAPER_SCALE.shorter
    assert PAPER_SCALE.lanes is None
    found = configurations(PAPER_SCALE)
    budgets = {"MountainCar": (100_000, None), "Pendulum": (20_000, None), "CartPole": (None, 800)}
    for task, algorithm in itertools.product(budgets, PAPER):
        training = found[f"{task}-{algorithm}-corrected"].training
        assert (training.steps, training.episodes) == budgets[task]
        assert training.rounds == PAPER_SCALE.rounds[task]
    for algorithm in PAPER:
        training = found[f"episodes-{algorithm}-printed"].training
        assert (training.episodes, training.rounds, training.steps) == (150, 100, None)
    for algorithm in ("svr-dqn", "srg-dqn"):
        training = found[f"spread-{algorithm}-corrected"].training
        assert (training.steps, training.rounds) == (100_000, 50)


def test_every_control_is_run_at_the_papers_scale() -> None:
    assert set(CONTROLS) | set(PAPER) | set(ADAM_STEPS) == set(ALGORITHMS)  # the last have a study of their own
    assert not set(CONTROLS) & {*PAPER, *ADAM_STEPS}
    names = {cell.name for cell in EXPERIMENTS["controls"].cells(PAPER_SCALE, "corrected")}
    for task, algorithm in itertools.product(PAPER_SCALE.rounds, (*PAPER, *CONTROLS)):
        assert f"{task}-{algorithm}-corrected" in names


def test_both_yardsticks_are_run_in_as_many_rounds_as_the_arms() -> None:
    for scale in (PAPER_SCALE, QUICK):
        found = configurations(scale)
        for task, yardstick in itertools.product(TASKS, ("random", "untrained")):
            assert found[f"{task}-{yardstick}-corrected"].training.rounds == scale.rounds[task]
            assert found[f"episodes-{yardstick}-corrected"].training.rounds == scale.episode_rounds
        random, untrained = (found[f"MountainCar-{name}-corrected"].options() for name in ("random", "untrained"))
        assert (random["epsilon_end"], random["eta"]) == (1.0, 0.0)
        assert (untrained["eta"], untrained["alpha"]) == (0.0, 0.0)
        ours = found["MountainCar-srg-dqn-corrected"].options()
        for name in ("epsilon_start", "epsilon_end", "epsilon_fraction", "seed", "time_limit", "evaluation_interval"):
            assert untrained[name] == ours[name]


@pytest.mark.parametrize("scale", ALL, ids=lambda scale: scale.name)
def test_all_cells_of_a_scale_have_its_seed_and_lanes(scale: Scale) -> None:
    """Paired: the same rounds of the same seed for every algorithm."""
    found = configurations(scale)
    assert len(found) > 60
    assert {each.training.seed for each in found.values()} == {scale.seed}
    if scale.lanes is not None:
        widths = {each.training.lanes for name, each in found.items() if "exact" not in name}
        assert widths == {scale.lanes}


DECIDING = (
    CONFIRMATION.seed,
    tuned_settings.SEED,
    WHOLE.seed,
    adam_steps.SEED,
    fingerprint.FINGERPRINT.seed,
)


def test_verdicts_have_seeds_that_no_pilot_has() -> None:
    assert DECIDING == (40_001, 41_001, 42_001, 43_001, 44_001)  # as fixed before any was run
    tuned = {stage.seed for stage in tuning_search.PROCEDURE.stages}
    assert not set(DECIDING) & {PAPER_SCALE.seed, QUICK.seed, confirmation.PILOT_SEED, *tuned}


def test_rounds_of_different_seeds_share_no_key() -> None:
    """A round is told by seed and number together: neighbouring seeds do not meet a few rounds later."""
    numbers = np.arange(401, dtype=np.uint32)
    every = [
        np.asarray(jax.random.key_data(jax.vmap(lambda number, seed=seed: round_keys(seed, number))(numbers)))
        for seed in map(np.uint32, (0, confirmation.PILOT_SEED, *DECIDING[:3]))
    ]
    keys = np.concatenate([each.reshape(-1, each.shape[-1]) for each in every])
    assert len(np.unique(keys, axis=0)) == len(keys) == 5 * 401 * 4
