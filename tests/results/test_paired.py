"""Differences in the same rounds, against answers from rows and resamples of one's own."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import polars as pl
import pytest

import srgdqn
from srgdqn.errors import InputError
from srgdqn.results.comparison import areas, solved, summarise
from srgdqn.results.result import Result
from synthetic_runs import synthetic


def with_returns(result: Result, returns: dict[int, dict[int, list[float]]]) -> Result:
    """The run with the returns of these episodes, by round and step of the evaluation."""
    rows = [
        {"round": number, "step": step, "episode": episode, "return": value, "length": 1, "success": None}
        for number, curve in returns.items()
        for step, several in curve.items()
        for episode, value in enumerate(several)
    ]
    evaluations = pl.DataFrame(rows, schema=result.evaluations.schema)
    return dataclasses.replace(
        result, run=dataclasses.replace(result.run, tables={**result.run.tables, "evaluations": evaluations})
    )


def rows_of(table: pl.DataFrame, **chosen: Any) -> dict[str, dict[str, Any]]:
    return {row["score"]: row for row in table.filter(**chosen).iter_rows(named=True)}


def final_rewards(result: Result) -> np.ndarray:
    """Of a budget of 5,000 steps, whose windows are all of one length."""
    final = result.curves.filter(pl.col("step") > 4_000).sort("round", "step")
    return final["reward"].to_numpy().reshape(result.rounds.height, -1).mean(1)


def bootstrap(differences: np.ndarray) -> tuple[float, float]:
    drawn = np.random.default_rng(5).choice(differences, (40_000, len(differences))).mean(1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)


def test_the_area_is_a_return_over_the_steps() -> None:
    # 1,000 steps at 10, 1,000 steps on the way from 10 to 20, and 3,000 from 20 to 0.
    curve = {1_000: [0.0, 20.0], 2_000: [20.0, 20.0], 5_000: [-10.0, 10.0]}
    result = with_returns(synthetic(rounds=2, steps=5_000), {0: curve, 1: {5_000: [-3.0, -5.0]}})
    assert areas(result) == pytest.approx({0: (10.0 * 1 + 15.0 * 1 + 10.0 * 3) / 5, 1: -4.0})
    assert summarise(result).area.mean == pytest.approx((11.0 - 4.0) / 2)


def test_solved_is_a_share_of_rounds_and_diverging_solves_nothing() -> None:
    returns = {0: {5_000: [80.0, 100.0]}, 1: {5_000: [80.0, 99.0]}, 2: {3_008: [500.0, 500.0]}}
    result = with_returns(synthetic(rounds=3, steps=5_000, diverged={2: 3_008}), returns)
    assert solved(result, 90.0) == {0: 1.0, 1: 0.0, 2: 0.0}
    assert solved(result, None) == {}
    assert summarise(result, threshold=90.0).solved.mean == pytest.approx(1 / 3)
    assert summarise(result).solved.mean is None


def test_the_threshold_is_gymnasiums_unless_one_is_given() -> None:
    cart_pole, pendulum = synthetic("CartPole", steps=2_000), synthetic("Pendulum", steps=2_000)
    assert srgdqn.compare([cart_pole])["threshold"].to_list() == [475.0]
    assert srgdqn.compare([cart_pole], threshold=10)["threshold"].to_list() == [10.0]
    assert srgdqn.compare([pendulum])["solved"].to_list() == [None]
    with pytest.raises(InputError, match="threshold is 'high', but must be a return, such as 475"):
        srgdqn.compare([cart_pole], threshold="high")  # type: ignore[arg-type]


def test_differences_are_of_the_same_rounds() -> None:
    one, other = synthetic(rounds=12, steps=5_000), synthetic(rounds=12, steps=5_000, noise=1, level=0.5, eta=0.5)
    table = srgdqn.paired([one, other], threshold=-150.0)
    assert table["score"].to_list() == ["greedy-return", "final-reward", "area", "solved"]
    row = rows_of(table, run="srg-dqn, eta 0.01", other="srg-dqn, eta 0.5")["final-reward"]
    a, b = final_rewards(one), final_rewards(other)
    assert (row["rounds"], row["diverged"], row["other_diverged"]) == (12, 0, 0)
    assert (row["mean"], row["other_mean"]) == pytest.approx((a.mean(), b.mean()))
    assert row["difference"] == pytest.approx((a - b).mean())
    assert (row["low"], row["high"]) == pytest.approx(bootstrap(a - b), abs=0.03)


def test_pairing_takes_out_what_rounds_have_in_common() -> None:
    noise = np.random.default_rng(0).normal(size=20) * 100
    one = {number: {5_000: [float(value)]} for number, value in enumerate(noise)}
    better = {number: {5_000: [float(value) + 1 + number % 2]} for number, value in enumerate(noise)}
    results = [with_returns(synthetic(rounds=20, steps=5_000, eta=eta), each) for eta, each in ((1, better), (2, one))]
    row = rows_of(srgdqn.paired(results))["greedy-return"]
    assert row["difference"] == pytest.approx(1.5)
    assert 1.2 < row["low"] < 1.5 < row["high"] < 1.8


def test_a_diverged_round_scores_the_worst_that_finished_in_any_run() -> None:
    returns = {number: {5_000: [float(10 * number)]} for number in range(4)}
    lucky = {**returns, 2: {1_504: [9_999.0]}, 3: {1_504: [9_999.0]}}
    worst = {number: {5_000: [-7.0]} for number in range(4)}
    runs = [
        with_returns(synthetic(rounds=4, steps=5_000, eta=eta, diverged=lost), each)
        for eta, each, lost in ((1, lucky, {2: 1_504, 3: 1_504}), (2, returns, {}), (3, worst, {}))
    ]
    table = srgdqn.paired(runs, ["a", "b", "c"], threshold=5.0)
    assert table.select("run", "other").unique(maintain_order=True).rows() == [("a", "b"), ("a", "c"), ("b", "c")]
    row = rows_of(table, run="a", other="b")
    for score in ("greedy-return", "area"):
        assert row[score]["mean"] == pytest.approx((0.0 + 10.0 - 7.0 - 7.0) / 4)
        assert (row[score]["diverged"], row[score]["other_diverged"]) == (2, 0)
    assert (row["solved"]["mean"], row["solved"]["other_mean"]) == (0.25, 0.75)
    # Without the third run the worst is another one.
    assert rows_of(srgdqn.paired(runs[:2]))["greedy-return"]["mean"] == pytest.approx((0.0 + 10.0 + 0.0 + 0.0) / 4)


def test_no_difference_is_told_where_most_rounds_of_both_diverged() -> None:
    lost = {0: 1_504, 1: 1_504}
    one, other, whole = (
        synthetic(rounds=3, steps=5_000, eta=eta, diverged=each) for eta, each in ((1, lost), (2, lost), (3, {}))
    )
    pairs = srgdqn.paired([one, other, whole], ["one", "other", "whole"])
    row = rows_of(pairs, run="one", other="other")["final-reward"]
    assert [row[name] for name in ("rounds", "diverged", "other_diverged", "difference")] == [3, 2, 2, None]
    assert rows_of(pairs, run="one", other="whole")["final-reward"]["difference"] is not None
    all_lost = synthetic(rounds=1, steps=5_000, diverged={0: 1_504})
    assert srgdqn.paired([all_lost, all_lost])["difference"].to_list() == [None] * 4


def test_only_rounds_that_ended_in_both_are_paired() -> None:
    long, short = synthetic(rounds=5, steps=5_000), synthetic(rounds=3, steps=5_000, eta=0.5)
    assert srgdqn.paired([long, short])["rounds"].unique().to_list() == [3]
    single = srgdqn.paired([long, synthetic(rounds=1, steps=5_000, eta=0.5)])
    assert single.select("rounds", "low").unique().rows() == [(1, None)]  # one round has no spread
    interrupted = synthetic(rounds=3, steps=5_000, ends=2_000, interrupted=True)
    with pytest.raises(InputError, match=r"have no round in common that ended in both: they have 5 and 3\. Resume"):
        srgdqn.paired([long, interrupted])


def test_what_cannot_be_paired_is_refused() -> None:
    run = synthetic(steps=2_000)
    with pytest.raises(InputError, match=r"different seeds \(0, 1\).*Give runs of one seed, or compare them without"):
        srgdqn.paired([run, synthetic(steps=2_000, seed=1)])
    with pytest.raises(InputError, match="there is one run, and a difference is between two"):
        srgdqn.paired([run])
    with pytest.raises(InputError, match="different tasks"):
        srgdqn.paired([run, synthetic("Pendulum", steps=2_000)])
