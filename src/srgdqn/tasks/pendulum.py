"""Pendulum: Gymnasium's pendulum swing-up as pure functions, with twelve torques and either version's dynamics."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.experimental.functional import FuncEnv
from gymnasium.spaces import Box, Discrete

from srgdqn.config.discovery import TABLE_1_SHARED, CompiledTask
from srgdqn.tasks.shaping import (
    DYNAMICS,
    TORQUE_COUNT,
    TORQUES,
    Dynamics,
    Torques,
    choose,
    within_half_a_turn,
)

TASK = CompiledTask(
    name="Pendulum",
    preset=dict(
        **TABLE_1_SHARED,
        hidden=(20,),
        eta=1e-3,
        batch_size=32,
        gamma=0.9,
        steps=20_000,
        replay_capacity=3_000,
        reward="raw",
        torques="endpoints",
        dynamics="v0",
        evaluation_interval=2_000,
    ),
    rewards={"raw": "-(θ² + 0.1 θ'² + 0.001 τ²)"},
    evaluation_limit=200,
    options={"torques": ("endpoints", "midpoints"), "dynamics": ("v0", "v1")},
    gymnasium="srgdqn.tasks.gymnasium_classes:PendulumEnv",
)

MAX_SPEED = 8.0
TIME_STEP = 0.05
GRAVITY_GAIN = 15.0
"""3g / 2l with g = 10 and l = 1."""
TORQUE_GAIN = 3.0
"""3 / ml² with m = l = 1."""
INITIAL_SPEED = 1.0


class Pendulum(FuncEnv[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array, None, None]):
    """A pendulum to be swung up and held upright; nothing terminates an episode.

    The state is the array (angle, angular speed), observed as (cos, sin, speed). `torques` are 12 equally spaced points
    from −2 to 2, or the midpoints of 12 equal intervals (row 19 of the readings). `dynamics` are those of Pendulum-v0,
    which integrates the angle with the speed before that is clipped, or of Pendulum-v1, which clips first (row 22).

    Gymnasium lets the angle grow with every turn. Here an episode may last for a whole run (row 20) in single
    precision, where a large angle would lose its digits, so the angle stays within half a turn of upright. That
    changes neither observations nor rewards.
    """

    observation_space = Box(np.array([-1.0, -1.0, -MAX_SPEED], np.float32), np.array([1.0, 1.0, MAX_SPEED], np.float32))
    action_space = Discrete(TORQUE_COUNT)

    def __init__(self, torques: Torques = "endpoints", dynamics: Dynamics = "v0") -> None:
        super().__init__()
        self._first_torque, self._torque_spacing = choose("Pendulum torques", torques, TORQUES)
        self._integrates_unclipped = choose("Pendulum dynamics", dynamics, DYNAMICS)

    def initial(self, rng: jax.Array, params: None = None) -> jax.Array:
        """Any angle, and a speed of at most 1 either way."""
        return jax.random.uniform(rng, (2,), minval=-1.0) * jnp.array([math.pi, INITIAL_SPEED])

    def transition(self, state: jax.Array, action: jax.Array, rng: Any = None, params: None = None) -> jax.Array:
        """Apply the torque of that index for one time step."""
        angle, speed = state[0], state[1]
        unclipped = speed + (GRAVITY_GAIN * jnp.sin(angle) + TORQUE_GAIN * self._torque(action)) * TIME_STEP
        speed = jnp.clip(unclipped, -MAX_SPEED, MAX_SPEED)
        angle = angle + (unclipped if self._integrates_unclipped else speed) * TIME_STEP
        return jnp.stack([within_half_a_turn(angle, jnp), speed])

    def observation(self, state: jax.Array, rng: Any = None, params: None = None) -> jax.Array:
        """Where the tip is, and the angular speed."""
        angle, speed = state[0], state[1]
        return jnp.stack([jnp.cos(angle), jnp.sin(angle), speed])

    def reward(
        self, state: jax.Array, action: jax.Array, next_state: jax.Array, rng: Any = None, params: None = None
    ) -> jax.Array:
        """Gymnasium's own cost, negated: of the state that is left and the torque applied there."""
        angle, speed = within_half_a_turn(state[0], jnp), state[1]
        return -(angle**2 + 0.1 * speed**2 + 0.001 * self._torque(action) ** 2)

    def terminal(self, state: jax.Array, rng: Any = None, params: None = None) -> jax.Array:
        """Never."""
        return jnp.zeros_like(state[0], bool)

    def _torque(self, action: jax.Array) -> jax.Array:
        return self._first_torque + self._torque_spacing * action
