"""The studies of the report: one file per figure, table or question, each of which defines `EXPERIMENT`.

A file here is a study under its own name, with hyphens; no list names them. `NAMES` are had without importing any,
`EXPERIMENTS`, which is made when it is first asked for, has them in the order of the report.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from srgdqn.paper.experiment import Experiment

    EXPERIMENTS: dict[str, Experiment]

_MODULES = {module.name.replace("_", "-"): module.name for module in pkgutil.iter_modules(__path__)}

NAMES = tuple(sorted(_MODULES))


def __getattr__(name: str) -> dict[str, Experiment]:
    if name != "EXPERIMENTS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = [import_module(f"{__name__}.{module}").EXPERIMENT for module in _MODULES.values()]
    ordered = sorted(found, key=lambda experiment: (experiment.place, experiment.name))
    return globals().setdefault(name, {experiment.name: experiment for experiment in ordered})
