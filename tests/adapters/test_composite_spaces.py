"""An environment with nested observations and actions of several numbers: trained, saved, its policy used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import srgdqn
from host_environments import SMALL
from srgdqn.integrations.export import export
from srgdqn.integrations.export_formats import onnx_bytes
from srgdqn.integrations.policy import policy_of

OPTIONS: dict[str, Any] = dict(SMALL, estimator="none", steps=64, progress=False)


class Rover(gym.Env):
    """On a grid of 3 × 4, where it is and how fast; moved by two numbers. Its observations follow from its actions."""

    observation_space = spaces.Dict(
        {
            "cell": spaces.MultiDiscrete([3, 4], start=[1, 0]),
            "wheels": spaces.Tuple((spaces.Box(-2.0, 2.0, (2,), np.float64), spaces.Discrete(2))),
        }
    )
    action_space: spaces.Space = spaces.MultiDiscrete([3, 2], start=[-1, 0])

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.cell, self.steps = self.np_random.integers((1, 0), (4, 4)), 0
        return self._seen(0.0), {}

    def step(self, action: Any) -> tuple[Any, ...]:
        assert self.action_space.contains(action), action
        self.cell = np.clip(self.cell + np.array(action[:2], int), (1, 0), (3, 3))
        self.steps += 1
        return self._seen(float(action[0])), float(self.cell[0]), False, self.steps >= 9, {}

    def _seen(self, push: float) -> Any:
        return {"cell": self.cell, "wheels": (np.array([push, self.steps / 9]), self.steps % 2)}


class Arm(Rover):
    """The same moved by three continuous numbers."""

    action_space = spaces.Box(-1.0, 1.0, (3,), np.float32)


def by_hand(parameters: dict[str, np.ndarray], observation: Any) -> np.ndarray:
    """The Q-values of the stored perceptron for what Gymnasium flattens."""
    x = np.ravel(spaces.flatten(Rover.observation_space, observation)).astype(np.float64)
    x = np.maximum(x @ parameters["network.layers.0.weight"] + parameters["network.layers.0.bias"], 0)
    return x @ parameters["network.layers.1.weight"] + parameters["network.layers.1.bias"]


@pytest.mark.parametrize(("make", "bins", "count"), [(Rover, None, 6), (Arm, 3, 27)])
def test_a_saved_run_acts_on_nested_observations(make: Any, bins: int | None, count: int, tmp_path: Path) -> None:
    srgdqn.train(make, "dqn-adam", **OPTIONS, action_bins=bins, out=tmp_path / "run")
    result = srgdqn.load(tmp_path / "run")
    policy, parameters = result.policy(0), result.parameters_of(0)
    assert parameters["network.layers.0.weight"].shape == (3 + 4 + 2 + 2, 4)
    environment = make()
    Rover.observation_space.seed(0)
    samples = [Rover.observation_space.sample() for _ in range(20)]
    best = [int(by_hand(parameters, each).argmax()) for each in samples]
    table = [np.array(point) for point in result.run.provenance["action_table"]]
    assert len(table) == count
    for sample, index in zip(samples, best, strict=True):
        action = policy(sample)
        assert environment.action_space.contains(action)
        assert action.tolist() == table[index].tolist()
    together = policy(
        {
            "cell": np.stack([each["cell"] for each in samples]),
            "wheels": tuple(np.stack([each["wheels"][place] for each in samples]) for place in (0, 1)),
        }
    )
    assert together.tolist() == [table[index].tolist() for index in best]
    plain = policy_of(result, 0)
    flat = np.array([np.ravel(spaces.flatten(Rover.observation_space, each)) for each in samples], np.float32)
    assert plain(flat).tolist() == best
    words = "vectors of 11 numbers (cell: one-hot of 3 and 4, wheels.0: 2, wheels.1: one-hot of 2)"
    assert plain.about["observation"].startswith(words)
    assert words in export(result, tmp_path / "policy.py").read_text("utf-8")
    assert words.encode() in onnx_bytes(plain)


@pytest.mark.parametrize("environments", [1, 2, "vector"])
def test_nested_observations_are_replayed_as_gymnasium_flattens_them(environments: Any) -> None:
    """Of every transition in the replay the next observation follows from the first and the action."""
    several = gym.vector.SyncVectorEnv([Rover, Rover]) if environments == "vector" else None
    options = {name: value for name, value in OPTIONS.items() if name not in ("steps", "progress")}
    options |= {} if several is not None else {"environments": environments}
    agent = srgdqn.Agent("dqn-adam", Rover if several is None else several, seed=0, **options)
    agent.learn(40)
    rows = agent._round.memory.rows
    assert len(rows) == 40
    for row in rows:
        before, after, (action, reward, _) = row[:11], row[11:22], row[22:]
        push = np.array([[x, y] for x in (-1, 0, 1) for y in (0, 1)])[int(action)]
        cell = np.clip([before[:3].argmax() + 1 + push[0], before[3:7].argmax() + push[1]], (1, 0), (3, 3))
        steps = round(before[8] * 9) + 1
        now = {"cell": cell, "wheels": (np.array([push[0], steps / 9]), steps % 2)}
        np.testing.assert_allclose(after, np.ravel(spaces.flatten(Rover.observation_space, now)), rtol=1e-6)
        assert reward == cell[0]


def test_an_agent_is_saved_and_loaded(tmp_path: Path) -> None:
    options = {name: value for name, value in OPTIONS.items() if name not in ("steps", "progress")}
    agent = srgdqn.Agent("dqn-adam", Rover, seed=0, **options).learn(32)
    agent.save(tmp_path / "rover", include_replay=True)
    loaded = srgdqn.Agent.load(tmp_path / "rover", env=Rover)
    observation = {"cell": np.array([2, 3]), "wheels": (np.array([1.0, 0.5]), 1)}
    assert (
        agent.predict(observation, deterministic=True)[0].tolist()
        == loaded.predict(observation, deterministic=True)[0].tolist()
    )
    with pytest.raises(srgdqn.InputError, match=r"an observation without 'wheels\.0'"):
        loaded.predict({"cell": np.array([2, 3])})
