"""Cells of a grid: every combination once, with a name of its own, and checked before anything runs."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srgdqn.config.algorithms import ALGORITHMS
from srgdqn.config.presets import HOST_DEFAULTS, IMAGE_DEFAULTS
from srgdqn.errors import InputError
from srgdqn.sweeps.grid import Base, cells_of, checked_values, read_value, written


def test_every_combination_once() -> None:
    tried = checked_values({"eta": np.array([0.1, 0.2]), "hidden": [[8], (8, 8), ()]})
    cells = cells_of(Base("CartPole", "svr-dqn", options={"rounds": 3}), tried)
    assert [(cell.values["eta"], cell.values["hidden"]) for cell in cells] == [
        (0.1, (8,)),
        (0.1, (8, 8)),
        (0.1, ()),
        (0.2, (8,)),
        (0.2, (8, 8)),
        (0.2, ()),
    ]
    assert [cell.configuration.optimiser.eta for cell in cells] == [0.1] * 3 + [0.2] * 3
    assert {cell.configuration.training.rounds for cell in cells} == {3}
    assert {cell.configuration.estimator.estimator for cell in cells} == {"svrg"}
    assert cells[1].name == "hidden=8+8,eta=0.1"  # in the settings' order
    assert len({cell.name for cell in cells}) == 6


def test_long_names_are_cut_and_stay_different() -> None:
    numbers = ("eta", "alpha", "gamma", "beta1", "beta2", "adam_epsilon", "epsilon_start", "epsilon_end", "coefficient")
    base = Base("CartPole")
    cells = [cells_of(base, {name: [0.1234567890123456 + shift] for name in numbers})[0] for shift in (0.0, 1e-9)]
    assert len({cell.name for cell in cells}) == 2
    assert max(len(cell.name) for cell in cells) == 200


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({}, "nothing to sweep over"),
        ({"etta": [1]}, "Did you mean 'eta'?"),
        ({"learning_rate": [1]}, "It is called eta or alpha here"),
        ({"network": ["cnn"]}, "unknown option of a sweep 'network'"),
        ({"eta": 0.1}, "not a list of values"),
        ({"loss": "huber"}, "not a list of values"),
        ({"eta": []}, "eta has no values"),
        ({"eta": ["fast"]}, "eta is 'fast'"),
        ({"eta": [0.1, 1, 0.1]}, "eta is given 0.1 twice"),
    ],
)
def test_values_that_cannot_be_used_are_refused(values: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError) as raised:
        checked_values(values)
    assert why in str(raised.value)


def test_a_combination_that_cannot_be_run_is_told() -> None:
    with pytest.raises(InputError, match=r"the cell batch_size = 512, replay_capacity = 100 cannot be run: replay_cap"):
        cells_of(Base("CartPole"), {"batch_size": [16, 512], "replay_capacity": [100, 1_000]})
    with pytest.raises(InputError, match="as one value"):
        cells_of(Base("CartPole", options={"eta": 0.1}), {"eta": [0.1]})
    with pytest.raises(InputError, match="unknown algorithm 'srgdqn'"):
        cells_of(Base("CartPole", "srgdqn"), {"eta": [0.1]})


class Pictures(gym.Env):
    """Shows images, and counts how often it is made."""

    observation_space = gym.spaces.Box(0, 255, (4, 40, 40), np.uint8)
    action_space = gym.spaces.Discrete(2)
    made = 0

    def __init__(self) -> None:
        type(self).made += 1


def test_an_environment_is_looked_at_once_for_the_defaults_that_training_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pictures, "made", 0)
    gym.register("Pictures-v0", Pictures)
    try:
        cells = cells_of(Base("Pictures-v0", "dqn-adam"), {"eta": [0.1, 0.2, 0.3], "batch_size": [8, 16]})
        assert Pictures.made == 1
    finally:
        gym.registry.pop("Pictures-v0")
    expected = {**HOST_DEFAULTS, **IMAGE_DEFAULTS, **ALGORITHMS["dqn-adam"].options, "eta": 0.3, "batch_size": 16}
    assert expected.items() <= cells[-1].configuration.options().items()
    assert {cell.configuration.network.network for cell in cells} == {"cnn"}


@given(
    st.one_of(
        st.tuples(st.just("eta"), st.floats(0, 1e30)),
        st.tuples(st.just("hidden"), st.lists(st.integers(1, 10**6), max_size=5).map(tuple)),
        st.tuples(st.just("clip_norm"), st.none() | st.floats(1e-9, 1e9)),
        st.tuples(st.just("rounds"), st.integers(1, 10**9)),
        st.tuples(st.just("anchor_step"), st.booleans()),
        st.tuples(st.just("loss"), st.sampled_from(["squared", "huber"])),
    )
)
def test_a_value_is_read_as_it_was_written(option: tuple[str, Any]) -> None:
    name, value = option
    assert read_value(name, written(value)) == value
