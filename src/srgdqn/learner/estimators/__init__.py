"""Estimators of the gradient within an outer iteration. Each is one small file around one recursion:

Δ_m = g(θ_m; x) - c (g(θ_ref; x) - A)

Every file here is an estimator and has an `Estimator` of its own name; no list names them. Importing this package does
not import jax, so that names and formulas can be listed at once.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from srgdqn.config import discovery
from srgdqn.config.checks import check_definition
from srgdqn.config.discovery import estimator_names
from srgdqn.errors import InputError, unknown
from srgdqn.learner.estimator import Clock, Direction, Estimator, Number, Origin, Query, Work, recursion

__all__ = [
    "ESTIMATORS",
    "Clock",
    "Direction",
    "Estimator",
    "Number",
    "Origin",
    "Query",
    "Work",
    "estimator",
    "own_estimators",
    "recursion",
    "register_estimator",
]

ESTIMATORS: dict[str, Estimator] = discovery.ESTIMATORS
_BUILT_IN = discovery.BUILT_IN_ESTIMATORS
ESTIMATORS.update({name: getattr(importlib.import_module(f"{__name__}.{name}"), name) for name in _BUILT_IN})


def estimator(name: str) -> Estimator:
    """The estimator of that name."""
    if name not in ESTIMATORS:
        raise unknown("estimator", name, estimator_names())
    return ESTIMATORS[name]


def register_estimator(name: str, new: Estimator) -> None:
    """Makes an estimator known to `srgdqn.train` as `estimator=name`, in place of what the same definition made before:
    a cell of a notebook may be run again.
    """
    if not isinstance(new, Estimator):
        raise InputError(f"the estimator {name!r} is a {type(new).__name__}. Give an srgdqn.Estimator.")
    known = ESTIMATORS.get(name)
    if name == "none" or name in _BUILT_IN or (known is not None and _places(known) != _places(new)):
        raise InputError(f"there already is an estimator called {name!r}. Give the new one another name.")
    check_definition(name, new)
    ESTIMATORS[name] = new


def _places(each: Estimator) -> list[tuple[str, str]]:
    return [place_of(part) for part in each if callable(part)]


def definition_of(part: Any) -> Any:
    """The class or the function that a part is, is an instance of, or is a partial of."""
    while isinstance(part, functools.partial):
        part = part.func
    return part if hasattr(part, "__qualname__") else type(part)


def place_of(part: Any) -> tuple[str, str]:
    """Where that is defined: its module and its name there."""
    definition = definition_of(part)
    return str(definition.__module__), str(definition.__qualname__)


def own_estimators() -> dict[str, Estimator]:
    """Those that users registered, by name: another process does not know them."""
    return {name: each for name, each in ESTIMATORS.items() if name not in _BUILT_IN}
