"""Estimators of the gradient within an outer iteration. Each is one small file around one recursion:

Δ_m = g(θ_m; x) - c (g(θ_ref; x) - A)
"""

from __future__ import annotations

from collections.abc import Mapping

from srgdqn.errors import InputError, unknown
from srgdqn.learner.estimators.estimator import Direction, Estimator, Work
from srgdqn.learner.estimators.full import full
from srgdqn.learner.estimators.query import Query
from srgdqn.learner.estimators.sgd import sgd
from srgdqn.learner.estimators.srg import srg
from srgdqn.learner.estimators.svrg import svrg

__all__ = [
    "ESTIMATORS",
    "Direction",
    "Estimator",
    "Query",
    "Work",
    "estimator",
    "make_known",
    "own_estimators",
    "register_estimator",
]

ESTIMATORS: dict[str, Estimator] = {"srg": srg, "svrg": svrg, "sgd": sgd, "full": full}
_BUILT_IN = frozenset(ESTIMATORS)


def estimator(name: str) -> Estimator:
    """The estimator of that name."""
    if name not in ESTIMATORS:
        raise unknown("estimator", name, ["none", *ESTIMATORS])
    return ESTIMATORS[name]


def register_estimator(name: str, new: Estimator) -> None:
    """Makes an estimator known to `srgdqn.train` as `estimator=name`."""
    if name == "none" or (name in ESTIMATORS and ESTIMATORS[name] is not new):
        raise InputError(f"there already is an estimator called {name!r}. Give the new one another name.")
    ESTIMATORS[name] = new


def own_estimators() -> dict[str, Estimator]:
    """Those that were registered, by name: another process does not know them."""
    return {name: each for name, each in ESTIMATORS.items() if name not in _BUILT_IN}


def make_known(own: Mapping[str, Estimator]) -> None:
    """Registers what `own_estimators` gave in another process; what is known by its name already stays what it is."""
    for name, each in own.items():
        if name not in ESTIMATORS:
            register_estimator(name, each)
