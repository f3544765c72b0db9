"""A block of transitions as it is lived, and the first-in-first-out memory of flat ones, in NumPy."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from srgdqn.adapters.spaces import Observations
from srgdqn.errors import InputError
from srgdqn.runs.snapshots import Saveable, Stream

REPLAY = "replay"
"""What the stream of transitions is called where it is kept, and all that is needed as long as they are."""


class Block:
    """The transitions between two outer iterations, in the order in which they were lived."""

    def __init__(self, length: int, observations: Observations) -> None:
        shape = (length, *observations.shape)
        self.observation: np.ndarray = np.zeros(shape, observations.dtype)
        self.next_observation: np.ndarray = np.zeros(shape, observations.dtype)
        self.action = np.zeros(length, np.int32)
        self.reward = np.zeros(length, np.float32)
        self.terminated = np.zeros(length, bool)
        self.truncated = np.zeros(length, bool)
        self.seat = np.zeros(length, np.int32)

    def __len__(self) -> int:
        return len(self.action)


class Memory(Saveable, Protocol):
    """What remembers the newest transitions: number t lies at slot t modulo the memory's length."""

    @property
    def slots(self) -> int:
        """Its length."""

    @property
    def written(self) -> int:
        """Transitions ever written."""

    def write(self, block: Block, stored_reward: np.ndarray) -> None:
        """Takes in a block, with its rewards as they are to be learned from."""

    def gather(self, slots: np.ndarray, out: np.ndarray | None = None) -> Any:
        """The transitions at these slots, in the form that the learning program takes; of flat ones, into an array that
        is there already.
        """

    def blank(self, rows: int) -> Any:
        """As many transitions of nothing in the same form."""

    @property
    def nbytes(self) -> int:
        """The bytes that it takes by now."""


def are_actions(values: np.ndarray, count: int) -> bool:
    """Whether all of them are indices of so many actions."""
    return bool(((values >= 0) & (values < count) & (values == np.floor(values))).all())


class FlatMemory:
    """Transitions as packed rows (S, S', A, R, whether terminated), as the compiled replay has them."""

    def __init__(self, slots: int, size: int, actions: int) -> None:
        """Room for `slots` transitions between observations of `size` numbers, by one of so many actions."""
        self.rows = np.zeros((slots, 2 * size + 3), np.float32)
        self.slots, self.written = slots, 0
        self._size, self._actions = size, actions

    def write(self, block: Block, stored_reward: np.ndarray) -> None:
        """Takes in a block; the memory's length is a multiple of the block's."""
        size, start = self._size, self.written % len(self.rows)
        rows = self.rows[start : start + len(block)]
        rows[:, :size] = block.observation
        rows[:, size : 2 * size] = block.next_observation
        rows[:, 2 * size] = block.action
        rows[:, 2 * size + 1] = stored_reward
        rows[:, 2 * size + 2] = block.terminated
        self.written += len(block)

    def gather(self, slots: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """The rows at these slots."""
        return self.rows.take(slots, axis=0, out=out, mode="clip")  # which never clips, and spares a check

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Stream]]:
        """How many were ever written, and the rows by the numbers of their transitions."""
        stream = Stream(max(0, self.written - self.slots), self.written, self._numbered, REPLAY)
        return {"written": np.array(self.written, np.int64)}, {REPLAY: stream}

    def _numbered(self, start: int, stop: int) -> dict[str, np.ndarray]:
        return {"row": self.rows[np.arange(start, stop) % self.slots]}

    def take(self, name: str, first: int, rows: dict[str, np.ndarray]) -> None:
        """Takes in rows that `state` gave."""
        given = rows["row"]
        if name != REPLAY or given.shape[1:] != self.rows.shape[1:] or given.dtype != self.rows.dtype:
            raise ValueError(f"{name} is {given.dtype} of shape {given.shape}")
        self.rows[np.arange(first, first + len(given)) % self.slots] = given
        self.written = first + len(given)

    def restore(self, tensors: dict[str, np.ndarray]) -> None:
        """Checks that all rows are there, and that their actions are such: whoever learns looks values up by them."""
        written, used = tensors.get("written"), self.rows[: min(self.written, self.slots)]
        whole = written is not None and written.shape == () and int(written) == self.written
        if not whole or not are_actions(used[:, 2 * self._size], self._actions):
            raise InputError("its replay is none of this configuration's")

    def blank(self, rows: int) -> np.ndarray:
        """Rows of zeros."""
        return np.zeros((rows, self.rows.shape[1]), np.float32)

    @property
    def nbytes(self) -> int:
        """The bytes that it takes."""
        return self.rows.nbytes
