"""The typed options of every room, free of jax so that a command line that only reads them starts at once.

Every option has one home (the settings class of its room), one default and one sentence, and a name that is unique over
all rooms: users write `eta=0.01` or `--eta 0.01` and never need to know the room.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from srgdqn.config.exploration import ActingSettings
from srgdqn.config.gradients import GradientSettings
from srgdqn.config.learner import EstimatorSettings, OptimiserSettings
from srgdqn.config.network import NetworkSettings
from srgdqn.config.normalisation import NormalisationSettings
from srgdqn.config.numbers import numbers_of, shape_of, with_numbers
from srgdqn.config.replay import ReplaySettings
from srgdqn.config.task import TaskSettings
from srgdqn.config.training import TrainingSettings
from srgdqn.errors import unknown

__all__ = [
    "ActingSettings",
    "Configuration",
    "EstimatorSettings",
    "GradientSettings",
    "NetworkSettings",
    "NormalisationSettings",
    "OptimiserSettings",
    "ReplaySettings",
    "TaskSettings",
    "TrainingSettings",
    "option_names",
    "rooms",
]


@dataclass(frozen=True)
class Configuration:
    """Everything that decides a run: together with the version it gives the same bits on the same instruction set."""

    algorithm: str = "srg-dqn"
    """The named composition these settings started from."""
    readings: str = "corrected"
    """The named set of readings these settings started from."""
    task: TaskSettings = field(default_factory=TaskSettings)
    network: NetworkSettings = field(default_factory=NetworkSettings)
    acting: ActingSettings = field(default_factory=ActingSettings)
    replay: ReplaySettings = field(default_factory=ReplaySettings)
    normalisation: NormalisationSettings = field(default_factory=NormalisationSettings)
    gradients: GradientSettings = field(default_factory=GradientSettings)
    estimator: EstimatorSettings = field(default_factory=EstimatorSettings)
    optimiser: OptimiserSettings = field(default_factory=OptimiserSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)

    def with_options(self, options: Mapping[str, Any]) -> Configuration:
        """A copy in which the named options have other values, wherever their home is."""
        names = option_names()
        homes: dict[str, dict[str, Any]] = {}
        for name, value in options.items():
            if name not in names:
                raise unknown("option", name, names)
            homes.setdefault(names[name], {})[name] = value
        changed = {room: dataclasses.replace(getattr(self, room), **values) for room, values in homes.items()}
        return dataclasses.replace(self, **changed)

    def options(self) -> dict[str, Any]:
        """Every option and its value, flat."""
        return {name: getattr(getattr(self, room), name) for name, room in option_names().items()}

    def numbers(self) -> dict[str, float]:
        """The options that enter a compiled program as arguments."""
        return {name: value for room in rooms() for name, value in numbers_of(getattr(self, room)).items()}

    def shape(self) -> Configuration:
        """The configuration with its numbers zeroed: what the identity of a compiled program may depend on."""
        return dataclasses.replace(self, **{room: shape_of(getattr(self, room)) for room in rooms()})

    def with_numbers(self, numbers: Mapping[str, Any]) -> Configuration:
        """The configuration with its numbers replaced, be it by the traced scalars of one lane."""
        return dataclasses.replace(self, **{room: with_numbers(getattr(self, room), numbers) for room in rooms()})


def rooms() -> tuple[str, ...]:
    """The fields of `Configuration` that hold a room's settings."""
    return tuple(f.name for f in dataclasses.fields(Configuration) if f.name not in ("algorithm", "readings"))


def option_names() -> dict[str, str]:
    """Every option's name and the room it lives in."""
    return {f.name: room for room in rooms() for f in dataclasses.fields(getattr(_DEFAULT, room))}


_DEFAULT = Configuration()
