"""Estimators of the gradient within an outer iteration. Each is one small file around one recursion:

Δ_m = g(θ_m; x) - c (g(θ_ref; x) - A)
"""

from __future__ import annotations

from srgdqn.errors import InputError, unknown
from srgdqn.estimators.estimator import Direction, Estimator, Work
from srgdqn.estimators.full import full
from srgdqn.estimators.query import Query
from srgdqn.estimators.sgd import sgd
from srgdqn.estimators.srg import srg
from srgdqn.estimators.svrg import svrg

__all__ = ["ESTIMATORS", "Direction", "Estimator", "Query", "Work", "estimator", "register_estimator"]

ESTIMATORS: dict[str, Estimator] = {"srg": srg, "svrg": svrg, "sgd": sgd, "full": full}


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
