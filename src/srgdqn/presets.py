"""The paper's Table 1, and what the readings add to it, as the preset of each task."""

from __future__ import annotations

import re
from typing import Any

from srgdqn.errors import InputError, unknown

# The rows of Table 1 that are the same for every task.
_SHARED: dict[str, Any] = dict(activation="relu", alpha=1e-3, beta1=0.9, beta2=0.999, inner_iterations=16)

# Replay capacities, and the rewards of MountainCar and CartPole, are readings (rows 13, 17 and 18): Table 1 has none.
PRESETS: dict[str, dict[str, Any]] = {
    "MountainCar": dict(
        **_SHARED,
        hidden=(20,),
        eta=1e-2,
        batch_size=64,
        gamma=0.9,
        steps=100_000,
        replay_capacity=3_000,
        reward="height",
        evaluation_interval=10_000,
    ),
    "Pendulum": dict(
        **_SHARED,
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
    "CartPole": dict(
        **_SHARED,
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
}

# The number of rounds behind each panel of the paper's Figure 2.
FIGURE_2_ROUNDS = {"MountainCar": 50, "Pendulum": 50, "CartPole": 10}


def preset(task: str) -> dict[str, Any]:
    """The options of a task's preset."""
    if task not in PRESETS:
        plain = re.sub(r"-v\d+$", "", task)
        if plain != task:
            hint = f" Did you mean the compiled task {plain!r}?" if plain in PRESETS else ""
            raise InputError(
                f"{task!r} is the id of a Gymnasium environment, and those cannot be trained on yet.{hint} "
                f"The compiled tasks are {', '.join(sorted(PRESETS))}."
            )
        raise unknown("task", task, PRESETS)
    return dict(PRESETS[task])
