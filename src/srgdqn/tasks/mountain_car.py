"""MountainCar: Gymnasium's MountainCar-v0 as pure functions, with the reward of the paper's reading."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.experimental.functional import FuncEnv
from gymnasium.spaces import Box, Discrete

from srgdqn.config.discovery import TABLE_1_SHARED, CompiledTask
from srgdqn.tasks.shaping import MOUNTAIN_CAR_REWARDS, MountainCarReward, choose

# The reward and the replay's capacity are readings (rows 17 and 13): Table 1 has none. So are the limits of evaluation
# of all tasks (rows 20 and 23).
TASK = CompiledTask(
    name="MountainCar",
    preset=dict(
        **TABLE_1_SHARED,
        hidden=(20,),
        eta=1e-2,
        batch_size=64,
        gamma=0.9,
        steps=100_000,
        replay_capacity=3_000,
        reward="height",
        evaluation_interval=10_000,
    ),
    rewards={"height": "0.45 sin(3x) + 0.55", "distance": "|x + 0.5|", "raw": "-1"},
    evaluation_limit=200,
    success="termination",
    gymnasium="srgdqn.tasks.gymnasium_classes:MountainCarEnv",
)

MIN_POSITION = -1.2
MAX_POSITION = 0.6
MAX_SPEED = 0.07
GOAL_POSITION = 0.5
FORCE = 0.001
GRAVITY = 0.0025


class MountainCar(FuncEnv[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array, None, None]):
    """A car in a valley, too weak to drive straight up; an episode terminates at the flag on the right hill.

    The state is the array (position, speed) and is observed as it is. The reward is a function of the state reached:
    `height` 0.45 sin(3x) + 0.55, `distance` |x + 0.5|, or `raw`, Gymnasium's own −1 (row 17 of the readings).
    """

    observation_space = Box(
        np.array([MIN_POSITION, -MAX_SPEED], np.float32), np.array([MAX_POSITION, MAX_SPEED], np.float32)
    )
    action_space = Discrete(3)

    def __init__(self, reward: MountainCarReward = "height") -> None:
        super().__init__()
        self._reward = choose("MountainCar reward", reward, MOUNTAIN_CAR_REWARDS)

    def initial(self, rng: jax.Array, params: None = None) -> jax.Array:
        """A car at rest somewhere near the bottom of the valley."""
        position = jax.random.uniform(rng, minval=-0.6, maxval=-0.4)
        return jnp.stack([position, jnp.zeros_like(position)])

    def transition(self, state: jax.Array, action: jax.Array, rng: Any = None, params: None = None) -> jax.Array:
        """Push left (0), not at all (1) or right (2). Only the wall on the left takes the car's speed."""
        position, speed = state[0], state[1]
        speed = speed + (action - 1) * FORCE - GRAVITY * jnp.cos(3 * position)
        speed = jnp.clip(speed, -MAX_SPEED, MAX_SPEED)
        position = jnp.clip(position + speed, MIN_POSITION, MAX_POSITION)
        speed = jnp.where(position <= MIN_POSITION, jnp.maximum(speed, 0.0), speed)
        return jnp.stack([position, speed])

    def observation(self, state: jax.Array, rng: Any = None, params: None = None) -> jax.Array:
        """Position and speed."""
        return state

    def reward(
        self, state: jax.Array, action: jax.Array, next_state: jax.Array, rng: Any = None, params: None = None
    ) -> jax.Array:
        """The reward of the position reached."""
        return self._reward(next_state[0], jnp)

    def terminal(self, state: jax.Array, rng: Any = None, params: None = None) -> jax.Array:
        """Whether the car is at or beyond the flag and not rolling back."""
        return (state[0] >= GOAL_POSITION) & (state[1] >= 0)
