import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srgdqn.config.algorithms import READINGS as SETS
from srgdqn.paper.readings_study import READINGS, cells, design, effects, label
from srgdqn.paper.scale import CONFIRMATORY
from srgdqn.paper.studies import figure_2, figure_3_left

RUNS, FACTORS = 12, 11


def test_the_design_is_balanced_and_orthogonal() -> None:
    matrix = design()
    assert matrix.shape == (RUNS, FACTORS) == (12, len(READINGS))
    signs = np.where(matrix, 1, -1)
    assert (signs.sum(0) == 0).all()  # each option in six runs
    np.testing.assert_array_equal(signs.T @ signs, RUNS * np.eye(FACTORS))
    for first in range(FACTORS):
        for second in range(first):
            pairs = matrix[:, [first, second]]
            assert sorted(map(tuple, pairs.tolist())) == sorted([(a, b) for a in (0, 1) for b in (0, 1)] * 3)


def test_the_first_run_is_the_set_corrected() -> None:
    assert not design()[0].any()
    ordinary = {cell.name: cell.configuration for cell in figure_2.cells(CONFIRMATORY, "corrected")}
    ordinary |= {cell.name: cell.configuration for cell in figure_3_left.cells(CONFIRMATORY, "corrected")}
    own = ("rounds", "seed", "evaluation_interval")
    compared = 0
    for cell in cells(CONFIRMATORY, 0):
        twin = ordinary.get(cell.name.replace(label(0), "corrected"))
        if twin is not None:
            mine, theirs = cell.configuration.options(), twin.options()
            assert {name for name in mine if mine[name] != theirs[name]} <= set(own)
            compared += 1
    assert compared == 15 + 6


@given(st.lists(st.floats(-10, 10), min_size=FACTORS, max_size=FACTORS), st.floats(-10, 10))
def test_main_effects_are_recovered_exactly(planted: list[float], mean: float) -> None:
    values = mean + design() @ np.array(planted)
    np.testing.assert_allclose(effects(values), planted, atol=1e-12)


def test_a_run_without_a_value_is_left_out() -> None:
    values = np.arange(12.0)
    values[5] = np.nan
    kept = np.arange(12) != 5
    for index, told in enumerate(effects(values)):
        column = design()[kept, index]
        assert told == pytest.approx(values[kept][column].mean() - values[kept][~column].mean())


def test_without_a_run_on_one_side_there_is_no_effect() -> None:
    values = np.where(design()[:, 3], np.nan, 1.0)
    found = effects(values)
    assert np.isnan(found[3])
    assert (np.delete(found, 3) == 0).all()


@pytest.mark.parametrize("run", range(RUNS))
def test_every_cell_of_every_run_is_valid_and_has_its_readings(run: int) -> None:
    chosen = {reading.what for reading, other in zip(READINGS, design()[run], strict=True) if other}
    found = {cell.name: cell.configuration for cell in cells(CONFIRMATORY, run)}
    assert len(found) == 3 * 5 + 1 + 6
    for name, configuration in found.items():
        options = configuration.options()
        printed = SETS["printed"]
        for what, option, other in (
            ("y frozen for the outer iteration", "target", "outer"),
            ("terminal states never masked", "mask_terminal", printed["mask_terminal"]),
            ("D is the N newest transitions", "sampling", "newest"),
            ("Adam receives g_M", "adam_input", printed["adam_input"]),
            ("Adam steps from θ_M", "adam_from", printed["adam_from"]),
            ("Adam divides by a norm", "adam_denominator", printed["adam_denominator"]),
            ("normal(0, 0.3) initialisation", "initialisation", "normal"),
        ):
            assert (options[option] == other) == (what in chosen), (name, what)
        assert len(options["hidden"]) == (2 if "two hidden layers" in chosen else 1)
        svr = configuration.algorithm == "svr-dqn"
        assert options["anchor_step"] != (svr and "SVR-DQN makes M steps from θ_0" in chosen)
        if svr:
            assert options["adam_process"] != ("SVR-DQN without the Adam process" in chosen)
        assert (options["epsilon_start"], options["epsilon_end"]) == ((1.0, 1.0) if "random" in name else (0.1, 0.001))
        other_reward = "the other reward" in chosen
        if options["task"] == "Pendulum":
            assert options["reward_scale"] == (0.1 if other_reward else 1.0)
        else:
            changed = {"MountainCar": "distance", "CartPole": "upright-cosine"}[options["task"]]
            assert (options["reward"] == changed) == other_reward
