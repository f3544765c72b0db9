"""Runs in ordinary environments through the front door: what comes back, and how it compares to compiled runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import gymnasium as gym
import jax
import numpy as np
import polars as pl
import pytest
from gymnasium.spaces import Box, Discrete

import srgdqn
from host_environments import SMALL, Counting, Slope
from srgdqn.adapters.environments import source_of
from srgdqn.config.configure import configure
from srgdqn.config.presets import HOST_DEFAULTS, HOST_PRESETS, host_preset
from srgdqn.engines.executor import CallsInterruptedError
from srgdqn.errors import InputError
from srgdqn.results.comparison import summarise
from srgdqn.results.curves import curve
from srgdqn.results.result import Result
from srgdqn.session.prepare import prepare
from srgdqn.training.host.evaluation import evaluation_seed
from tiny import LEVERS, Levers, q_values


@pytest.fixture(scope="module")
def result() -> Result:
    return srgdqn.train("CartPole-v1", "srg-dqn", **{**SMALL, "evaluation_interval": 40}, steps=96, seed=4)


def test_its_tables_tell_the_run(result: Result) -> None:
    assert result.rounds.select("round", "steps", "outer_iterations", "completed").rows() == [(0, 96, 11, True)]
    assert result.curves["step"].to_list() == [20, 40, 60, 80, 96]
    assert result.evaluations["step"].unique().sort().to_list() == [40, 80, 96]
    assert result.episodes["length"].to_list() == result.episodes["return"].to_list()  # a reward of 1 per step
    assert result.curves["reward"].to_list() == [1.0] * 5
    assert set(result.episodes["ending"]) == {"terminated"}
    assert result.episodes["success"].null_count() == result.episodes.height > 2
    assert result.timings["phase"].to_list()[-2:] == ["train", "evaluate"]
    assert not result.run.provenance["interrupted"]
    assert summarise(result).as_dict()["diverged"] == []


def by_hand(act: Any, seed: int, episodes: int) -> list[tuple[float, int]]:
    environment, played = gym.make("CartPole-v1"), []
    for episode in range(episodes):
        seen, _ = environment.reset(seed=evaluation_seed(seed, episode))
        total, steps, ended = 0.0, 0, False
        while not ended:
            seen, reward, terminated, truncated, _ = environment.step(act(seen))
            total, steps, ended = total + float(reward), steps + 1, terminated or truncated
        played.append((total, steps))
    return played


def test_its_policy_is_the_networks_and_is_judged_as_by_hand(result: Result) -> None:
    rows = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    stored = {name: array[None] for name, array in result.parameters_of(0).items()}
    expected = q_values(stored, 0, rows).argmax(1).tolist()
    policy = result.policy(0)
    assert policy(rows).tolist() == [policy(row) for row in rows] == expected
    played = result.evaluate(episodes=3, seed=8)
    assert list(played.select("return", "length").iter_rows()) == by_hand(policy, 8, 3)
    last = result.evaluations.filter(step=96).select("return", "length")
    assert list(last.iter_rows()) == by_hand(policy, 4, 2)


def test_it_is_the_same_from_its_folder(result: Result, tmp_path: Path) -> None:
    loaded = srgdqn.load(result.save(tmp_path / "run"))
    assert loaded.configuration == result.configuration
    for name, table in result.run.tables.items():
        assert table.equals(loaded.run.tables[name]), name
    assert loaded.evaluate(episodes=2).equals(result.evaluate(episodes=2))
    with pytest.raises(InputError, match=r"Slope are vectors of 2 numbers, but vectors of 4 numbers were learned with"):
        loaded.evaluate(episodes=1, environment=Slope)
    three = type("Three", (Slope,), {"observation_space": Box(-1, 1, (4,)), "action_space": Discrete(3)})
    with pytest.raises(InputError, match="has 3 actions, but 2 were learned with"):
        loaded.evaluate(episodes=1, environment=three)


def test_a_run_in_ones_own_environment_asks_for_it(tmp_path: Path) -> None:
    own = srgdqn.train(Slope, **SMALL, steps=40, progress=False)
    assert own.evaluate(episodes=2).height == 2  # which it still has
    loaded = srgdqn.load(own.save(tmp_path / "run"))
    with pytest.raises(
        InputError, match=r"which is not stored with it. Give it again: result.evaluate\(environment=…\)"
    ):
        loaded.evaluate(episodes=2)
    assert loaded.evaluate(episodes=2, environment=Slope()).equals(own.evaluate(episodes=2))


def test_episodes_without_end_are_cut_and_judged_for_so_many_steps() -> None:
    class Endless(Slope):
        def step(self, action: Any) -> Any:
            seen, reward, *_ = super().step(action)
            return np.clip(seen, -4, 4), reward, False, False, {}

    run = srgdqn.train(Endless, **{**SMALL, "evaluation_limit": 30}, episodes=5, episode_cap=10, progress=False)
    assert run.episodes["length"].to_list() == [10] * 5
    assert set(run.episodes["ending"]) == {"censored"}
    assert run.rounds["censored"].to_list() == [5]
    assert run.evaluations["length"].to_list() == [30, 30]
    limited = srgdqn.train(Endless, **SMALL, steps=40, time_limit=7, progress=False)
    assert set(limited.episodes["length"]) == {7}
    assert set(limited.episodes["ending"]) == {"truncated"}
    assert limited.evaluations["length"].to_list() == [7, 7]


def test_copies_side_by_side_have_their_own_episodes() -> None:
    run = srgdqn.train(Counting, **SMALL, steps=80, environments=4, progress=False)
    expected = []
    for environment in range(4):
        step = environment + 1
        for episode in range(10):
            length = (3, 5, 2)[episode % 3]
            step += 4 * length
            expected.append((step - 4, length, "truncated" if episode % 2 else "terminated"))
    expected = [row for row in sorted(expected) if row[0] <= 80]
    assert list(run.episodes.select("step", "length", "ending").iter_rows()) == expected


class StepByStep(gym.Env):
    """The levers as an ordinary environment."""

    observation_space, action_space = LEVERS.observation_space, LEVERS.action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.state = np.zeros(2)
        return self.state[:1].astype(np.float32), {}

    def step(self, action: Any) -> Any:
        self.state = np.array([self.state[0] + 1, action])
        return self.state[:1].astype(np.float32), float(action), bool(action == 7), False, {}


def test_a_functional_environment_is_learned_alike_compiled_and_on_the_host() -> None:
    """In double precision, over two dozen outer iterations: the same tables up to rounding."""
    options = {**host_preset("Levers"), **SMALL, "steps": 208, "time_limit": 9, "evaluation_interval": 80}
    assert isinstance(LEVERS, Levers)
    with jax.enable_x64(True):
        compiled = srgdqn.train(LEVERS, "srg-dqn", **options, kernel="xla", rounds=2, progress=False)
        configuration = configure("StepByStep", "srg-dqn", defaults={}, **options, kernel="xla", rounds=2)
        host = prepare(configuration, source=source_of(StepByStep)).train(workers=1)
    assert compiled.rounds["outer_iterations"].to_list() == [25, 25]
    for name in ("episodes", "evaluations", "curves", "rounds"):
        one, other = compiled.run.tables[name], host.run.tables[name]
        assert one.columns == other.columns
        assert one.height == other.height > 1
        for column in one.columns:
            if one[column].dtype in (pl.Float64, pl.Float32):
                np.testing.assert_allclose(one[column], other[column], rtol=1e-6, atol=1e-9, err_msg=column)
            else:
                assert one[column].to_list() == other[column].to_list(), column
    for name, array in compiled.run.parameters.items():
        np.testing.assert_allclose(array, host.run.parameters[name], rtol=1e-6, atol=1e-9)


def test_the_defaults_of_an_environment_can_be_learned_with() -> None:
    for name in ("Some-v0", *HOST_PRESETS):
        for images in (False, True):
            configure(name, defaults=host_preset(name, images=images))
    assert host_preset("Some-v0") == HOST_DEFAULTS


class Lamp(gym.Env):
    """A square at one of three places: the place is the right action."""

    observation_space = Box(0, 255, (4, 40, 40), np.uint8)
    action_space = Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self._lit(), {}

    def step(self, action: Any) -> tuple[Any, ...]:
        reward = float(action == self._place)
        self._steps += 1
        return self._lit(), reward, False, self._steps == 20, {}

    def _lit(self) -> np.ndarray:
        self._place = int(self.np_random.integers(3))
        seen = np.zeros(self.observation_space.shape, np.uint8)
        seen[:, 15:25, 13 * self._place : 13 * self._place + 10] = 200
        return seen


@pytest.mark.slow
@pytest.mark.parametrize("environments", [1, 4])
@pytest.mark.parametrize("algorithm", ["srg-dqn", "svr-dqn", "dqn-adam"])
def test_what_images_show_is_learned(algorithm: str, environments: int) -> None:
    options = dict(steps=1_600, learning_starts=200, learning_frequency=8, replay_capacity=2_000, target_period=50)
    rates = dict(alpha=2.5e-4, gamma=0.5, epsilon_fraction=0.5, evaluation_interval=None, environments=environments)
    result = srgdqn.train(Lamp, algorithm, **options, **rates, progress=False)
    assert result.configuration.network.network == "cnn"
    assert result.evaluations["return"].to_list() == [20.0] * 5


def test_an_interrupt_before_any_round_has_begun_leaves_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> list[Any]:
        raise CallsInterruptedError

    monkeypatch.setattr("srgdqn.training.host.rounds.distribute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        srgdqn.train("CartPole-v1", "dqn-adam", **SMALL, steps=96, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_without_rounds_is_compared_and_cannot_be_evaluated(result: Result) -> None:
    tables = {name: table.clear() for name, table in result.run.tables.items()}
    parameters = {name: array[:0] for name, array in result.run.parameters.items()}
    run = dataclasses.replace(result.run, tables=tables, parameters=parameters)
    nothing = Result(run)
    with pytest.raises(InputError, match="no round to evaluate"):
        nothing.evaluate(episodes=1)
    assert srgdqn.compare([nothing, result])["rounds"].to_list() == [0, 1]
    low, high = curve(nothing, points="returns").interval_band()
    assert low.shape == high.shape == (0,)
