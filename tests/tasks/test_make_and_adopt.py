"""Tasks from settings, and from anybody's functional environment."""

from __future__ import annotations

import dataclasses
import importlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.experimental.functional import FuncEnv
from gymnasium.spaces import Box, Dict, Discrete

from srgdqn.config import TaskSettings
from srgdqn.config.discovery import COMPILED_TASKS, CompiledTask
from srgdqn.config.presets import preset
from srgdqn.errors import InputError
from srgdqn.tasks import Task, adopt, make
from srgdqn.tasks.acrobot import Acrobot
from srgdqn.tasks.cart_pole import CartPole
from srgdqn.tasks.mountain_car import MountainCar
from srgdqn.tasks.pendulum import Pendulum

OPTIONS = {field.name for field in dataclasses.fields(TaskSettings)}


def from_preset(name: str, **options: Any) -> TaskSettings:
    return TaskSettings(**({k: v for k, v in preset(name).items() if k in OPTIONS} | {"task": name} | options))


@pytest.mark.parametrize(
    ("name", "kind", "time_limit", "evaluation_limit", "success", "gymnasium_id"),
    [
        ("MountainCar", MountainCar, None, 200, "termination", "MountainCar-v0"),
        ("Pendulum", Pendulum, None, 200, "none", "Pendulum-v1"),
        ("CartPole", CartPole, 500, 500, "truncation", "CartPole-v1"),
        ("Acrobot", Acrobot, 500, 500, "termination", "Acrobot-v1"),
    ],
)
def test_presets(
    name: str, kind: type, time_limit: int | None, evaluation_limit: int, success: str, gymnasium_id: str
) -> None:
    task = make(from_preset(name))
    assert task.name == name
    assert type(task.environment) is type(task.raw) is kind
    assert (task.time_limit, task.evaluation_limit, task.success) == (time_limit, evaluation_limit, success)
    assert gymnasium.spec(gymnasium_id).max_episode_steps == evaluation_limit


@pytest.mark.parametrize("task", COMPILED_TASKS.values(), ids=lambda task: task.name)
def test_what_is_read_of_a_task_without_jax_is_what_its_file_says(task: CompiledTask) -> None:
    assert dataclasses.replace(importlib.import_module(task.module).TASK, module=task.module) == task


def reward_after(environment: Any, state: list[float], action: int) -> float:
    start = jnp.array(state)
    return float(environment.reward(start, action, environment.transition(start, action, None), None))


def test_rewards_of_a_task_are_the_chosen_one_and_the_raw_one() -> None:
    task = make(from_preset("MountainCar", reward="distance"))
    assert reward_after(task.environment, [0.3, 0.0], 1) == pytest.approx(0.8 - 0.0025 * np.cos(0.9))
    assert reward_after(task.raw, [0.3, 0.0], 1) == -1
    task = make(from_preset("CartPole", reward="upright-cosine"))
    assert reward_after(task.environment, [0.0, 0.0, 0.1, 0.0], 1) == pytest.approx(np.cos(0.1))
    assert reward_after(task.raw, [0.0, 0.0, 0.1, 0.0], 1) == 1
    task = make(from_preset("CartPole", reward="raw"))
    assert task.raw is task.environment


def test_options_of_pendulum_reach_it_and_its_twin() -> None:
    task = make(from_preset("Pendulum", torques="midpoints", dynamics="v1"))
    for environment in (task.environment, task.raw):
        assert reward_after(environment, [0.0, 0.0], 11) == pytest.approx(-0.001 * (2 - 1 / 6) ** 2)
        reached = environment.transition(jnp.array([np.pi / 2, 8.0]), 11, None)
        assert float(reached[0]) == pytest.approx(np.pi / 2 + 8 / 20)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (TaskSettings(task="MountianCar"), "unknown task 'MountianCar'. Did you mean 'MountainCar'?"),
        (TaskSettings(task="MountainCar-v0"), "unknown task 'MountainCar-v0'. Did you mean 'MountainCar'?"),
        (TaskSettings(task="MountainCar", reward="upright-cosine"), "unknown MountainCar reward 'upright-cosine'."),
        (TaskSettings(task="Pendulum", reward="height"), "Pendulum has no option reward, but 'height' was given."),
        (TaskSettings(task="CartPole", dynamics="v1"), "CartPole has no option dynamics, but 'v1' was given."),
        (TaskSettings(task="CartPole", time_limit=0), "time_limit must be at least 1 step, but 0 was given."),
    ],
)
def test_settings_that_cannot_be_met(settings: TaskSettings, message: str) -> None:
    with pytest.raises(InputError) as raised:
        make(settings)
    assert str(raised.value).startswith(message)


