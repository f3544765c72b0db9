"""Ids that Gymnasium knows, and suggestions for those that it does not."""

from __future__ import annotations

import importlib
import math
import re
from typing import Any

import gymnasium as gym

from srgdqn.adapters.atari import require_game
from srgdqn.config.algorithms import ALGORITHMS
from srgdqn.config.identifiers import options_of, plain
from srgdqn.config.presets import PRESETS, is_compiled, resembles_compiled
from srgdqn.errors import InputError, shown, unknown


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
        if name in ALGORITHMS:
            raise InputError(f"{name!r} is an algorithm, but an environment was expected. Give the algorithm first.")
        hint = "One of your own must be registered first: import its module (--import my_module)."
        raise InputError(f"{unknown('Gymnasium environment', name, _known_names(name))} {hint}")
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
    if task in ALGORITHMS:
        raise InputError(f"{task!r} is an algorithm, but a task was expected. The task comes first.")
    if not resembles_compiled(task) and (identifier := newest_version(task)) is not None:
        raise InputError(f"{task!r} is none of the compiled tasks. Did you mean Gymnasium's {identifier!r}?")
    raise unknown("task", task, PRESETS)


def reward_threshold(task: str, given: Any = None) -> float | None:
    """The greedy return from which on a task counts as solved: the one given or, without it, Gymnasium's own of an id,
    or of the environment that a compiled task is; None where there is none.

    >>> reward_threshold("CartPole"), reward_threshold("CartPole-v1"), reward_threshold("Pendulum-v1")
    (475.0, 475.0, None)
    """
    if given is None:
        spec = gym.registry.get((newest_version(task) or "") if is_compiled(task) else plain(task))
        given = None if spec is None else spec.reward_threshold
    elif isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        raise InputError(f"threshold is {shown(given)}, but must be a return, such as 475.")
    return None if given is None else float(given)


def newest_version(name: str) -> str | None:
    """The newest id of an environment's name, such as `CartPole-v1` of `CartPole`; None if there is none."""
    return {known.lower(): identifier for known, identifier in _newest("").items()}.get(name.lower())


def _known_names(given: str) -> list[str]:
    """The ids that may have been meant: all of the same namespace, in their newest version only."""
    return list(_newest(given.rpartition("/")[0]).values()) or list(gym.registry)


def _newest(namespace: str) -> dict[str, str]:
    """The newest id of every name in a namespace."""
    oldest_first = sorted(gym.registry.items(), key=lambda entry: entry[1].version or 0)
    return {spec.name: identifier for identifier, spec in oldest_first if (spec.namespace or "") == namespace}
