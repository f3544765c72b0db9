"""The readings of the factorial: every combination of the levels of eight factors."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from srgdqn.config.algorithms import READINGS
from srgdqn.config.discovery import COMPILED_TASKS
from srgdqn.config.presets import PRESETS
from srgdqn.paper.studies.figure_2 import TASKS


@dataclass(frozen=True)
class Level:
    """One choice where the paper leaves something open."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    by_task: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Factor:
    """Something that the paper leaves open; its default is the first level."""

    name: str
    rows: str
    """Its rows in the table of readings."""
    levels: tuple[Level, ...]


def _level(name: str, by_task: Mapping[str, Mapping[str, Any]] | None = None, **options: Any) -> Level:
    return Level(name, options, by_task or {})


FACTORS = (
    Factor(
        "target",
        "2",
        (
            _level("current θ", target="current"),
            _level("outer iteration", target="outer"),
            _level("hard, period 20", target="hard", target_period=20),
            _level("hard, period 100", target="hard", target_period=100),
        ),
    ),
    Factor("loss", "2", (_level("squared", loss="squared"), _level("Huber", loss="huber", huber_delta=1.0))),
    Factor(
        "hidden layers",
        "15",
        (
            _level("one", {task: {"hidden": PRESETS[task]["hidden"]} for task in TASKS}),
            _level("two", {task: {"hidden": PRESETS[task]["hidden"] * 2} for task in TASKS}),
        ),
    ),
    Factor(
        "initialisation",
        "16",
        (_level("LeCun uniform", initialisation="lecun-uniform"), _level("normal", initialisation="normal")),
    ),
    Factor(
        "reward",
        "17, 18, 21",
        (
            _level(
                "first",
                {
                    "MountainCar": {"reward": "height"},
                    "Pendulum": {"reward_scale": 1.0},
                    "CartPole": {"reward": "position-and-angle"},
                },
            ),
            _level(
                "second",
                {
                    "MountainCar": {"reward": "distance"},
                    "Pendulum": {"reward_scale": 0.1},
                    "CartPole": {"reward": "upright-cosine"},
                },
            ),
        ),
    ),
    Factor(
        "mask and Adam process",
        "3, 6, 7, 8",
        (_level("corrected", **READINGS["corrected"]), _level("printed", **READINGS["printed"])),
    ),
    Factor(
        "time limit",
        "20",
        (
            _level("none", {task: {"time_limit": PRESETS[task].get("time_limit")} for task in TASKS}),
            _level("Gymnasium's", {task: {"time_limit": COMPILED_TASKS[task].evaluation_limit} for task in TASKS}),
        ),
    ),
    Factor(
        "warm-up",
        "13",
        (
            _level("1,000 steps", learning_starts=1_000),
            _level("N steps", {task: {"learning_starts": PRESETS[task]["batch_size"]} for task in TASKS}),
        ),
    ),
)

Reading = tuple[int, ...]
"""The level of every factor."""
ALL_READINGS: tuple[Reading, ...] = tuple(itertools.product(*(range(len(factor.levels)) for factor in FACTORS)))
_LIMIT = [factor.name for factor in FACTORS].index("time limit")
COMPILED = [place for place, each in enumerate(FACTORS) if each.name in ("hidden layers", "initialisation", "reward")]
"""The places of the factors that decide which programs must be compiled."""


def options_of(task: str, reading: Reading) -> dict[str, Any]:
    """The options of a reading of a task."""
    merged: dict[str, Any] = {}
    for factor, place in zip(FACTORS, reading, strict=True):
        level = factor.levels[place]
        merged |= {**level.options, **level.by_task.get(task, {})}
    return merged


def code_of(reading: Reading) -> str:
    """A reading as text: the level of every factor.

    >>> code_of((3, 1, 0, 0, 0, 0, 0, 0))
    '31000000'
    """
    return "".join(map(str, reading))


def reading_of(code: str) -> Reading:
    """The reading of a text."""
    return tuple(map(int, code))


def on_task(task: str, reading: Reading) -> Reading:
    """The reading of a task that a combination stands for: CartPole always has its limit of 500 steps."""
    return reading if task != "CartPole" else (*reading[:_LIMIT], 0, *reading[_LIMIT + 1 :])


def readings_of(task: str, readings: Sequence[Reading] = ALL_READINGS) -> list[Reading]:
    """The readings of a task among some combinations, each once."""
    return list(dict.fromkeys(on_task(task, reading) for reading in readings))
