"""What training gives back: policies against a forward pass in NumPy, and a folder that gives back the same."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import srgdqn
from srgdqn.errors import InputError
from srgdqn.results.result import Result
from srgdqn.runs.tables import SCHEMAS, frame
from synthetic_runs import synthetic
from tiny import TINY, bits, q_values

ROUNDS = 5


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "normalised"])
def result(request: pytest.FixtureRequest) -> srgdqn.Result:
    options = {**TINY, "evaluation_interval": 100, "normalise_observations": request.param}
    return srgdqn.train("CartPole", **options, rounds=ROUNDS, seed=2)


@pytest.fixture(scope="module")
def observations() -> np.ndarray:
    return np.random.default_rng(0).normal(0, 1, (200, 4)).astype(np.float32)


# Policies


def test_a_policy_is_the_best_action_by_its_rounds_parameters(result: srgdqn.Result, observations: np.ndarray) -> None:
    taken = []
    for number in range(ROUNDS):
        values = q_values(result.run.parameters, number, observations)
        clear = np.abs(values[:, 0] - values[:, 1]) > 1e-4  # rounding decides the others
        assert clear.mean() > 0.9
        policy = result.policy(number)
        actions = policy(observations)
        assert isinstance(actions, np.ndarray)
        assert actions.shape == (200,)
        assert actions[clear].tolist() == values.argmax(1)[clear].tolist()
        # One observation has one action; a row of one has one row.
        single = policy(observations[7])
        assert type(single) is int
        assert single == actions[7]
        assert policy(observations[7].tolist()) == actions[7]
        assert policy(observations[7:8]).tolist() == [actions[7]]
        assert policy(observations[:0]).tolist() == []
        taken.append(tuple(actions.tolist()))
    assert len(set(taken)) == ROUNDS


@pytest.mark.parametrize("shape", [(), (3,), (5,), (2, 3), (4, 2), (1, 2, 4), (0,)])
def test_an_observation_of_another_shape_is_refused(result: srgdqn.Result, shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError) as caught:
        result.policy(0)(np.zeros(shape))
    assert f"shape {shape}" in str(caught.value)
    assert "(4,), or (rows, 4)" in str(caught.value)


@pytest.mark.parametrize("number", [-1, ROUNDS, 99, "0", None])
def test_a_round_that_there_is_not(result: srgdqn.Result, number: Any) -> None:
    with pytest.raises(InputError, match=f"no round {number!r} in this run. Give one of 0 to 4"):
        result.policy(number)


# The best round


def with_evaluations(result: srgdqn.Result, rows: list[tuple[int, int, float]]) -> srgdqn.Result:
    """The result with evaluations (round, step, return) of its own."""
    rounds, steps, returns = zip(*rows, strict=True)
    table = frame(
        "evaluations",
        {
            "round": rounds,
            "step": steps,
            "episode": [0] * len(rows),
            "return": returns,
            "length": [1] * len(rows),
            "success": [True] * len(rows),
        },
    )
    run = dataclasses.replace(result.run, tables={**result.run.tables, "evaluations": table})
    return dataclasses.replace(result, run=run)


@pytest.mark.parametrize(
    ("rows", "best"),
    [
        ([(0, 100, 9.0), (0, 200, 1.0), (1, 100, 0.0), (1, 200, 2.0)], 1),  # only the last evaluation counts
        ([(0, 200, 2.0), (1, 200, 2.0)], 0),  # the first of equals
        ([(0, 200, 0.0), (0, 200, 6.0), (1, 200, 4.0), (1, 200, 4.0)], 1),  # means of 3 and 4
        ([(0, 200, -5.0), (1, 200, -7.0), (2, 200, -3.0)], 2),
        ([(2, 200, 1.0), (4, 150, 3.0)], 4),  # each round's own last one: a round may have stopped before
    ],
)
def test_the_best_round(result: srgdqn.Result, rows: list[tuple[int, int, float]], best: int) -> None:
    assert with_evaluations(result, rows).best == best


# Playing more


def test_evaluating_again_plays_the_episodes_of_training_and_more(result: srgdqn.Result) -> None:
    again = result.evaluate(episodes=5)
    last = result.evaluations.filter(pl.col("step") == 200)
    assert again.schema == last.schema
    assert again.filter(pl.col("episode") < 3).equals(last)
    assert again["episode"].to_list() == [0, 1, 2, 3, 4] * ROUNDS
    some = result.evaluate(episodes=5, rounds=[4, 1])
    assert some["round"].to_list() == [4] * 5 + [1] * 5
    for number in (4, 1):
        mine = pl.col("round") == number
        assert some.filter(mine).equals(again.filter(mine))
    other = result.evaluate(episodes=5, seed=77)
    assert not other.equals(again)


def test_evaluating_what_there_is_not(result: srgdqn.Result) -> None:
    with pytest.raises(InputError, match="no round 9"):
        result.evaluate(rounds=[0, 9])
    with pytest.raises(InputError, match="episodes is 0"):
        result.evaluate(episodes=0)


# Folders


def test_a_folder_gives_back_what_was_saved(result: srgdqn.Result, observations: np.ndarray, tmp_path: Path) -> None:
    folder = result.save(tmp_path / "run")
    assert folder == tmp_path / "run"
    loaded = srgdqn.load(folder)
    assert loaded.configuration == result.configuration
    for name in SCHEMAS:
        assert getattr(loaded, name).equals(getattr(result, name)), name
        assert getattr(loaded, name).schema == getattr(result, name).schema
    assert sorted(loaded.run.parameters) == sorted(result.run.parameters)
    for name, array in result.run.parameters.items():
        assert bits(loaded.run.parameters[name]) == bits(array)
    assert loaded.run.provenance == result.run.provenance
    assert loaded.best == result.best
    for number in range(ROUNDS):
        assert loaded.policy(number)(observations).tolist() == result.policy(number)(observations).tolist()


def test_a_run_without_evaluations_has_no_best_round() -> None:
    empty = synthetic(rounds=2)
    tables = {**empty.run.tables, "evaluations": empty.evaluations.clear(), "rounds": empty.rounds.clear()}
    interrupted = Result(dataclasses.replace(empty.run, tables=tables))
    with pytest.raises(InputError, match="none is the best"):
        _ = interrupted.best
    with pytest.raises(InputError, match="interrupted before any began"):
        interrupted.policy(0)


def test_a_result_shows_itself_in_one_line() -> None:
    assert repr(synthetic(rounds=3)) == "<Result of srg-dqn on MountainCar: 3 rounds>"
    assert repr(synthetic(rounds=3, interrupted=True)).endswith("3 rounds, interrupted>")
