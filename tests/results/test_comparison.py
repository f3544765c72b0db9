import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from srgdqn.errors import InputError
from srgdqn.results.comparison import (
    Spread,
    as_table,
    compare,
    departures,
    differing_options,
    distinct_labels,
    spread_of,
    summarise,
)
from srgdqn.results.result import Result
from srgdqn.runs.tables import frame
from synthetic_runs import synthetic


def final_rewards(result: Result, after: float) -> np.ndarray:
    """Reward per action after a step, round by round, from rows alone."""
    per_round = []
    for number in result.rounds["round"].to_list():
        total = actions = before = 0.0
        for row in result.curves.sort("round", "step").iter_rows(named=True):
            if row["round"] == number:
                if row["step"] > after:
                    total += row["reward"] * (row["step"] - before)
                    actions += row["step"] - before
                before = row["step"]
        if actions:
            per_round.append(total / actions)
    return np.array(per_round)


def bootstrap_means(values: np.ndarray) -> tuple[float, float]:
    drawn = np.random.default_rng(5).choice(values, (40_000, len(values))).mean(1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)


def test_the_final_reward_is_that_of_the_last_fifth_of_the_windows() -> None:
    result = synthetic(rounds=8, steps=10_500)
    values = final_rewards(result, 0.8 * 10_500)
    reward = summarise(result).reward
    assert reward.rounds == 8
    assert reward.mean == pytest.approx(values.mean())
    assert reward.sd == pytest.approx(values.std(ddof=1))
    assert reward.iqm == pytest.approx(np.sort(values)[2:6].mean())
    assert (reward.low, reward.high) == pytest.approx(bootstrap_means(values), abs=0.02)


def test_final_episodes_are_those_that_end_in_the_final_stretch() -> None:
    result = synthetic(rounds=3, steps=10_000)
    lengths, returns = [], []
    for number in range(3):
        rows = [row for row in result.episodes.iter_rows(named=True) if row["round"] == number and row["step"] > 8_000]
        lengths.append(np.mean([row["length"] for row in rows]))
        returns.append(np.mean([row["return"] for row in rows]))
    summary = summarise(result)
    assert summary.episode_length.mean == pytest.approx(np.mean(lengths))
    assert summary.episode_return.mean == pytest.approx(np.mean(returns))


def test_a_budget_in_episodes_has_its_final_stretch_in_episodes() -> None:
    result = synthetic("CartPole", rounds=2, episodes=50)
    returns = result.episodes.sort("round", "episode")["return"].to_numpy().reshape(2, 50)
    assert summarise(result).episode_return.mean == pytest.approx(returns[:, 40:].mean())
    windows = [
        [
            row["reward"]
            for row in result.curves.sort("step").iter_rows(named=True)
            if row["round"] == k and row["episodes"] > 40
        ]
        for k in range(2)
    ]
    assert all(1 <= len(rewards) <= 4 for rewards in windows)
    assert summarise(result).reward.rounds == 2


def test_a_budget_in_outer_iterations_has_its_final_stretch_in_them() -> None:
    # 100 outer iterations, the first at step 1008: the 80th is made at step 2272, the last at step 2592.
    result = synthetic(steps=2_592, window=16)
    by_steps = result.configuration
    counted = by_steps.with_options({"steps": None, "outer_iterations": 100})
    counted_result = Result(type(result.run)(counted, result.run.tables, result.run.parameters, {}))
    assert summarise(counted_result).reward.mean == pytest.approx(final_rewards(result, 2_272).mean())
    assert summarise(counted_result).reward.mean != pytest.approx(final_rewards(result, 2_256).mean())


def test_greedy_numbers_are_of_the_last_evaluation() -> None:
    result = synthetic(rounds=4, steps=10_000)
    returns = result.evaluations["return"].to_numpy().reshape(4, 3).mean(1)
    lengths = result.evaluations["length"].to_numpy().reshape(4, 3).mean(1)
    summary = summarise(result)
    assert summary.greedy_return.mean == pytest.approx(returns.mean())
    assert summary.greedy_return.sd == pytest.approx(returns.std(ddof=1))
    assert summary.greedy_length.mean == pytest.approx(lengths.mean())
    assert summary.success.mean == pytest.approx(1 / 3)