def test_gymnasiums_own_functional_cart_pole_is_adopted() -> None:
    from gymnasium.envs.phys2d.cartpole import CartPoleFunctional

    environment = CartPoleFunctional()
    task = adopt(environment, time_limit=500)
    assert task == Task("gymnasium.envs.phys2d.cartpole.CartPoleFunctional", environment, environment, 500, 500, "none")

    def step(state: jax.Array, action: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        reached = task.environment.transition(state, action, None)
        return reached, (task.environment.observation(reached, None), task.environment.terminal(reached, None))

    start = task.environment.initial(jax.random.key(0))
    _, (observations, terminals) = jax.lax.scan(step, start, jnp.ones(50, int))
    assert observations.shape == (50, 4)
    assert not terminals[0]
    assert terminals[-1]  # pushed one way until it falls


class Described(FuncEnv):
    """A functional environment of which only the spaces matter."""

    def __init__(self, observation_space: Any, action_space: Any) -> None:
        super().__init__()
        self.observation_space, self.action_space = observation_space, action_space


@pytest.mark.parametrize(
    "observations", [Box(0, 1, (3,)), Box(0, 255, (8, 8, 3), np.uint8), Box(0, 1, ()), Discrete(5)]
)
def test_arrays_of_any_shape_and_discrete_observations_are_adopted(observations: Any) -> None:
    environment = Described(observations, Discrete(2))
    task = adopt(environment, name="mine", evaluation_limit=50)
    assert task == Task("mine", environment, environment, None, 50, "none")


@pytest.mark.parametrize(
    ("environment", "options", "parts"),
    [
        (Described(Box(0, 1), Box(-2, 2)), {}, ["action space of Described is Box(-2.0, 2.0", "Discrete(how many)"]),
        (Described(Box(0, 1), Discrete(3, start=1)), {}, ["Discrete(3, start=1)", "Discrete(3) and add 1"]),
        (Described(Dict(a=Discrete(2)), Discrete(2)), {}, ["observation space of Described is Dict(", "as a Box"]),
        (Described(Box(0, 1, (0,)), Discrete(2)), {}, ["observation space of Described is Box(", "no numbers in it"]),
        (object(), {}, ["object lacks initial, transition", "FuncEnv"]),
        (Described(Box(0, 1), Discrete(2)), dict(time_limit=0), ["time_limit must be at least 1 step"]),
        (Described(Box(0, 1), Discrete(2)), dict(evaluation_limit=-1), ["evaluation_limit must be at least 1 step"]),
    ],
)
def test_what_cannot_be_adopted(environment: Any, options: dict[str, int], parts: list[str]) -> None:
    with pytest.raises(InputError) as raised:
        adopt(environment, **options)
    for part in parts:
        assert part in str(raised.value)


def test_an_ordinary_environment_is_not_adopted() -> None:
    with pytest.raises(InputError, match="CartPoleEnv is an ordinary Gymnasium environment"):
        adopt(gymnasium.make("CartPole-v1").unwrapped)  # type: ignore[arg-type]


def test_threads_that_ask_at_the_same_time_get_the_same_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled programs belong to a task: a second copy would be taken for somebody else's environment."""
    together, slow = threading.Barrier(4), importlib.import_module

    def import_slowly(name: str) -> Any:
        time.sleep(0.05)
        return slow(name)

    monkeypatch.setattr(importlib, "import_module", import_slowly)

    def ask() -> Task:
        together.wait()
        return make(from_preset("MountainCar", time_limit=12_345))

    with ThreadPoolExecutor(4) as pool:
        tasks = [asked.result() for asked in [pool.submit(ask) for _ in range(4)]]
    assert len({id(task) for task in tasks}) == 1
