"""An environment of small images that a child process can make by its id, `dots:Dots-v0`."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete

SIDE, LENGTH = 36, 20


class Dots(gym.Env):
    """A bright square that is moved up or down; the higher it is, the more is rewarded."""

    observation_space = Box(0, 255, (SIDE, SIDE, 1), np.uint8)
    action_space = Discrete(2)
    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.row, self.column, self.steps = (int(n) for n in (*self.np_random.integers(0, SIDE - 6, 2), 0))
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, ...]:
        self.row = int(np.clip(self.row + (2 if action else -2), 0, SIDE - 6))
        self.steps += 1
        return self._seen(), 1 - self.row / SIDE, False, self.steps >= LENGTH, {}

    def _seen(self) -> np.ndarray:
        image = np.zeros((SIDE, SIDE, 1), np.uint8)
        image[self.row : self.row + 6, self.column : self.column + 6] = 255
        return image


gym.register("Dots-v0", Dots)
