"""What was done in the episodes that are open, so that they can be lived again."""

from __future__ import annotations

import numpy as np

from srgdqn.errors import InputError
from srgdqn.runs.checkpoints import Stream
from srgdqn.runs.memory_limit import check_room

_FIRST_ROOM = 4_096  # steps

_KINDS = {"action": np.int32, "reward": np.float32, "seat": np.int32}
_ROW = sum(np.dtype(kind).itemsize for kind in _KINDS.values())  # bytes of a step


class Trail:
    """The actions and rewards of a round's steps, from the beginning of the oldest open episode on."""

    def __init__(self, seats: int) -> None:
        """Of a round in so many environments."""
        self._began = np.zeros(seats, np.int64)  # of each: the round's steps when its open episode began
        self._columns: dict[str, np.ndarray] = {name: np.zeros(_FIRST_ROOM, kind) for name, kind in _KINDS.items()}
        self._first = 0  # the number of the first step that is there
        self.steps = 0  # of the round, so far

    def write(self, action: np.ndarray, reward: np.ndarray, ended: np.ndarray, seat: np.ndarray) -> None:
        """Takes in the next steps, of which some ended episodes."""
        start = self.steps - self._first
        stop = start + len(action)
        if stop > len(self._columns["action"]):
            start, stop = self._make_room(len(action))
        for column, given in zip(self._columns.values(), (action, reward, seat), strict=True):
            column[start:stop] = given
        for place in range(len(self._began)):
            ends = np.flatnonzero(ended & (seat == place))
            if len(ends):
                self._began[place] = self.steps + ends[-1] + 1
        self.steps += len(action)

    def leave(self, seats: list[int]) -> None:
        """The open episodes of these environments are left."""
        self._began[seats] = self.steps

    def of(self, seat: int) -> tuple[np.ndarray, np.ndarray]:
        """The actions and rewards of an environment's open episode."""
        rows = self._read(int(self._began[seat]), self.steps)
        mine = rows["seat"] == seat
        return rows["action"][mine], rows["reward"][mine]

    def state(self) -> tuple[dict[str, np.ndarray], Stream]:
        """What `restore` and `take` need: a small array, and the steps."""
        return {"began": self._began.copy()}, Stream(int(self._began.min()), self.steps, self._read, "trail")

    def restore(self, tensors: dict[str, np.ndarray], steps: int) -> None:
        """Goes on, before the first step, from what `state` gave after so many, with all rows given to `take`."""
        began = tensors.get("began")
        if began is None or began.shape != self._began.shape or began.dtype != self._began.dtype:
            raise InputError("it does not tell when episodes began")
        if not ((began >= 0) & (began <= steps)).all():
            raise InputError("episodes began when there were no steps")
        check_room(_ROW * (steps - int(began.min())), "its open episodes")
        self._began = began.copy()
        self._first, self.steps = int(began.min()), steps
        self._columns = {name: np.zeros(max(_FIRST_ROOM, steps - self._first), kind) for name, kind in _KINDS.items()}

    def take(self, first: int, rows: dict[str, np.ndarray]) -> None:
        """Some of the rows that `state` gave, which begin with step number `first`."""
        for name, column in self._columns.items():
            place = first - self._first
            if place < 0 or rows[name].ndim != 1 or rows[name].dtype != column.dtype:
                raise InputError(f"its steps have {rows[name].dtype} for {name}")
            column[place : place + len(rows[name])] = rows[name]

    def _read(self, start: int, stop: int) -> dict[str, np.ndarray]:
        return {name: column[start - self._first : stop - self._first] for name, column in self._columns.items()}

    def _make_room(self, count: int) -> tuple[int, int]:
        """Drops the steps before all open episodes, and doubles if these fill more than half; where to write next."""
        kept = self._read(int(self._began.min()), self.steps)
        start = len(kept["action"])
        room = len(self._columns["action"])
        while room < 2 * (start + count):
            room *= 2
        for name, column in kept.items():
            self._columns[name] = np.zeros(room, column.dtype)
            self._columns[name][:start] = column
        self._first = self.steps - start
        return start, start + count
