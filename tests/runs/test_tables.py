from typing import Any

import numpy as np
import polars as pl
import pytest

from srgdqn.errors import InputError
from srgdqn.runs.tables import SCHEMAS, conforming, frame

EPISODES: dict[str, Any] = {
    "round": np.array([0, 1], np.int64),
    "episode": [0, 0],
    "step": np.array([200, 150], np.int32),
    "return": np.array([-1.5, 2.0], np.float32),
    "length": [200, 150],
    "ending": ["truncated", "terminated"],
    "success": [None, True],
}
ROUNDS: dict[str, Any] = {
    "round": [0, 1],
    "steps": [100, 100],
    "episodes": [1, 2],
    "outer_iterations": [5, 5],
    "queries": [2**40, 1],
    "gradient_evaluations": [1, 1],
    "censored": [0, 0],
    "diverged_at": np.ma.array([48, 0], mask=[False, True]),
    "completed": np.array([False, True]),
}


def test_columns_get_their_types_and_order() -> None:
    table = frame("episodes", dict(reversed(EPISODES.items())))
    assert dict(table.schema) == SCHEMAS["episodes"]
    assert table.columns == list(SCHEMAS["episodes"])
    assert table["step"].to_list() == [200, 150]
    assert table["return"].to_list() == [-1.5, 2.0]
    assert table["success"].to_list() == [None, True]
    assert frame("rounds", ROUNDS)["diverged_at"].to_list() == [48, None]  # a masked entry is null


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (dict(length=[1.5, 2.0]), "episodes.length cannot be made of what was given: Float64 values. Give Int32"),
        (dict(length=[2**31, 1]), "episodes.length cannot be made of what was given"),
        (dict(length=["1", "2"]), "episodes.length cannot be made of what was given: String values. Give Int32"),
        (dict(length=[True, False]), "episodes.length cannot be made of what was given: Boolean values"),
        (dict(success=[1, 0]), "episodes.success cannot be made of what was given: Int64 values. Give Boolean"),
        (dict(length=[1, None]), "episodes.length has 1 nulls. Give every row a value."),
        (dict(length=[1, -1]), "episodes.length has negative values"),
        (dict(length=[1, 2, 3]), "the columns of episodes have different lengths"),
        (dict(ending=["terminated", "crashed"]), "unknown episodes.ending 'crashed'"),
        (dict(lenght=[1, 2]), "unknown column of episodes 'lenght'. Did you mean 'length'?"),
    ],
)
def test_wrong_columns_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        frame("episodes", {**EPISODES, **changes})
    assert said in str(caught.value)


POLICIES: dict[str, Any] = {
    "round": [0, 0],
    "policy": ["last", "best"],
    "step": [200, 150],
    "chosen_by": [None, -1.5],
    "fresh_episodes": [20, 0],
    "fresh_return": [2.0, None],
    "fresh_length": [12.5, None],
    "fresh_success": [None, None],
}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (dict(policy=["last", "worst"]), "unknown policies.policy 'worst'"),
        (dict(policy=["best", "best"]), "policies has a policy of a round twice"),
        (dict(step=[200, -1]), "policies.step has negative values"),
        (dict(fresh_episodes=[None, 0]), "policies.fresh_episodes has 1 nulls"),
    ],
)
def test_wrong_policies_are_refused(changes: dict[str, Any], said: str) -> None:
    assert frame("policies", POLICIES).rows()[1] == (0, "best", 150, -1.5, 0, None, None, None)
    with pytest.raises(InputError) as caught:
        frame("policies", {**POLICIES, **changes})
    assert said in str(caught.value)


def test_missing_columns_and_unknown_tables_are_refused() -> None:
    with pytest.raises(InputError, match=r"the table episodes lacks step, ending\. Give every column"):
        frame("episodes", {name: values for name, values in EPISODES.items() if name not in ("step", "ending")})
    with pytest.raises(InputError, match=r"unknown table 'episode'\. Did you mean 'episodes'"):
        frame("episode", EPISODES)


def test_a_table_of_other_types_does_not_conform() -> None:
    table = frame("episodes", EPISODES)
    with pytest.raises(InputError, match=r"episodes\.length has type Int64\. Make it Int32"):
        conforming("episodes", table.with_columns(pl.col("length").cast(pl.Int64)))
    assert conforming("episodes", table.select(reversed(table.columns))).equals(table)


def test_means_over_rounds_are_the_same_to_the_bit_whenever_they_are_taken() -> None:
    """Of a table that is not marked as sorted, every second mean of this size differs from the one before."""
    rounds, rows = 50, 4_000
    returns = np.random.default_rng(0).normal(size=rounds * rows)
    table = frame(
        "episodes",
        {
            "round": np.repeat(np.arange(rounds), rows),
            "episode": np.tile(np.arange(rows), rounds),
            "step": np.tile(np.arange(rows), rounds),
            "return": returns,
            "length": np.ones(rounds * rows, int),
            "ending": ["terminated"] * (rounds * rows),
            "success": [None] * (rounds * rows),
        },
    )
    late = table.filter(pl.col("episode") >= rows // 2)
    means = late.group_by("round").agg(pl.col("return").mean()).sort("round")["return"].to_numpy()
    np.testing.assert_allclose(means, returns.reshape(rounds, rows)[:, rows // 2 :].mean(axis=1), rtol=1e-12)
    for _ in range(100):
        again = late.group_by("round").agg(pl.col("return").mean()).sort("round")["return"].to_numpy()
        assert again.tobytes() == means.tobytes()