def test_rounds_that_diverged_are_counted_and_never_enter_by_what_they_lack() -> None:
    result = synthetic(rounds=4, steps=10_000, diverged={1: 3_008, 3: 9_504})
    summary = summarise(result)
    assert summary.diverged == {1: 3_008, 3: 9_504}
    # Round 3 has the window that ends at 9,000 and the rest of its own: that is part of the final stretch.
    assert summary.reward.rounds == summary.greedy_return.rounds == 3
    assert summary.reward.mean == pytest.approx(final_rewards(result, 8_000).mean())
    assert compare([result])["diverged"].to_list() == [2]
    assert compare([result])["reward_rounds"].to_list() == [3]


def test_an_interrupted_run_has_only_a_last_reward() -> None:
    result = synthetic(rounds=2, steps=10_000, ends=4_096, interrupted=True)
    summary = summarise(result)
    assert summary.interrupted
    assert summary.reward == Spread(0)
    last = [result.curves.filter(round=k, step=4_096)["reward"][0] for k in range(2)]
    assert summary.last_reward.mean == pytest.approx(np.mean(last))


def test_a_reward_that_is_not_finite_is_missing() -> None:
    result = synthetic(rounds=2, steps=10_000)
    curves = result.curves.with_columns(
        reward=np.where(result.curves["round"].to_numpy() == 0, np.nan, result.curves["reward"].to_numpy())
    )
    run = result.run
    broken = Result(type(run)(run.configuration, {**run.tables, "curves": curves}, run.parameters, run.provenance))
    assert summarise(broken).reward.rounds == 1
    assert summarise(broken).reward.mean == pytest.approx(final_rewards(result, 8_000)[1])


def test_costs_are_per_round() -> None:
    result = synthetic(rounds=5, lanes=2, steps=10_000)
    summary = summarise(result)
    trained = sum(row["seconds"] for row in result.timings.iter_rows(named=True) if row["phase"] == "train")
    assert summary.seconds == pytest.approx(trained / 5)
    assert summary.queries == 10_000 // 16 * 96
    assert summary.gradient_evaluations == 10_000 // 16 * 97
    assert summary.steps == 50_000
    assert summary.censored == 0 + 1 + 2 + 3 + 4


def with_directions(result: Result, rows: list[tuple[int, int, float | None, float, float, float | None]]) -> Result:
    """With rows of round, step, ‖G‖², ‖Δ - G‖², the plain batch's, and the cosine; ‖E(Δ - G)‖² is (‖Δ - G‖² - 1)/2."""
    columns = ("round", "step", "squared_norm", "squared_error", "plain_squared_error", "cosine")
    given = dict(zip(columns, zip(*rows, strict=True), strict=True))
    bias = [0.5 * error - 0.5 for error in given["squared_error"]]
    others = dict.fromkeys(("plain_squared_bias", "plain_cosine"), [0.0] * len(rows)) | {"squared_bias": bias}
    tables = {**result.run.tables, "directions": frame("directions", {**given, **others})}
    return dataclasses.replace(result, run=dataclasses.replace(result.run, tables=tables))


def test_errors_of_directions_are_ratios_of_sums_over_the_last_fifth() -> None:
    """Of the rounds that got there; a round with a measurement that is not finite has no value."""
    run = synthetic(rounds=4, steps=10_000, diverged={3: 6_000})
    rows = [
        (0, 8_000, 9.0, 9.0, 9.0, 0.9),
        (0, 9_000, 1.0, 2.0, 8.0, 0.2),
        (0, 10_000, 3.0, 6.0, 2.0, 0.4),
        (1, 10_000, 2.0, 2.0, 1.0, None),
        (2, 10_000, None, 2.0, 1.0, 0.5),
        (3, 6_000, 1.0, 1.0, 1.0, 1.0),
    ]
    summary = summarise(with_directions(run, rows))
    assert (summary.direction_error.rounds, summary.direction_error.mean) == (2, pytest.approx((8 / 4 + 1) / 2))
    assert (summary.direction_ratio.rounds, summary.direction_ratio.mean) == (3, pytest.approx((8 / 10 + 2 + 2) / 3))
    assert (summary.direction_cosine.rounds, summary.direction_cosine.mean) == (2, pytest.approx((0.3 + 0.5) / 2))
    bias = (0.5 + 2.5) / (2 + 6), 0.5 / 2, 0.5 / 2
    assert (summary.direction_bias.rounds, summary.direction_bias.mean) == (3, pytest.approx(sum(bias) / 3))
    assert summarise(run).direction_error == summarise(run).direction_bias == Spread(0)
    assert as_table([summary])["direction_ratio"].item() == summary.direction_ratio.mean


