"""Ids that Gymnasium knows, and suggestions for those that it does not."""

from __future__ import annotations

import importlib
import re

import gymnasium as gym

from srgdqn.adapters.atari import require_game
from srgdqn.config.identifiers import options_of, plain
from srgdqn.config.presets import PRESETS, is_compiled, resembles_compiled
from srgdqn.errors import InputError, unknown


def known_identifier(identifier: str) -> str:
    """The id, if Gymnasium knows it and its options can be read. A module before a colon is imported, as Gymnasium
    does.
    """
    module, name = identifier.partition(",")[0].rpartition(":")[0], plain(identifier)
    if module:
        try:
            importlib.import_module(module)
        except Exception as error:
            raise InputError(
                f"the environment {identifier!r} is to be registered by the module {module!r}, which cannot be "
                f"imported ({type(error).__name__}: {error}). Install it, or correct its name; one in this folder is "
                "found with PYTHONPATH=. before the command."
            ) from error
    if name.startswith("ALE/"):
        require_game(name)
    if (old := _OLD_GAME.fullmatch(name)) and _is_game_or_unknown(name):
        modern = f"ALE/{old[1]}-v5"
        raise InputError(
            f"{name} is an old id of an Atari game, which comes without preprocessing. Give '{modern}', or "
            f"'{modern},repeat_action_probability=0' for actions that never stick, as they did not there."
        )
    if name not in gym.registry:
        raise unknown("Gymnasium environment", name, _known_names(name))
    options_of(identifier)
    return identifier


# `PongNoFrameskip-v4` and the like, as Atari games were called before they had a namespace.
_OLD_GAME = re.compile(r"(\w+?)(?:NoFrameskip|Deterministic)-v[04]")


def _is_game_or_unknown(name: str) -> bool:
    spec = gym.registry.get(name)
    return spec is None or str(spec.entry_point).startswith("ale_py")


def check_name(task: str) -> None:
    """Raises if a name without the form of an id is no compiled task's, with the id that may have been meant."""
    if is_compiled(task):
        return
    if not resembles_compiled(task) and (identifier := newest_version(task)) is not None:
        raise InputError(f"{task!r} is none of the compiled tasks. Did you mean Gymnasium's {identifier!r}?")
    raise unknown("task", task, PRESETS)


def newest_version(name: str) -> str | None:
    """The newest id of an environment's name, such as `CartPole-v1` of `CartPole`; None if there is none."""
    versions = [spec for spec in gym.registry.values() if spec.name.lower() == name.lower() and spec.namespace is None]
    return max(versions, key=lambda spec: spec.version or 0).id if versions else None


def _known_names(given: str) -> list[str]:
    """The ids that may have been meant: all of the same namespace, in their newest version only."""
    prefix = given.rpartition("/")[0]
    newest: dict[str, str] = {}
    for identifier, spec in gym.registry.items():
        if identifier.rpartition("/")[0] == prefix:
            known = newest.get(spec.name)
            if known is None or (gym.registry[known].version or 0) < (spec.version or 0):
                newest[spec.name] = identifier
    return list(newest.values()) or list(gym.registry)
