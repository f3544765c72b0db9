"""The registered Gymnasium environments: sound by Gymnasium's own checker, and the same tasks as the compiled ones."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from gymnasium_steps import by_gymnasium
from srgdqn import environments
from srgdqn.errors import InputError
from srgdqn.tasks.acrobot import Acrobot
from srgdqn.tasks.cart_pole import CartPole
from srgdqn.tasks.mountain_car import MountainCar
from srgdqn.tasks.pendulum import Pendulum

# Both are double precision here; observations are single precision in Gymnasium.
TOLERANCE = 1e-12
OBSERVATION_TOLERANCE = 1e-6

IDS = {"srgdqn/MountainCar-v0": None, "srgdqn/Pendulum-v0": None, "srgdqn/CartPole-v0": 500, "srgdqn/Acrobot-v0": 500}


@pytest.mark.parametrize("identifier", IDS)
def test_gymnasiums_checker_has_nothing_to_say(identifier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")  # the checker opens a window
    monkeypatch.setenv("SDL_AUDIODRIVER", "dummy")
    check_env(gymnasium.make(identifier).unwrapped)


@pytest.mark.parametrize(("identifier", "time_limit"), IDS.items())
def test_ids_time_limits_and_spaces(identifier: str, time_limit: int | None) -> None:
    before = gymnasium.spec(identifier)
    environments.register()
    assert gymnasium.spec(identifier) is before
    assert before.max_episode_steps == time_limit
    compiled = {each.__name__: each for each in (MountainCar, Pendulum, CartPole, Acrobot)}[before.name]
    environment = gymnasium.make(identifier)
    assert environment.action_space == compiled.action_space
    observations: Any = environment.observation_space
    np.testing.assert_array_equal(observations.high, np.minimum(compiled.observation_space.high, np.finfo("f").max))
    np.testing.assert_array_equal(observations.low, -np.minimum(-compiled.observation_space.low, np.finfo("f").max))


def test_ids_need_no_jax() -> None:
    """Agents that are not written in JAX do not pay for it, and the id alone is enough to find the environments."""
    program = (
        "import sys, gymnasium\n"
        "environment = gymnasium.make('srgdqn.environments:srgdqn/Pendulum-v0', torques='midpoints')\n"
        "environment.reset(seed=0)\n"
        "environment.step(3)\n"
        "assert 'jax' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=60)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("identifier", "options", "compiled"),
    [
        ("srgdqn/MountainCar-v0", {}, MountainCar("height")),
        ("srgdqn/MountainCar-v0", {"reward": "distance"}, MountainCar("distance")),
        ("srgdqn/MountainCar-v0", {"reward": "raw"}, MountainCar("raw")),
        ("srgdqn/Pendulum-v0", {}, Pendulum("endpoints", "v0")),
        ("srgdqn/Pendulum-v0", {"torques": "midpoints"}, Pendulum("midpoints", "v0")),
        ("srgdqn/Pendulum-v0", {"dynamics": "v1"}, Pendulum("endpoints", "v1")),
        ("srgdqn/CartPole-v0", {}, CartPole("position-and-angle")),
        ("srgdqn/CartPole-v0", {"reward": "upright-cosine"}, CartPole("upright-cosine")),
        ("srgdqn/CartPole-v0", {"reward": "raw"}, CartPole("raw")),
        ("srgdqn/Acrobot-v0", {}, Acrobot()),
    ],
)
def test_steps_are_those_of_the_compiled_task(
    identifier: str, options: dict[str, str], compiled: Any, request: pytest.FixtureRequest
) -> None:
    fixture = {
        MountainCar: "mountain_car_cases",
        Pendulum: "pendulum_cases",
        CartPole: "cart_pole_cases",
        Acrobot: "acrobot_cases",
    }
    cases = request.getfixturevalue(fixture[type(compiled)])
    states, actions = cases.states[::7], cases.actions[::7]

    def step(state: jax.Array, action: jax.Array) -> tuple[jax.Array, ...]:
        reached = compiled.transition(state, action, None)
        observation = compiled.observation(reached, None)
        return observation, compiled.reward(state, action, reached, None), compiled.terminal(reached, None)

    outcome = jax.jit(jax.vmap(step))(jnp.asarray(states), jnp.asarray(actions))
    observations, rewards, terminals = (np.asarray(part) for part in outcome)

    _, seen, rewarded, ended = by_gymnasium(identifier, states, actions, **options)
    assert np.abs(seen - observations).max() <= OBSERVATION_TOLERANCE
    np.testing.assert_allclose(rewarded, rewards, rtol=TOLERANCE, atol=TOLERANCE)
    np.testing.assert_array_equal(ended, terminals)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("srgdqn/MountainCar-v0", "MountainCar-v0"),
        ("srgdqn/Pendulum-v0", "Pendulum-v1"),
        ("srgdqn/CartPole-v0", "CartPole-v1"),
        ("srgdqn/Acrobot-v0", "Acrobot-v1"),
    ],
)
def test_episodes_start_as_gymnasiums(ours: str, theirs: str) -> None:
    np.testing.assert_array_equal(gymnasium.make(ours).reset(seed=5)[0], gymnasium.make(theirs).reset(seed=5)[0])


def test_wrong_input() -> None:
    with pytest.raises(InputError, match=r"unknown MountainCar reward 'hight'\. Did you mean 'height'\?"):
        gymnasium.make("srgdqn/MountainCar-v0", reward="hight")
    environment = gymnasium.make("srgdqn/Pendulum-v0", disable_env_checker=True)
    environment.reset(seed=0)
    for action in (12, -1, 0.5, np.array([1.0])):
        with pytest.raises(InputError, match="expected 0 to 11"):
            environment.step(action)
