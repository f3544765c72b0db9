"""CartPole: Gymnasium's CartPole-v1 as pure functions, with the reward of the paper's reading."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.experimental.functional import FuncEnv
from gymnasium.spaces import Box, Discrete

from srgdqn.config.discovery import TABLE_1_SHARED, CompiledTask
from srgdqn.tasks.shaping import ANGLE_LIMIT, CART_POLE_REWARDS, POSITION_LIMIT, CartPoleReward, choose

TASK = CompiledTask(
    name="CartPole",
    preset=dict(
        **TABLE_1_SHARED,
        hidden=(8,),
        eta=1e-2,
        batch_size=64,
        gamma=0.99,
        episodes=800,
        replay_capacity=2_000,
        reward="position-and-angle",  # like the replay's capacity a reading (rows 18 and 13)
        time_limit=500,
        evaluation_interval=10_000,
    ),
    rewards={
        "position-and-angle": "(x_lim - |x|)/x_lim - 0.8 + (θ_lim - |θ|)/θ_lim - 0.5",
        "upright-cosine": "cos θ",
        "raw": "1",
    },
    evaluation_limit=500,
    success="truncation",
    gymnasium="srgdqn.tasks.gymnasium_classes:CartPoleEnv",
)

GRAVITY = 9.8
POLE_MASS = 0.1
TOTAL_MASS = POLE_MASS + 1.0
HALF_LENGTH = 0.5
POLE_MOMENT = POLE_MASS * HALF_LENGTH
FORCE = 10.0
TIME_STEP = 0.02
INITIAL_RANGE = 0.05

_BOUNDS = np.array([2 * POSITION_LIMIT, np.inf, 2 * ANGLE_LIMIT, np.inf], np.float32)


class CartPole(FuncEnv[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array, None, None]):
    """A pole balanced on a cart; an episode terminates when the pole leans too far or the cart leaves the track.

    The state is the array (position, speed, angle, angular speed) and is observed as it is. The reward is a function of
    the state reached: `position-and-angle` (x_lim − |x|)/x_lim − 0.8 + (θ_lim − |θ|)/θ_lim − 0.5, `upright-cosine`
    cos θ, or `raw`, Gymnasium's own 1 (row 18 of the readings).
    """

    observation_space = Box(-_BOUNDS, _BOUNDS)
    action_space = Discrete(2)

    def __init__(self, reward: CartPoleReward = "position-and-angle") -> None:
        super().__init__()
        self._reward = choose("CartPole reward", reward, CART_POLE_REWARDS)

    def initial(self, rng: jax.Array, params: None = None) -> jax.Array:
        """Nearly upright, nearly at rest, near the centre."""
        return jax.random.uniform(rng, (4,), minval=-INITIAL_RANGE, maxval=INITIAL_RANGE)

    def transition(self, state: jax.Array, action: jax.Array, rng: Any = None, params: None = None) -> jax.Array:
        """Push the cart left (0) or right (1); positions move by the speeds before the push (explicit Euler)."""
        angle, angular_speed = state[2], state[3]
        cosine, sine = jnp.cos(angle), jnp.sin(angle)
        push = ((2 * action - 1) * FORCE + POLE_MOMENT * angular_speed**2 * sine) / TOTAL_MASS
        angular_acceleration = (GRAVITY * sine - cosine * push) / (
            HALF_LENGTH * (4 / 3 - POLE_MASS / TOTAL_MASS * cosine**2)
        )
        acceleration = push - POLE_MOMENT / TOTAL_MASS * angular_acceleration * cosine
        return state + TIME_STEP * jnp.stack([state[1], acceleration, angular_speed, angular_acceleration])

    def observation(self, state: jax.Array, rng: Any = None, params: None = None) -> jax.Array:
        """Position, speed, angle and angular speed."""
        return state

    def reward(
        self, state: jax.Array, action: jax.Array, next_state: jax.Array, rng: Any = None, params: None = None
    ) -> jax.Array:
        """The reward of the position and angle reached."""
        return self._reward(next_state[0], next_state[2], jnp)

    def terminal(self, state: jax.Array, rng: Any = None, params: None = None) -> jax.Array:
        """Whether the cart is off the track or the pole leans by more than 12 degrees."""
        return (abs(state[0]) > POSITION_LIMIT) | (abs(state[2]) > ANGLE_LIMIT)
