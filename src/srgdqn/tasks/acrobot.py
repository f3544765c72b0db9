"""Acrobot: Gymnasium's Acrobot-v1 as pure functions. None of the paper's tasks."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.experimental.functional import FuncEnv
from gymnasium.spaces import Box, Discrete

from srgdqn.config.discovery import TABLE_1_SHARED, CompiledTask
from srgdqn.tasks.shaping import within_half_a_turn

# The paper has no Acrobot, so this preset is not the paper's: it is a regime in which a DQN learns it.
TASK = CompiledTask(
    name="Acrobot",
    preset=dict(
        **TABLE_1_SHARED,
        hidden=(64, 64),
        eta=1e-3,
        batch_size=64,
        gamma=0.99,
        steps=100_000,
        replay_capacity=50_000,
        learning_frequency=4,
        target="polyak",
        target_tau=0.01,
        clip_norm=10.0,
        epsilon_start=1.0,
        epsilon_end=0.05,
        epsilon_fraction=0.2,
        reward="raw",
        time_limit=500,
        evaluation_interval=10_000,
    ),
    rewards={"raw": "-1, and 0 where the tip reaches its height"},
    evaluation_limit=500,
    success="termination",
    gymnasium="gymnasium.envs.classic_control.acrobot:AcrobotEnv",
)

MAX_SPEEDS = (4 * math.pi, 9 * math.pi)
TIME_STEP = 0.2
INITIAL_RANGE = 0.1

_BOUNDS = np.array([1.0, 1.0, 1.0, 1.0, *MAX_SPEEDS], np.float32)


class Acrobot(FuncEnv[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array, None, None]):
    """Two links in a row, of which only the joint between them has a motor; an episode terminates when the tip is high
    enough.

    The state is the array (θ₁, θ₂, their speeds): the first link's angle from hanging down, and the second's from the
    first. Angles are observed as cosine and sine. The dynamics are those of Sutton and Barto's book with links of
    length 1, mass 1 and moment of inertia 1, integrated by one step of Runge and Kutta's fourth-order method.
    """

    observation_space = Box(-_BOUNDS, _BOUNDS)
    action_space = Discrete(3)

    def initial(self, rng: jax.Array, params: None = None) -> jax.Array:
        """Hanging nearly still."""
        return jax.random.uniform(rng, (4,), minval=-INITIAL_RANGE, maxval=INITIAL_RANGE)

    def transition(self, state: jax.Array, action: jax.Array, rng: Any = None, params: None = None) -> jax.Array:
        """Apply the torque −1 (0), 0 (1) or 1 (2) for one time step."""
        torque = action - 1
        k_1 = _rates(state, torque)
        k_2 = _rates(state + TIME_STEP / 2 * k_1, torque)
        k_3 = _rates(state + TIME_STEP / 2 * k_2, torque)
        k_4 = _rates(state + TIME_STEP * k_3, torque)
        reached = state + TIME_STEP / 6 * (k_1 + 2 * k_2 + 2 * k_3 + k_4)
        fastest = jnp.asarray(MAX_SPEEDS, state.dtype)
        return jnp.concatenate([within_half_a_turn(reached[:2], jnp), jnp.clip(reached[2:], -fastest, fastest)])

    def observation(self, state: jax.Array, rng: Any = None, params: None = None) -> jax.Array:
        """Cosine and sine of both angles, and their speeds."""
        first, second = state[0], state[1]
        return jnp.stack([jnp.cos(first), jnp.sin(first), jnp.cos(second), jnp.sin(second), state[2], state[3]])

    def reward(
        self, state: jax.Array, action: jax.Array, next_state: jax.Array, rng: Any = None, params: None = None
    ) -> jax.Array:
        """Gymnasium's own: −1, and 0 for the step that ends the episode."""
        return jnp.where(self.terminal(next_state), 0.0, -1.0)

    def terminal(self, state: jax.Array, rng: Any = None, params: None = None) -> jax.Array:
        """Whether the tip is more than one link's length above the fixed end."""
        return -jnp.cos(state[0]) - jnp.cos(state[1] + state[0]) > 1.0


def _rates(state: jax.Array, torque: jax.Array) -> jax.Array:
    """How fast the state changes: equations (11.4) of Sutton and Barto (1998), with the numbers put in. A link's centre
    of mass is at half its length, and g = 9.8.
    """
    angle, bend, speed, bend_speed = state
    cosine, sine = jnp.cos(bend), jnp.sin(bend)
    d_1 = 3.5 + cosine
    d_2 = 1.25 + 0.5 * cosine
    phi_2 = 4.9 * jnp.sin(angle + bend)
    phi_1 = -(0.5 * bend_speed**2 + bend_speed * speed) * sine + 14.7 * jnp.sin(angle) + phi_2
    bend_acceleration = (torque + d_2 / d_1 * phi_1 - 0.5 * speed**2 * sine - phi_2) / (1.25 - d_2**2 / d_1)
    return jnp.stack([speed, bend_speed, -(d_2 * bend_acceleration + phi_1) / d_1, bend_acceleration])
