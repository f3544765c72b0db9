"""An environment that works for some steps: longer cells of a sweep fail in it, and shorter ones do not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from host_environments import SMALL, Bad, Slope


def stumble(environment: Bad, outcome: tuple[Any, ...]) -> Any:
    raise ValueError("no ball")


def vanish(environment: Bad, outcome: tuple[Any, ...]) -> Any:
    return np.full(2, np.nan, np.float32), *outcome[1:]


class Failing:
    """What tests need to know of it."""

    name = "Failing-v0"
    short, long = 24, 40  # budgets of which the first is spent before it fails, and the second is not
    options = SMALL

    @contextmanager
    def registered(self, wrong: Any = stumble, after: int = 35) -> Iterator[None]:
        """Has the id while it lasts, and goes wrong after so many steps, or never if nothing is `wrong`."""
        gym.register(self.name, Slope if wrong is None else lambda: Bad(wrong, "step", after))
        try:
            yield
        finally:
            gym.registry.pop(self.name)

    @contextmanager
    def with_nan(self) -> Iterator[None]:
        """The same, where an observation that is no number is what goes wrong."""
        with self.registered(vanish):
            yield


@pytest.fixture
def failing() -> Failing:
    return Failing()
