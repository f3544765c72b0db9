"""The state of a watched run, from its lines as they arrive and from the tables of a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srgdqn.integrations import JsonLines, logging_to
from srgdqn.integrations.watching import LineReader, RunState, state_of_result
from srgdqn.session.prepare import prepare
from synthetic_runs import synthetic
from tiny import tiny


def begun(rounds: int = 2, unit: str = "steps", amount: int = 1_000) -> RunState:
    watched = RunState()
    budget = {"unit": unit, "amount": amount}
    watched.update({"task": "CartPole", "algorithm": "dqn-sgd", "rounds": rounds, "budget": budget})
    return watched


def line(number: int, step: int, seconds: float = 0.0, **values: Any) -> dict[str, Any]:
    return {"round": number, "step": step, "seconds": seconds, **values}


def test_progress_speed_and_time_left() -> None:
    watched = begun()
    assert (watched.share, watched.speed, watched.seconds_left) == (0.0, None, None)
    watched.update(line(0, 100, 5.0))  # compiling took five seconds
    watched.update(line(1, 100, 5.0))
    assert (watched.share, watched.speed, watched.seconds_left) == (0.1, None, None)
    watched.update(line(0, 300, 7.0))
    watched.update(line(1, 300, 7.0))
    assert watched.steps == 600
    assert watched.share == pytest.approx(0.3)
    assert watched.speed == pytest.approx(200.0)
    assert watched.seconds_left == pytest.approx(7.0)


@pytest.mark.parametrize(
    ("unit", "name"), [("steps", "step"), ("outer_iterations", "train/n_updates"), ("episodes", "time/episodes")]
)
def test_the_share_is_in_the_budgets_unit(unit: str, name: str) -> None:
    watched = begun(rounds=4, unit=unit, amount=100)
    watched.update({**line(0, 7), name: 50})
    watched.update({**line(1, 7), name: 110})
    watched.update({**line(2, 7), name: 10, "diverged_at": 7})
    assert watched.share == pytest.approx((0.5 + 1 + 1 + 0) / 4)


def test_what_a_line_lacks_stays_as_it_was() -> None:
    watched = begun()
    watched.update(line(1, 100, **{"rollout/ep_rew_mean": None, "rollout/reward": -2.0}))
    assert watched.curves() == ("rollout/reward", {1: [(100, -2.0)]})
    watched.update(line(0, 100, **{"train/loss": 0.5, "rollout/ep_rew_mean": 3.0}))
    watched.update(line(0, 200, **{"train/loss": None, "eval/mean_reward": 9.0}))
    assert (watched.rounds[0]["train/loss"], watched.rounds[0]["step"]) == (0.5, 200)
    assert watched.curves() == ("rollout/ep_rew_mean", {0: [(100, 3.0)]})


def test_a_new_beginning_forgets_and_strange_lines_are_left_alone() -> None:
    watched = RunState()
    watched.update(line(0, 1))
    watched.update({"task": 1})
    watched.update({})
    assert watched.rounds == {}
    watched = begun()
    watched.update(line(0, 1))
    watched.update({"ended": True})
    watched.update({"task": "Pendulum", "algorithm": "a", "rounds": 1, "budget": {"unit": "steps", "amount": 5}})
    assert (watched.rounds, watched.ended, watched.header["task"]) == ({}, False, "Pendulum")


SAME = ("step", "rollout/ep_rew_mean", "rollout/ep_len_mean", "time/episodes", "train/n_updates", "diverged_at")


def test_tables_and_lines_give_the_same_state(tmp_path: Path) -> None:
    configuration, _ = tiny(rounds=6, steps=2_000, eta=0.03)
    rows = JsonLines(tmp_path / "rows.jsonl")
    with logging_to(configuration, [rows]) as listener:
        result = prepare(configuration).train(listener=listener)
    logged = RunState()
    for line in LineReader(rows.path).read() or ():
        logged.update(line)
    assert logged.ended
    stored = state_of_result(result)
    assert stored.header.items() <= logged.header.items()
    assert sorted(stored.rounds) == sorted(logged.rounds) == list(range(6))
    for number in range(6):
        for name in SAME:
            assert stored.rounds[number].get(name) == pytest.approx(logged.rounds[number].get(name)), name
    assert stored.share == logged.share == 1.0


def test_means_are_over_the_last_hundred_episodes_of_each_round() -> None:
    result = synthetic(rounds=3, steps=60_000)
    stored = state_of_result(result)
    _, curves = stored.curves()
    for number in range(3):
        mine = result.episodes.filter(result.episodes["round"] == number)
        assert stored.rounds[number]["rollout/ep_rew_mean"] == pytest.approx(mine["return"].to_numpy()[-100:].mean())
        for step, value in curves[number]:
            by_then = mine.filter(mine["step"] <= step)["return"].to_numpy()
            assert value == pytest.approx(np.mean(by_then[-100:]), abs=1e-9)
