"""The compiled tasks: everything that is said of each, in one entry. Adding one takes an entry here and its class.

Classes are named and not imported, so that a command line that only reads presets needs neither jax nor Gymnasium.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Success = Literal["termination", "truncation", "none"]


@dataclass(frozen=True)
class CompiledTask:
    """One of the paper's tasks."""

    environment: str
    """Its functional JAX environment, `module:class`."""
    gymnasium: str
    """The same as an ordinary Gymnasium environment, registered as `srgdqn/NAME-v0`."""
    preset: dict[str, Any]
    """The paper's Table 1, and what the readings add to it."""
    rewards: tuple[str, ...]
    """The rewards that it can be learned from."""
    evaluation_limit: int
    """Steps after which an episode of evaluation is truncated: Gymnasium's own, even where training has none."""
    success: Success
    """The end of an episode that counts as success: `termination` at a goal, `truncation` for having lasted."""
    options: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The options that only this task has, and their choices."""


# The rows of Table 1 that are the same for every task.
TABLE_1_SHARED: dict[str, Any] = dict(activation="relu", alpha=1e-3, beta1=0.9, beta2=0.999, inner_iterations=16)

# Replay capacities, and the rewards of MountainCar and CartPole, are readings (rows 13, 17 and 18): Table 1 has none.
# So are the limits of evaluation (rows 20 and 23).
COMPILED_TASKS: dict[str, CompiledTask] = {
    "MountainCar": CompiledTask(
        environment="srgdqn.tasks.mountain_car:MountainCar",
        gymnasium="srgdqn.tasks.gymnasium_classes:MountainCarEnv",
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
        rewards=("height", "distance", "raw"),
        evaluation_limit=200,
        success="termination",
    ),
    "Pendulum": CompiledTask(
        environment="srgdqn.tasks.pendulum:Pendulum",
        gymnasium="srgdqn.tasks.gymnasium_classes:PendulumEnv",
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
        rewards=("raw",),
        evaluation_limit=200,
        success="none",
        options={"torques": ("endpoints", "midpoints"), "dynamics": ("v0", "v1")},
    ),
    "CartPole": CompiledTask(
        environment="srgdqn.tasks.cart_pole:CartPole",
        gymnasium="srgdqn.tasks.gymnasium_classes:CartPoleEnv",
        preset=dict(
            **TABLE_1_SHARED,
            hidden=(8,),
            eta=1e-2,
            batch_size=64,
            gamma=0.99,
            episodes=800,
            replay_capacity=2_000,
            reward="position-and-angle",
            time_limit=500,
            evaluation_interval=10_000,
        ),
        rewards=("position-and-angle", "upright-cosine", "raw"),
        evaluation_limit=500,
        success="truncation",
    ),
}
