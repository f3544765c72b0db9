"""Estimators of installed packages: entry points of the group `srgdqn.estimators`, whose names are the estimators'.

    [project.entry-points."srgdqn.estimators"]
    averaged-svrg = "my_package.estimators:averaged"

A package is imported when its estimator is asked for. Until then only what is written about it is read.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from srgdqn.errors import InputError
from srgdqn.interrupts import is_interrupt

GROUP = "srgdqn.estimators"

_RESERVED = "none"  # for no inner iterations


@functools.cache  # it looks through all that is installed
def declared() -> Mapping[str, tuple[metadata.EntryPoint, ...]]:
    """What installed packages declare, by the name of the estimator: more than one where they have the same name."""
    found: dict[str, dict[str, metadata.EntryPoint]] = {}
    for distribution in metadata.distributions():
        try:
            points = distribution.entry_points.select(group=GROUP)
        except Exception:  # some package's damaged metadata, which matters to nobody here
            continue
        for point in points:
            found.setdefault(point.name, {}).setdefault(point.value, point)
    return {name: tuple(points.values()) for name, points in found.items() if name != _RESERVED}


def load(name: str) -> Any:
    """The estimator that a package declares by that name, imported; an `InputError` where it cannot be."""
    points = declared()[name]
    packages = " and ".join(sorted(map(package_of, points)))
    if len(points) > 1:
        raise InputError(f"the estimator {name!r} is declared by several packages: {packages}. Uninstall all but one.")
    (point,) = points
    where = f"the estimator {name!r} of the package {packages} ({point.value})"
    try:
        found = point.load()
    except (Exception, SystemExit) as error:
        if is_interrupt(error):
            raise
        reason = f"{type(error).__name__}: {str(error).rstrip('.')}"
        raise InputError(f"{where} cannot be loaded: {reason}. Correct or uninstall {packages}.") from error
    if not isinstance(found, tuple) or "direction" not in getattr(found, "_fields", ()):
        raise InputError(f"{where} is a {type(found).__name__} and no srgdqn.Estimator. Correct {packages}.")
    return found


def package_of(point: metadata.EntryPoint) -> str:
    """The installed package that declares an entry point."""
    return "an unnamed package" if point.dist is None else str(point.dist.name)
