"""The paper's tasks as ordinary Gymnasium environments: its own dynamics, with the rewards and torques of `shaping`.

In NumPy, for agents that are not written in JAX; `srgdqn.tasks` has the compiled ones. Made through the ids that
`srgdqn.environments` registers.
"""

from __future__ import annotations

import math
from typing import Any, SupportsFloat

import numpy as np
from gymnasium.envs.classic_control import cartpole, mountain_car, pendulum
from gymnasium.spaces import Box, Discrete

from srgdqn.errors import InputError
from srgdqn.tasks.shaping import (
    CART_POLE_REWARDS,
    DYNAMICS,
    MOUNTAIN_CAR_REWARDS,
    TORQUE_COUNT,
    TORQUES,
    CartPoleReward,
    Dynamics,
    MountainCarReward,
    Torques,
    choose,
)

Step = tuple[np.ndarray, SupportsFloat, bool, bool, dict[str, Any]]


class MountainCarEnv(mountain_car.MountainCarEnv):
    """MountainCar-v0 with the reward `height`, `distance` or `raw` of the position reached (row 17 of the readings)."""

    def __init__(self, reward: MountainCarReward = "height", render_mode: str | None = None) -> None:
        super().__init__(render_mode=render_mode)
        self._reward = choose("MountainCar reward", reward, MOUNTAIN_CAR_REWARDS)

    def step(self, action: int) -> Step:
        """Gymnasium's step, rewarded otherwise."""
        observation, _, terminated, truncated, info = super().step(action)
        return observation, float(self._reward(self.state[0], np)), terminated, truncated, info


class PendulumEnv(pendulum.PendulumEnv):
    """Pendulum with 12 torques (row 19 of the readings) and the dynamics of v0 or v1 (row 22)."""

    def __init__(
        self, torques: Torques = "endpoints", dynamics: Dynamics = "v0", render_mode: str | None = None
    ) -> None:
        super().__init__(render_mode=render_mode)
        first, spacing = choose("Pendulum torques", torques, TORQUES)
        self._torques = first + spacing * np.arange(TORQUE_COUNT)
        self._speed_limit = self.max_speed
        if choose("Pendulum dynamics", dynamics, DYNAMICS):
            # Gymnasium's step is v1's, which clips before it integrates the angle. With nothing to clip at, it
            # integrates as v0's did; the speed is clipped afterwards.
            self.max_speed = math.inf  # type: ignore[assignment]  # an int in Gymnasium
        self.action_space = Discrete(TORQUE_COUNT)

    def step(self, action: int) -> Step:
        """Gymnasium's step with the torque of that index."""
        if not self.action_space.contains(action):
            raise InputError(f"action {action!r} is not the index of a torque: expected 0 to {TORQUE_COUNT - 1}.")
        _, reward, terminated, truncated, info = super().step(self._torques[action, None])
        angle, speed = self.state
        self.state = np.array([angle, np.clip(speed, -self._speed_limit, self._speed_limit)])
        return self._get_obs(), float(reward), terminated, truncated, info


class CartPoleEnv(cartpole.CartPoleEnv):
    """CartPole-v1 with the reward `position-and-angle`, `upright-cosine` or `raw` of the state reached (row 18).

    The observation space is Gymnasium's with its infinite bounds on the speeds made finite, as Gymnasium's own checker
    asks for.
    """

    def __init__(self, reward: CartPoleReward = "position-and-angle", render_mode: str | None = None) -> None:
        super().__init__(render_mode=render_mode)
        self._reward = choose("CartPole reward", reward, CART_POLE_REWARDS)
        assert isinstance(self.observation_space, Box)
        self.observation_space = Box(
            np.maximum(self.observation_space.low, np.finfo(np.float32).min),
            np.minimum(self.observation_space.high, np.finfo(np.float32).max),
        )

    def step(self, action: Any) -> Step:
        """Gymnasium's step, rewarded otherwise."""
        observation, _, terminated, truncated, info = super().step(action)
        assert self.state is not None
        position, _, angle, _ = self.state
        return observation, float(self._reward(position, angle, np)), terminated, truncated, info