def test_a_single_round_has_no_spread() -> None:
    assert spread_of([3.0]) == Spread(1, 3.0, iqm=3.0)
    assert spread_of([None, float("nan"), float("inf")]) == Spread(0)


def test_the_table_has_a_row_per_run_and_the_summary_is_json() -> None:
    results = [synthetic(algorithm=name, rounds=2, steps=5_000) for name in ("srg-dqn", "dqn-sgd")]
    table = compare(results)
    assert table["label"].to_list() == ["srg-dqn", "dqn-sgd"]
    summaries = [summarise(result) for result in results]
    assert table["reward"].to_list() == [summary.reward.mean for summary in summaries]
    assert table["reward_high"].to_list() == [summary.reward.high for summary in summaries]
    assert as_table(summaries).columns == table.columns
    for summary in summaries:
        assert json.loads(json.dumps(summary.as_dict()))["reward"]["iqm"] == summary.reward.iqm
    assert summarise(synthetic(rounds=2, steps=5_000, diverged={1: 2_000})).as_dict()["diverged"] == [
        {"round": 1, "step": 2_000}
    ]


def test_runs_of_different_tasks_are_not_compared() -> None:
    with pytest.raises(InputError, match=r"different tasks \(MountainCar, Pendulum\)"):
        compare([synthetic(steps=2_000), synthetic("Pendulum", steps=2_000)])
    with pytest.raises(InputError, match="no run"):
        compare([])


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (dict(algorithm="srg-dqn"), dict(algorithm="dqn-sgd"), ["srg-dqn", "dqn-sgd"]),
        (dict(eta=0.1), dict(eta=0.2), ["srg-dqn, eta 0.1", "srg-dqn, eta 0.2"]),
        (dict(), dict(readings="printed"), ["srg-dqn, corrected readings", "srg-dqn, printed readings"]),
        (
            dict(),
            dict(readings="printed", mask_terminal=True),
            # What does not follow from the readings is told: here both mask.
            ["srg-dqn, corrected readings", "srg-dqn, printed readings"],
        ),
        (
            dict(mask_terminal=False),
            dict(readings="printed", mask_terminal=True),
            ["srg-dqn, corrected readings, mask_terminal False", "srg-dqn, printed readings, mask_terminal True"],
        ),
        (dict(hidden=(20, 20)), dict(hidden=(8,)), ["srg-dqn, hidden 20+20", "srg-dqn, hidden 8"]),
        (dict(seed=1), dict(seed=2), ["srg-dqn, seed 1", "srg-dqn, seed 2"]),
        (dict(), dict(), ["srg-dqn, run 1", "srg-dqn, run 2"]),
    ],
)
def test_labels_tell_runs_apart_by_what_differs(first: Any, second: Any, expected: list[str]) -> None:
    results = [synthetic(**{"steps": 2_000, **given}) for given in (first, second)]
    assert distinct_labels(results) == expected


def test_departures_are_from_what_the_names_stand_for() -> None:
    configuration = synthetic("Pendulum", "svr-dqn", readings="printed", eta=0.5, steps=2_000).configuration
    assert departures(configuration) == {"eta": (0.5, 1e-3), "steps": (2_000, 20_000)}
    assert departures(synthetic("Pendulum", "dqn-gd", rounds=1).configuration) == {}
    assert departures(synthetic("Pendulum", "dqn-gd", kernel="xla").configuration) == {}
    assert differing_options([configuration, configuration]) == []


def test_runs_that_differ_in_more_than_a_label_can_tell_have_their_names() -> None:
    many = synthetic(eta=0.3, alpha=0.2, gamma=0.5, batch_size=32, inner_iterations=3, rounds=1)
    runs = [many, synthetic(rounds=1)]
    assert distinct_labels(runs, ["one", "other"]) == ["srg-dqn, one", "srg-dqn, other"]
    assert distinct_labels([synthetic(eta=0.3, rounds=1), runs[1]], ["one", "other"])[0] == "srg-dqn, eta 0.3"
