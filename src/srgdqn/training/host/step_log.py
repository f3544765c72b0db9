"""What the newest blocks of a round left behind, in arrays that grow: 13 bytes a step and 32 a block, or twice that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from srgdqn.adapters.flat_replay import Block
from srgdqn.training.lane import LIVED, TERMINATED, TRUNCATED, BlockLog

_FIRST_ROOM = 256  # blocks


class Diary:
    """Until they are forgotten: actions, rewards, flags and seats of every step, and of every block the mean loss and
    max_a Q and the norms of Δ_M and θ (NaN where nothing was learnt).
    """

    def __init__(self, block: int) -> None:
        """Of blocks of so many steps."""
        self._blocks = 0
        self._action = np.zeros((_FIRST_ROOM, block), np.int32)
        self._reward = np.zeros((_FIRST_ROOM, block), np.float32)
        self._flags = np.zeros((_FIRST_ROOM, block), np.uint8)
        self._seats = np.zeros((_FIRST_ROOM, block), np.int32)
        self._diagnostics = np.zeros((_FIRST_ROOM, 4))

    def __len__(self) -> int:
        """The blocks in it."""
        return self._blocks

    @property
    def action(self) -> np.ndarray:
        """Of every block and step."""
        return self._action[: self._blocks]

    @property
    def reward(self) -> np.ndarray:
        """Of every block and step."""
        return self._reward[: self._blocks]

    @property
    def flags(self) -> np.ndarray:
        """Of every block and step: whether it was lived, terminated or was truncated."""
        return self._flags[: self._blocks]

    @property
    def seats(self) -> np.ndarray:
        """Of every block and step: which environment it was lived in."""
        return self._seats[: self._blocks]

    @property
    def diagnostics(self) -> np.ndarray:
        """Of every block."""
        return self._diagnostics[: self._blocks]

    def write(self, block: Block, diagnostics: Sequence[float]) -> None:
        """Takes down a block."""
        place = self._blocks
        if place == len(self._reward):
            self._grow()
        self._action[place] = block.action
        self._reward[place] = block.reward
        self._flags[place] = LIVED + TERMINATED * block.terminated + TRUNCATED * (block.truncated & ~block.terminated)
        self._seats[place] = block.seat
        self._diagnostics[place] = diagnostics
        self._blocks += 1

    def keep_newest(self) -> None:
        """Forgets all blocks but the last, where nobody is going to ask for them."""
        for part in (self._action, self._reward, self._flags, self._seats, self._diagnostics):
            part[0] = part[self._blocks - 1]
        self._blocks = 1

    def forget(self) -> None:
        """Forgets all blocks, which somebody else knows by now."""
        self._blocks = 0

    def log(self) -> BlockLog:
        """Everything but the seats, with an axis of one round first."""
        steps: tuple[Any, ...] = (self.reward[None], self.flags[None])
        return BlockLog(*steps, *self.diagnostics.astype(np.float32).T[:, None])

    def _grow(self) -> None:
        def doubled(part: np.ndarray) -> np.ndarray:
            return np.concatenate([part, np.zeros_like(part)])

        self._action = doubled(self._action)
        self._reward, self._flags = doubled(self._reward), doubled(self._flags)
        self._seats, self._diagnostics = doubled(self._seats), doubled(self._diagnostics)
