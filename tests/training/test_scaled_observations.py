"""`scale_observations`, beside environments that scale what they show by themselves, and beside formulas by hand."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest
from gymnasium.experimental.functional import FuncEnv
from gymnasium.spaces import Box, Discrete

import srgdqn
from host_environments import SMALL, Slope
from srgdqn import Agent
from srgdqn.errors import InputError
from srgdqn.integrations.policy import policy_of
from srgdqn.results.result import Result
from srgdqn.tasks.mountain_car import MountainCar
from tiny import TINY, bits

# The middle and half the distance of the bounds, and a number without bounds. Dividing by 8 rounds nothing.
MEAN, DEVIATION = np.array([2.0, 0.0], np.float32), np.array([8.0, 1.0], np.float32)
BOUNDED = Box(np.array([-6, -np.inf], np.float32), np.array([10, np.inf], np.float32))


class Plain(Slope):
    """A slope whose place has bounds, and whose speed has none."""

    observation_space = BOUNDED


class ScaledByItself(gym.ObservationWrapper):
    """The same, which shows what a network is to see."""

    def __init__(self) -> None:
        super().__init__(Plain())
        self.observation_space = Box(-np.inf, np.inf, (2,), np.float32)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return (observation - MEAN) / DEVIATION


def what_came_of(result: Result) -> Any:
    tables = {name: table for name, table in result.run.tables.items() if name != "timings"}
    network = {name: array for name, array in result.run.parameters.items() if name.startswith("network.")}
    columns = [table[name].to_list() for table in tables.values() for name in table.columns]
    return repr(columns), bits(network)


@pytest.mark.parametrize("kernel", ["native", "xla"])
@pytest.mark.parametrize("options", [{}, {"environments": 2}, {"target": "hard"}, {"batch_size": 8}])
def test_on_the_host_it_is_an_environment_that_scales_by_itself(
    kernel: str, options: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    if kernel == "native":
        request.getfixturevalue("kernel")
    usual = {**SMALL, "steps": 400, "kernel": kernel, "evaluation_interval": 200, "progress": False, **options}
    ours = srgdqn.train(Plain, "srg-dqn", scale_observations=True, **usual)
    assert ours.configuration.training.kernel == kernel
    assert what_came_of(ours) == what_came_of(srgdqn.train(ScaledByItself, "srg-dqn", **usual))
    assert what_came_of(ours) != what_came_of(srgdqn.train(Plain, "srg-dqn", **usual))


@pytest.mark.filterwarnings("ignore:there are no evaluations")
def test_so_it_is_in_a_vector_environment(kernel: None) -> None:
    del kernel
    usual = {**SMALL, "steps": 400, "kernel": "native", "environments": 2, "evaluation_limit": 20, "progress": False}
    plain, scaled = (gym.vector.SyncVectorEnv([make, make]) for make in (Plain, ScaledByItself))
    ours = srgdqn.train(plain, "srg-dqn", scale_observations=True, **usual)
    assert what_came_of(ours) == what_came_of(srgdqn.train(scaled, "srg-dqn", **usual))


class Car(MountainCar):
    """A car whose space has bounds that round nothing, and its twin, which scales by itself."""

    observation_space = BOUNDED

    def __init__(self, *, scales: bool = False) -> None:
        super().__init__("height")
        self.scales = scales

    def observation(self, state: jax.Array, rng: Any = None, params: None = None) -> jax.Array:
        return (state - MEAN) / DEVIATION if self.scales else state


def test_a_functional_environment_of_the_users_is_scaled() -> None:
    usual = {name: value for name, value in TINY.items() if name != "time_limit"}
    usual |= dict(rounds=2, epsilon_start=0.5, evaluation_interval=100, evaluation_limit=30, progress=False)
    ours = srgdqn.train(Car(), "srg-dqn", scale_observations=True, **usual)
    theirs = srgdqn.train(Car(scales=True), "srg-dqn", **usual)
    plain = srgdqn.train(Car(), "srg-dqn", **usual)
    for name, array in theirs.run.parameters.items():  # other programs, which may round otherwise
        np.testing.assert_allclose(ours.run.parameters[name], array, rtol=1e-4, atol=1e-5)
    assert any(
        not np.allclose(array, plain.run.parameters[name], rtol=1e-3) for name, array in theirs.run.parameters.items()
    )
    assert ours.evaluations["length"].to_list() == theirs.evaluations["length"].to_list()


BOUNDS = {
    "MountainCar": ([-0.3, 0.0], [0.9, 0.07]),
    "Pendulum": ([0, 0, 0], [1, 1, 8]),
    "CartPole": ([0, 0, 0, 0], [4.8, 1, np.pi * 24 / 180, 1]),  # its speeds have no bounds
    "Acrobot": ([0] * 6, [1, 1, 1, 1, 4 * np.pi, 9 * np.pi]),
}


@pytest.mark.parametrize("task", BOUNDS)
def test_the_kernel_learns_what_xla_learns(task: str, kernel: None) -> None:
    """At first: rounding and chaos part them later."""
    del kernel
    usual = {**TINY, "hidden": (8,), "rounds": 9, "reward": "raw", "scale_observations": True, "progress": False}
    native, xla = (srgdqn.train(task, "srg-dqn", kernel=each, **usual) for each in ("native", "xla"))
    for name, array in xla.run.parameters.items():
        error = np.abs(native.run.parameters[name] - array).reshape(9, -1).max(axis=1)
        assert np.median(error) < 1e-4
    mean, deviation = BOUNDS[task]
    for result in (native, xla):
        np.testing.assert_allclose(result.run.parameters["normaliser.mean"], [mean] * 9, atol=1e-6)
        np.testing.assert_allclose(result.run.parameters["normaliser.deviation"], [deviation] * 9, rtol=1e-6)
    plain = srgdqn.train(task, "srg-dqn", kernel="native", **{**usual, "scale_observations": False})
    changed = [np.abs(plain.run.parameters[name] - native.run.parameters[name]) for name in plain.run.parameters]
    assert max(error.max() for error in changed) > 1e-3


def exact(parameters: dict[str, np.ndarray], observations: np.ndarray, mean: Any, deviation: Any) -> np.ndarray:
    """Q-values in double precision of a perceptron with one hidden layer."""
    weights = [parameters[f"network.layers.{layer}.{part}"].astype(float) for layer in (0, 1) for part in LEAVES]
    hidden = np.maximum((observations - mean) / deviation @ weights[0] + weights[1], 0)
    return hidden @ weights[2] + weights[3]


LEAVES = ("weight", "bias")


@pytest.mark.parametrize("kernel", ["native", "xla"])
def test_a_saved_run_is_used_verified_and_exported(kernel: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if kernel == "native":
        request.getfixturevalue("kernel")
    usual = {**TINY, "rounds": 2, "reward": "raw", "time_limit": 200, "evaluation_interval": 100, "progress": False}
    srgdqn.train("MountainCar", "srg-dqn", scale_observations=True, kernel=kernel, out=tmp_path / "run", **usual)
    assert srgdqn.verify(tmp_path / "run", "all", progress=False).verdict == "identical"
    assert srgdqn.replay_round(tmp_path / "run", 1).iterations.height > 5
    result = srgdqn.load(tmp_path / "run")
    observations = np.random.default_rng(0).uniform([-1.2, -0.07], [0.6, 0.07], (300, 2)).astype(np.float32)
    values = exact(result.parameters_of(1), observations, [-0.3, 0], [0.9, 0.07])
    best, second = np.sort(values, axis=1)[:, [-1, -2]].T
    clear = best - second > 1e-4
    assert clear.mean() > 0.9
    assert result.policy(1)(observations)[clear].tolist() == values.argmax(1)[clear].tolist()
    plain = policy_of(result, 1)
    np.testing.assert_allclose(plain.q_values(observations), values, rtol=1e-4, atol=1e-5)
    srgdqn.export(result, tmp_path / "policy.py", round=1)
    exported = runpy.run_path(str(tmp_path / "policy.py"))["policy"]
    assert exported(observations).tolist() == plain(observations).tolist()
    srgdqn.export(result, tmp_path / "policy.onnx", round=1)
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx", providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(
        session.run(["q_values"], {"observation": observations})[0], values, rtol=1e-4, atol=1e-5
    )
    again = result.evaluate(episodes=3, seed=0)
    assert set(again["round"].to_list()) == {0, 1}


@pytest.mark.parametrize("kernel", ["native", "xla"])
def test_an_agent_acts_by_scaled_observations_also_when_loaded(
    kernel: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if kernel == "native":
        request.getfixturevalue("kernel")
    agent = Agent("srg-dqn", Plain, seed=3, kernel=kernel, scale_observations=True, **SMALL).learn(80)
    observations = np.random.default_rng(0).normal(0, 4, (200, 2)).astype(np.float32)
    parameters = {f"network.{name}": array for name, array in agent.to_numpy().arrays.items()}
    values = exact(parameters, observations, MEAN, DEVIATION)
    best, second = np.sort(values, axis=1)[:, [-1, -2]].T
    clear = best - second > 1e-5
    assert clear.mean() > 0.8
    for each in (agent, Agent.load(agent.save(tmp_path / "agent", include_replay=True), Plain)):
        actions, _ = each.predict(observations, deterministic=True)
        assert actions[clear].tolist() == values.argmax(1)[clear].tolist()
        np.testing.assert_allclose(each.to_numpy().q_values(observations), values, rtol=1e-4, atol=1e-5)
    # A file that is loaded without an environment has the constants, too.
    alone = Agent.load(tmp_path / "agent.safetensors")
    assert alone.predict(observations, deterministic=True)[0][clear].tolist() == values.argmax(1)[clear].tolist()


class Unbounded(Slope):
    observation_space = Box(-np.inf, np.inf, (2,), np.float32)


class Pictures(Slope):
    observation_space = Box(0, 255, (40, 40, 3), np.uint8)


class Numbered(FuncEnv):
    observation_space, action_space = Discrete(4), Discrete(2)

    def initial(self, rng: Any, params: Any = None) -> Any:
        return jnp.zeros((), int)

    def transition(self, state: Any, action: Any, rng: Any, params: Any = None) -> Any:
        return (state + action) % 4

    def observation(self, state: Any, rng: Any, params: Any = None) -> Any:
        return state

    def reward(self, state: Any, action: Any, next_state: Any, rng: Any, params: Any = None) -> Any:
        return 1.0 * action

    def terminal(self, state: Any, rng: Any, params: Any = None) -> Any:
        return state < 0


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        (Unbounded, {}, "no number of an observation of .*Unbounded has bounds below a million"),
        (Pictures, {"network": "cnn"}, "scale_observations is on, but the observations of .*Pictures are images"),
        ("FrozenLake-v1", {}, "the observation space of FrozenLake-v1 is Discrete.*which has no bounds"),
        (Numbered(), {"lanes": 1}, "Numbered is Discrete.*which has no bounds"),
        ("MountainCar", {"normalise_observations": True}, "scale_observations and normalise_observations are both on"),
    ],
)
def test_what_cannot_be_scaled_is_said(task: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        srgdqn.train(task, "srg-dqn", scale_observations=True, progress=False, **{**SMALL, "steps": 100, **options})
