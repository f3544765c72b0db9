"""An environment that fails after some steps: longer cells of a sweep fail in it, shorter ones do not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import srgdqn
from host_environments import SMALL, Bad, Slope
from srgdqn.sweeps.sweep import Sweep


def stumble(environment: Bad, outcome: tuple[Any, ...]) -> Any:
    raise ValueError("no ball")


def vanish(environment: Bad, outcome: tuple[Any, ...]) -> Any:
    return np.full(2, np.nan, np.float32), *outcome[1:]


class Failing:
    """The environment's name, and sweeps in it."""

    name = "Failing-v0"
    short, long = 24, 40  # budgets of which the first is spent before it fails, and the second is not
    options = SMALL
    stumble, vanish = staticmethod(stumble), staticmethod(vanish)

    @contextmanager
    def registered(self, wrong: Any = stumble, after: int = 35) -> Iterator[None]:
        """Registers the id; the environment goes `wrong` after so many steps, or never if that is None."""
        gym.register(self.name, Slope if wrong is None else lambda: Bad(wrong, "step", after))
        try:
            yield
        finally:
            gym.registry.pop(self.name)

    def sweep(self, values: dict[str, Any], folder: Path | None = None, **how: Any) -> Sweep:
        with self.registered(how.pop("wrong", stumble), how.pop("after", 35)):
            return srgdqn.sweep(self.name, "dqn-adam", values, folder=folder, **self.options, **how)


@pytest.fixture
def failing() -> Failing:
    return Failing()
