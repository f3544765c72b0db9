"""A configuration from names and options: a task's preset, an algorithm, readings, and the user's own options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from srgdqn.config.algorithms import ALGORITHMS, READINGS
from srgdqn.config.algorithms import algorithm as algorithm_named
from srgdqn.config.algorithms import readings as readings_named
from srgdqn.config.checks import BUDGETS, check, check_estimator
from srgdqn.config.coercion import check_name, coerce
from srgdqn.config.effects import check_effects
from srgdqn.config.estimator_numbers import numbers_of_estimator, owners_of
from srgdqn.config.identifiers import is_identifier
from srgdqn.config.options import Configuration, option_names
from srgdqn.config.other_names import unknown_option
from srgdqn.config.presets import is_compiled, preset_of
from srgdqn.errors import InputError

__all__ = ["composed", "configure", "layered", "named_options"]


def configure(
    task: str,
    algorithm: str = "srg-dqn",
    *,
    readings: str = "corrected",
    defaults: Mapping[str, Any] | None = None,
    typed: Mapping[str, Any] | None = None,
    **options: Any,
) -> Configuration:
    """The checked configuration of an algorithm on a task; options override what the names stand for.

    >>> configuration = configure("CartPole", "svr-dqn", steps=50_000)
    >>> configuration.training.steps, configuration.training.episodes, configuration.estimator.estimator
    (50000, None, 'svrg')

    A budget replaces the preset's, whatever its unit, and a preset's block is lengthened to what `environments` can
    share. `defaults` take the preset's place where the task is none of the paper's. `typed` are those of the options
    that a user gave just now: one without an effect is refused (`config.effects`).
    """
    for kind, name in (("task", task), ("algorithm", algorithm), ("readings", readings)):
        check_name(kind, name)
    merged = composed(preset_of(task) if defaults is None else defaults, algorithm, readings, options, task)
    chosen = coerce("estimator", merged.get("estimator", Configuration().estimator.estimator))
    check_estimator(chosen)
    known = {**option_names(), **numbers_of_estimator(chosen)}
    for name in options:
        if name not in known:
            raise _not_of(name, chosen) or unknown_option(name, {*known, "algorithm", "readings"})
    if {"target_period", "target_update_interval"} <= {name for name in options if not _is_none(options[name])}:
        raise InputError(
            "target_period and target_update_interval were both given, but they say the same in outer iterations and "
            "in environment steps. Give one of them."
        )
    if "learning_frequency" not in options:
        merged = _lengthened(merged)
    configuration = check(Configuration(algorithm=algorithm, readings=readings).with_options(merged))
    check_effects({} if typed is None else typed, [configuration])
    return configuration


def _not_of(name: str, chosen: str) -> InputError | None:
    """What is wrong with a number of other estimators than the chosen one, where it is such."""
    owners = owners_of(name)
    if not owners:
        return None
    return InputError(
        f"{name} is a number of the estimator {' or '.join(map(repr, owners))}, but estimator = {chosen!r}. Give "
        f"estimator = {owners[0]!r}, or leave {name} out."
    )


def composed(
    defaults: Mapping[str, Any], algorithm: str, readings: str, options: Mapping[str, Any], task: str | None
) -> dict[str, Any]:
    """The options that names stand for, overridden by the user's; not yet checked."""
    named = {} if task is None else {"task": task}
    return layered(defaults, algorithm_named(algorithm).options, readings_named(readings), options, named)


def _lengthened(options: dict[str, Any]) -> dict[str, Any]:
    """Options whose block, a default, is lengthened to the next multiple of the number of environments.

    >>> _lengthened({"environments": 3, "learning_frequency": 4})
    {'environments': 3, 'learning_frequency': 6}
    """
    environments, block = options.get("environments"), options.get("learning_frequency")
    if not isinstance(environments, int) or environments < 2 or block is None:
        return options
    return {**options, "learning_frequency": -(-block // environments) * environments}


def named_options(task: str, algorithm: str, readings: str) -> dict[str, Any]:
    """Every option's value that these names stand for; unknown names stand for nothing."""
    named = {
        **Configuration().options(),
        **(preset_of(task) if is_compiled(task) or is_identifier(task) else {}),
        **(ALGORITHMS[algorithm].options if algorithm in ALGORITHMS else {}),
        **READINGS.get(readings, {}),
        "task": task,
    }
    return Configuration().with_options(named).options()


def layered(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Options merged, later layers over earlier ones: a layer that gives a budget drops those below it, of any unit.

    >>> layered({"steps": 1_000, "eta": 0.1}, {"episodes": 5, "steps": None})
    {'eta': 0.1, 'episodes': 5}
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        given = {name: value for name, value in layer.items() if name not in BUDGETS or not _is_none(value)}
        if any(name in BUDGETS for name in given):
            merged = {name: value for name, value in merged.items() if name not in BUDGETS}
        merged |= given
    return merged


def _is_none(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value == "none")
