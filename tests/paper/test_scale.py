import dataclasses
import itertools

import jax
import numpy as np
import pytest

from srgdqn.config.algorithms import ALGORITHMS, PAPER
from srgdqn.paper import readings_study, tuning
from srgdqn.paper.cells import RunCell
from srgdqn.paper.scale import (
    CONFIRMATORY,
    CONFIRMATORY_PRINTED,
    CONTROLS,
    PAPER_SCALE,
    QUICK,
    Scale,
)
from srgdqn.paper.studies import EXPERIMENTS
from srgdqn.training.lane import round_keys

ALL = (PAPER_SCALE, QUICK, CONFIRMATORY, CONFIRMATORY_PRINTED)


def configurations(scale: Scale) -> dict[str, object]:
    """Every configuration of every cell, by the cell's name (and a name within it, where there are several)."""
    found: dict[str, object] = {}
    for experiment, readings in itertools.product(EXPERIMENTS.values(), ("corrected", "printed")):
        for cell in experiment.cells(scale, readings):
            if isinstance(cell, RunCell):
                found[cell.name] = cell.configuration
            elif hasattr(cell.plan, "configurations"):
                found |= {f"{cell.name}/{name}": each for name, each in cell.plan.configurations.items()}
            elif hasattr(cell.plan, "configuration"):
                found[cell.name] = cell.plan.configuration
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
        training = found[f"{task}-{algorithm}-corrected"].training  # type: ignore[attr-defined]
        assert (training.steps, training.episodes) == budgets[task]
        assert training.rounds == PAPER_SCALE.rounds[task]
    for algorithm in PAPER:
        training = found[f"episodes-{algorithm}-printed"].training  # type: ignore[attr-defined]
        assert (training.episodes, training.rounds, training.steps) == (150, 100, None)
    for algorithm in ("svr-dqn", "srg-dqn"):
        training = found[f"spread-{algorithm}-corrected"].training  # type: ignore[attr-defined]
        assert (training.steps, training.rounds) == (100_000, 50)


def test_every_control_is_run_at_the_papers_scale() -> None:
    assert set(CONTROLS) | set(PAPER) == set(ALGORITHMS)
    assert not set(CONTROLS) & set(PAPER)
    names = {cell.name for cell in EXPERIMENTS["controls"].cells(PAPER_SCALE, "corrected")}
    for task, algorithm in itertools.product(PAPER_SCALE.rounds, ALGORITHMS):
        assert f"{task}-{algorithm}-corrected" in names


@pytest.mark.parametrize("scale", ALL, ids=("paper", "quick", "confirmatory", "confirmatory-printed"))
def test_all_cells_of_a_scale_have_its_seed_and_lanes(scale: Scale) -> None:
    """Paired: the same rounds of the same seed for every algorithm."""
    found = configurations(scale)
    assert len(found) > 60
    assert {each.training.seed for each in found.values()} == {scale.seed}  # type: ignore[attr-defined]
    if scale.lanes is not None:
        widths = {each.training.lanes for name, each in found.items() if "exact" not in name}  # type: ignore[attr-defined]
        assert widths == {scale.lanes}


def test_identity_of_has_seeds_that_no_pilot_has() -> None:
    deciding = [CONFIRMATORY.seed, tuning.TUNED_SEED, CONFIRMATORY.seed + readings_study.SEED_OFFSET]
    pilots = [PAPER_SCALE.seed, QUICK.seed, tuning.TUNING_SEED]
    assert not set(deciding) & set(pilots)
    assert len(set(deciding)) == 3
    assert PAPER_SCALE.seed != tuning.TUNING_SEED
    assert {cell.configuration.training.seed for cell in readings_study.cells(CONFIRMATORY, 3)} == {deciding[2]}


def test_rounds_of_different_seeds_share_no_key() -> None:
    """A round is told by seed and number together: neighbouring seeds do not meet a few rounds later."""
    numbers = np.arange(401, dtype=np.uint32)
    every = [
        np.asarray(jax.random.key_data(jax.vmap(lambda number, seed=seed: round_keys(seed, number))(numbers)))
        for seed in map(np.uint32, (0, tuning.TUNING_SEED, 30_001, 30_002, 30_003))
    ]
    keys = np.concatenate([each.reshape(-1, each.shape[-1]) for each in every])
    assert len(np.unique(keys, axis=0)) == len(keys) == 5 * 401 * 4


def test_the_other_readings_are_confirmed_on_the_same_seeds_and_budgets() -> None:
    """Only with fewer rounds."""
    for field in dataclasses.fields(Scale):
        own, other = getattr(CONFIRMATORY, field.name), getattr(CONFIRMATORY_PRINTED, field.name)
        if field.name == "rounds":
            assert all(2 <= other[task] <= own[task] for task in own)
        elif field.name.endswith("rounds"):
            assert 2 <= other <= own, field.name
        else:
            assert other == own, field.name


def test_the_confirmatory_scale_is_at_least_the_papers() -> None:
    assert CONFIRMATORY.rounds["MountainCar"] == CONFIRMATORY.rounds["Pendulum"] == 400
    for field in dataclasses.fields(Scale):
        value, own = getattr(CONFIRMATORY, field.name), getattr(PAPER_SCALE, field.name)
        if isinstance(value, int) and field.name != "seed":
            assert value >= own, field.name
    assert not CONFIRMATORY.shorter
    assert CONFIRMATORY.doses == PAPER_SCALE.doses == tuple(itertools.product((0.0, 0.5, 1.0), (1, 4, 16, 64)))
    # The claims and page one need these.
    for task in ("MountainCar", "Pendulum"):
        assert {"sgd-inner", "sgd-inner-adam"} <= set(CONFIRMATORY.controls[task])


def test_a_preview_is_smaller_in_everything() -> None:
    for field in dataclasses.fields(Scale):
        value, own = getattr(QUICK, field.name), getattr(PAPER_SCALE, field.name)
        if isinstance(value, int) and isinstance(own, int):
            assert value <= own, field.name
    assert all(QUICK.rounds[task] < PAPER_SCALE.rounds[task] for task in QUICK.rounds)
