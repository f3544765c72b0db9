"""The options that a task's name stands for: a compiled task's preset, a Gymnasium environment's tuned options, or the
defaults for an environment that nobody has tuned.
"""

from __future__ import annotations

import difflib
from typing import Any

from srgdqn.config.coercion import check_name
from srgdqn.config.discovery import COMPILED_TASKS, TABLE_1_SHARED
from srgdqn.config.identifiers import is_identifier, plain
from srgdqn.errors import unknown

PRESETS: dict[str, dict[str, Any]] = {name: task.preset for name, task in COMPILED_TASKS.items()}

# The number of rounds behind each panel of the paper's Figure 2.
FIGURE_2_ROUNDS = {"MountainCar": 50, "Pendulum": 50, "CartPole": 10}

# For a Gymnasium environment of which nothing is known; docs/presets.md says how they were chosen. The loss is squared
# because Huber's follows the median of what it sees, and gives the rare end of an episode little weight.
HOST_DEFAULTS: dict[str, Any] = {
    **TABLE_1_SHARED,
    **dict(
        hidden=(64, 64),
        eta=1e-3,
        alpha=5e-4,
        schedule="linear",
        schedule_end=0.05,
        batch_size=64,
        gamma=0.99,
        steps=100_000,
        replay_capacity=50_000,
        learning_frequency=4,
        learning_starts=1_000,
        target="polyak",
        target_tau=0.01,
        loss="squared",
        clip_norm=10.0,
        epsilon_start=1.0,
        epsilon_end=0.05,
        epsilon_fraction=0.2,
        lanes=1,
    ),
}

# What changes for images: network, memory, target and loss are those of Mnih et al. (2015).
IMAGE_DEFAULTS: dict[str, Any] = dict(
    network="cnn",
    hidden=(512,),
    alpha=1e-3,
    schedule="constant",
    target="hard",
    loss="huber",
    batch_size=32,
    replay_capacity=1_000_000,
    learning_starts=20_000,
    reward_clip=1.0,
    epsilon_end=0.01,
    epsilon_fraction=0.1,
    target_period=2_000,
    evaluation_interval=100_000,
    steps=1_000_000,
)

# Its velocity is far smaller than its position: without normalisation the network hardly sees it.
_MOUNTAIN_CAR: dict[str, Any] = dict(
    alpha=1e-3, target_tau=0.1, clip_norm=100.0, learning_frequency=8, normalise_observations=True
)

# Tuned, with what came of it: docs/presets.md. With two actions the continuous MountainCar cannot stand still, which it
# learns to do with three.
HOST_PRESETS: dict[str, dict[str, Any]] = {
    "CartPole-v1": dict(steps=40_000, eta=3e-4, alpha=1e-3, target_tau=0.1, clip_norm=100.0),
    "Acrobot-v1": dict(steps=40_000),
    "MountainCar-v0": dict(**_MOUNTAIN_CAR, steps=80_000),
    "MountainCarContinuous-v0": dict(**_MOUNTAIN_CAR, steps=50_000, action_bins=2),
    "Pendulum-v1": dict(steps=20_000, action_bins=12, gamma=0.95, alpha=1e-3, reward_scale=0.1),
    "LunarLander-v3": dict(steps=120_000),
    "LunarLanderContinuous-v3": dict(action_bins=3),
}


def preset(task: str) -> dict[str, Any]:
    """The options of a compiled task's preset.

    >>> preset("CartPole")["hidden"]
    (8,)
    """
    if task not in PRESETS:
        raise unknown("task", task, PRESETS)
    return dict(PRESETS[task])


def host_preset(task: str, *, images: bool = False) -> dict[str, Any]:
    """The options of a Gymnasium environment, of which nothing need be known but whether it shows images."""
    return {**HOST_DEFAULTS, **(IMAGE_DEFAULTS if images else {}), **HOST_PRESETS.get(plain(task), {})}


def preset_of(task: str) -> dict[str, Any]:
    """The options that a task's name stands for: a compiled task's, or (by its id alone) a Gymnasium environment's."""
    if is_compiled(task) or not is_identifier(task):
        return preset(task)
    return host_preset(task, images=task.startswith("ALE/"))


def known_defaults(task: str) -> dict[str, Any] | None:
    """The options that a task's name stands for when it is trained; None where an environment must be made to see what
    it shows. Games show images, and what was tuned here shows none.
    """
    check_name("task", task)
    unseen = is_identifier(task) and not task.startswith("ALE/") and plain(task) not in HOST_PRESETS
    return None if unseen and not is_compiled(task) else preset_of(task)


def resembles_compiled(task: str) -> bool:
    """Whether a name can only be a misspelt compiled task's.

    >>> resembles_compiled("MountianCar"), resembles_compiled("cartpole"), resembles_compiled("LunarLander")
    (True, True, False)
    """
    return bool(difflib.get_close_matches(task.lower(), [name.lower() for name in PRESETS], n=1, cutoff=0.75))


def is_compiled(task: str) -> bool:
    """Whether a name is that of a compiled task; others are ids of Gymnasium's environments."""
    return task in PRESETS
