"""The paper's tasks under Gymnasium ids, so that any library's agents can be trained on the same rewards and torques.

Importing this module registers them, therefore either of these makes one:

    import srgdqn.environments
    gymnasium.make("srgdqn/MountainCar-v0")

    gymnasium.make("srgdqn.environments:srgdqn/MountainCar-v0", reward="distance")

Only names are registered: the classes are imported when one is made.
"""

from __future__ import annotations

from gymnasium.envs import registration

# Steps of an episode, where limited: rows 20 and 23 of the readings.
_TIME_LIMITS = {"MountainCar": None, "Pendulum": None, "CartPole": 500}


def register() -> None:
    """Tell Gymnasium of `srgdqn/MountainCar-v0`, `srgdqn/Pendulum-v0` and `srgdqn/CartPole-v0`; twice does no harm."""
    for name, time_limit in _TIME_LIMITS.items():
        identifier = f"srgdqn/{name}-v0"
        if identifier not in registration.registry:
            registration.register(identifier, f"srgdqn.tasks.gymnasium_classes:{name}Env", max_episode_steps=time_limit)


register()
