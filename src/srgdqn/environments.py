"""The compiled tasks under Gymnasium ids, so that any library's agents can be trained on the same rewards and torques.

Importing this module registers them, therefore either of these makes one:

    import srgdqn.environments
    gymnasium.make("srgdqn/MountainCar-v0")

    gymnasium.make("srgdqn.environments:srgdqn/MountainCar-v0", reward="distance")

Only names are registered: the classes are imported when one is made.
"""

from __future__ import annotations

from gymnasium.envs import registration

from srgdqn.config.discovery import COMPILED_TASKS


def register() -> None:
    """Registers every compiled task, such as `srgdqn/MountainCar-v0`; calling it twice is harmless.

    Episodes are limited as the tasks' presets are (rows 20 and 23 of the readings).
    """
    for name, task in COMPILED_TASKS.items():
        identifier = f"srgdqn/{name}-v0"
        if task.gymnasium is not None and identifier not in registration.registry:
            registration.register(identifier, task.gymnasium, max_episode_steps=task.preset.get("time_limit"))


register()
