"""Every experiment, in the order of the report.

An experiment is a module of this folder that defines `EXPERIMENT`; its name stands here, with hyphens. The list can be
read without importing what the experiments run: `EXPERIMENTS` is made when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from srgdqn.paper.studies.experiment import Experiment

    EXPERIMENTS: dict[str, Experiment]

NAMES = (
    "figure-1",
    "figure-2",
    "controls",
    "figure-3-left",
    "figure-3-right",
    "table-2",
    "theorem-1",
    "training-time",
    "anatomy",
    "dose-response",
)


def __getattr__(name: str) -> dict[str, Experiment]:
    if name != "EXPERIMENTS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    modules = {each: import_module(f"srgdqn.paper.studies.{each.replace('-', '_')}") for each in NAMES}
    return globals().setdefault(name, {each: module.EXPERIMENT for each, module in modules.items()})
