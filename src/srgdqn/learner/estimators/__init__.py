"""Estimators of the gradient within an outer iteration. Each is one small file around one recursion:

Δ_m = g(θ_m; x) - c (g(θ_ref; x) - A)

Every file here is an estimator and has an `Estimator` of its own name; no list names them. Importing this package does
not import jax, so that names and formulas can be listed at once.
"""

from __future__ import annotations

import importlib

from srgdqn.config import discovery
from srgdqn.config.checks import check_numbers
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
    known = ESTIMATORS.get(name)
    if name == "none" or name in _BUILT_IN or (known is not None and _definition(known) != _definition(new)):
        raise InputError(f"there already is an estimator called {name!r}. Give the new one another name.")
    check_numbers(name, new.numbers)
    ESTIMATORS[name] = new


def _definition(each: Estimator) -> tuple[str, str]:
    function = each.direction
    return str(getattr(function, "__module__", "")), str(getattr(function, "__qualname__", function))


def own_estimators() -> dict[str, Estimator]:
    """Those that users registered, by name: another process does not know them."""
    return {name: each for name, each in ESTIMATORS.items() if name not in _BUILT_IN}
