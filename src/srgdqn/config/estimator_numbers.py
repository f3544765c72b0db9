"""Numbers that an estimator has of its own: options by their names wherever that estimator is chosen."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from srgdqn.config.discovery import ESTIMATORS


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

    @property
    def expectation(self) -> str:
        """What it must be."""
        whole = "a whole number " if self.size else ""
        if self.most >= 3.4e38:
            return f"{whole}{self.least:g} or more" if self.least > -3.4e38 else f"{whole or 'a finite number'}".strip()
        return f"{whole}from {self.least:g} to {self.most:g}"

    def allows(self, value: float) -> bool:
        """Whether it may have this value."""
        return self.least <= value <= self.most and (not self.size or float(value).is_integer())


def numbers_of_estimator(name: str) -> Mapping[str, Number]:
    """The numbers that the estimator of that name has of its own; none where it is not known."""
    if ESTIMATORS.get(name, True) is None:  # one of ours that nobody has loaded yet, which needs no jax
        importlib.import_module("srgdqn.learner.estimators")
    known: Any = ESTIMATORS.get(name)
    return {} if known is None else {each.name: each for each in known.numbers}


def is_estimator_number(name: str) -> bool:
    """Whether some estimator has a number of that name."""
    return any(name in numbers_of_estimator(each) for each in ESTIMATORS)
