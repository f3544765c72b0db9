"""The steps of a round's newest blocks, until they are recorded: the log that compiled rounds give, and actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from srgdqn.adapters.replay import Block
from srgdqn.training.lane import LIVED, TERMINATED, TRUNCATED, BlockLog

_FIRST_ROOM = 256  # blocks


class StepLog:
    """A buffer of blocks: action, reward, flags and environment of every step, diagnostics of every block."""

    def __init__(self, block: int) -> None:
        """Of blocks of so many steps."""
        self._blocks = 0
        kinds: dict[str, Any] = {"action": np.int32, "reward": np.float32, "flags": np.uint8, "environments": np.int32}
        self._columns = {name: np.zeros((_FIRST_ROOM, block), kind) for name, kind in kinds.items()}
        self._columns["diagnostics"] = np.zeros((_FIRST_ROOM, 4), np.float32)

    def __len__(self) -> int:
        """The blocks in it."""
        return self._blocks

    def __getitem__(self, name: str) -> np.ndarray:
        """A column, of which each block is a row."""
        return self._columns[name][: self._blocks]

    def write(self, block: Block, diagnostics: Sequence[float]) -> None:
        """Appends a block."""
        place = self._blocks
        if place == len(self._columns["reward"]):
            self._columns = {name: np.concatenate([part, np.zeros_like(part)]) for name, part in self._columns.items()}
        flags = LIVED + TERMINATED * block.terminated + TRUNCATED * (block.truncated & ~block.terminated)
        written = (block.action, block.reward, flags, block.environment, diagnostics)
        for column, values in zip(self._columns.values(), written, strict=True):
            column[place] = values
        self._blocks += 1

    def log(self) -> BlockLog:
        """Everything but actions and environments, with an axis of one round first."""
        steps: tuple[Any, ...] = (self["reward"][None], self["flags"][None])
        return BlockLog(*steps, *self["diagnostics"].T[:, None])

    def clear(self) -> None:
        """Drops all blocks."""
        self._blocks = 0
