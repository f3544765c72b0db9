"""Numbers that an estimator has of its own: options by their names wherever that estimator is chosen."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from srgdqn.config import plugins
from srgdqn.config.discovery import ESTIMATORS, known_estimator
from srgdqn.errors import InputError

_RESERVED = (
    "address algorithm at_once checkpoint_every config engine env environment figure folder help import json "
    "keep_checkpoints loggers options out overwrite own progress quiet readings resume sampler_seed score search self "
    "space tensorboard threshold trials typed values verbose wandb "
    "cell diverged failure final_reward final_reward_high final_reward_low final_reward_rounds greedy_return "
    "greedy_return_high greedy_return_low round score_high score_low area area_high area_low often_diverged"
)
RESERVED = frozenset(_RESERVED.split())
"""What no number may be called beside the options: arguments of functions and commands, and columns of tables."""

CURVES_COLUMNS = frozenset(
    {
        "round",
        "step",
        "reward",
        "reward_cumulative",
        "episodes",
        "loss",
        "max_q",
        "delta_norm",
        "theta_norm",
        "queries",
        "gradient_evaluations",
        "iterations",
    }
)
"""What no column that an estimator logs may be called."""


@dataclass(frozen=True)
class Number:
    """An option of one estimator. It is traced, one value per lane, unless it is a `size`, which compiles anew."""

    name: str
    default: float
    meaning: str
    """One sentence."""
    least: float = -3.4e38
    most: float = 3.4e38
    size: bool = False
    """Whether it is a whole number that arrays are as large as."""
    whole: bool = False
    """Whether it is a whole number that is traced, such as a switch (0 or 1)."""

    @property
    def expectation(self) -> str:
        """What it must be."""
        whole = "a whole number " if self.is_whole else ""
        if self.most >= 3.4e38:
            return f"{whole}{self.least:g} or more" if self.least > -3.4e38 else f"{whole or 'a finite number'}".strip()
        return f"{whole}from {self.least:g} to {self.most:g}"

    def allows(self, value: float) -> bool:
        """Whether it may have this value."""
        whole = float(value).is_integer() and abs(value) < 2**31
        return self.least <= value <= self.most and (not self.is_whole or whole)

    @property
    def is_whole(self) -> bool:
        """Whether it is a whole number."""
        return self.size or self.whole


def numbers_of_estimator(name: str) -> Mapping[str, Number]:
    """The numbers that the estimator of that name has of its own; none where it is not known."""
    if ESTIMATORS.get(name, True) is None:  # one of ours that nobody has loaded yet, which needs no jax
        importlib.import_module("srgdqn.learner.estimators")
    known: Any = ESTIMATORS.get(name)
    return {} if known is None else {each.name: each for each in known.numbers}


def owners_of(number: str) -> list[str]:
    """The known estimators that have a number of that name."""
    return [each for each in ESTIMATORS if number in numbers_of_estimator(each)]


def every_number() -> dict[str, type]:
    """Every number that a known estimator has, and its type: an int where it is whole."""
    found: dict[str, type] = {}
    for each in ESTIMATORS:
        for name, number in numbers_of_estimator(each).items():
            found[name] = int if number.is_whole and found.get(name, int) is int else float
    return found


def is_number(name: str) -> bool:
    """Whether an estimator has a number of that name; installed packages that have not been asked for are asked now."""
    if name in every_number():
        return True
    for each in plugins.declared():
        with contextlib.suppress(InputError):  # why it cannot be imported is said where it is chosen
            known_estimator(each)
    return name in every_number()
