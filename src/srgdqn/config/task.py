"""Options of the task: what is learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from srgdqn.config.numbers import number

Reward = Literal["height", "distance", "position-and-angle", "upright-cosine", "raw"]


# The rewards that each task can be learned from (rows 17 and 18), and the options that only one task has.
REWARDS: dict[str, tuple[str, ...]] = {
    "MountainCar": ("height", "distance", "raw"),
    "Pendulum": ("raw",),
    "CartPole": ("position-and-angle", "upright-cosine", "raw"),
}
OWN_OPTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "Pendulum": {"torques": ("endpoints", "midpoints"), "dynamics": ("v0", "v1")},
}


@dataclass(frozen=True)
class TaskSettings:
    """The task and the readings of the paper that concern it."""

    task: str = "MountainCar"
    """Name of the task."""
    reward: Reward = "raw"
    """Reward learned from. MountainCar: height (0.45 sin 3x + 0.55), distance (|x + 0.5|) or raw; CartPole:
    position-and-angle, upright-cosine or raw; Pendulum: raw."""
    reward_scale: float = number(1.0)
    """Factor on the reward as it enters the replay; logs show rewards unscaled."""
    reward_clip: float | None = number(None)
    """Largest size of a reward as it enters the replay, before it is scaled; logs show rewards as they came (none:
    off)."""
    time_limit: int | None = None
    """Steps after which an episode is truncated (none: never)."""
    torques: Literal["endpoints", "midpoints"] | None = None
    """Pendulum's 12 torques: equally spaced from -2 to 2 inclusive, or the midpoints of 12 equal intervals."""
    dynamics: Literal["v0", "v1"] | None = None
    """Pendulum's dynamics: v0 integrates the angle with the speed before it is clipped, v1 after."""
    action_bins: int | None = None
    """Actions per dimension that a Gymnasium environment's continuous actions are cut into, equally spaced with both
    ends (none: its actions are discrete)."""
