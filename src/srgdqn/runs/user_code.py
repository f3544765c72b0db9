"""The parts of a run that are the user's own, as its inputs tell of them: a network, an estimator, an environment."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import gymnasium as gym
from gymnasium.experimental.functional import FuncEnv

from srgdqn.config import Configuration
from srgdqn.config.identifiers import plain
from srgdqn.adapters.environments import Source
from srgdqn.learner.estimators import ESTIMATORS
from srgdqn.learner.networks import NetworkFactory
from srgdqn.runs.inputs import told, told_of_entry_point, told_of_environment
from srgdqn.runs.parameters import digest
from srgdqn.runs.trees import by_path

_OURS = "srgdqn."
# Of Gymnasium's own environments, whose version every run tells, these are made of what others have written, too.
_GYMNASIUMS, _MADE_OF = "gymnasium.", {"gymnasium.envs.box2d": "Box2D", "gymnasium.envs.mujoco": "mujoco"}


def own_parts(
    configuration: Configuration,
    network: eqx.Module | NetworkFactory | None = None,
    environment: FuncEnv | Source | None = None,
) -> dict[str, Any]:
    """What is told of each part that is the user's own, by its name; nothing of those that come with the package."""
    parts = {
        "network": _network(network),
        "estimator": _estimator(configuration.estimator.estimator),
        "environment": _environment(environment),
    }
    return {name: part for name, part in parts.items() if part is not None}


def _network(network: eqx.Module | NetworkFactory | None) -> dict[str, Any] | None:
    if network is None:
        return None
    if isinstance(network, eqx.Module):  # every round starts from the numbers in it
        return told(network, lambda: digest(by_path(eqx.filter(network, eqx.is_array)))[:16])
    return told(network)


def _estimator(name: str) -> dict[str, Any] | None:
    if name not in ESTIMATORS:
        return None
    direction = ESTIMATORS[name].direction
    about = told(direction)
    return None if about["name"].startswith(_OURS) else about


def _environment(environment: FuncEnv | Source | None) -> dict[str, Any] | None:
    if environment is None:
        return None
    if not isinstance(environment, Source):
        return told(environment)
    if environment.given is not None:
        return told_of_environment(environment.given)
    if callable(environment.recipe) and not isinstance(environment.recipe, gym.envs.registration.EnvSpec):
        return told(environment.recipe)
    spec = gym.registry.get(plain(environment.name))
    entry_point = None if spec is None else spec.entry_point
    if entry_point is None:
        return None
    made_of = next((its for start, its in _MADE_OF.items() if str(entry_point).startswith(start)), None)
    if made_of is None and isinstance(entry_point, str) and entry_point.startswith(_GYMNASIUMS):
        return None
    return told_of_entry_point(entry_point, made_of)
