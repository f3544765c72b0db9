"""The steps of a round on the host: those that are not recorded yet, and those of unfinished episodes, which are
replayed on resume.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from srgdqn.adapters.replay_memory import Block
from srgdqn.runs.snapshots import Rows, Stream, Tensors
from srgdqn.runs.untrusted import check_room
from srgdqn.training.lane import STEPPED, TERMINATED, TRUNCATED, BlockLog

_LOG_ROOM = 256  # blocks


class StepLog:
    """The newest blocks: action, reward, flags and environment of every step, diagnostics of every block."""

    def __init__(self, block: int, logged: Sequence[str] = ()) -> None:
        """Of blocks of so many steps, for which the estimator logs these columns beside the four diagnostics."""
        self._logged = logged
        self._blocks = 0
        kinds: dict[str, Any] = {"action": np.int32, "reward": np.float32, "flags": np.uint8, "environments": np.int32}
        self._columns = {name: np.zeros((_LOG_ROOM, block), kind) for name, kind in kinds.items()}
        self._columns["diagnostics"] = np.zeros((_LOG_ROOM, 4 + len(logged)), np.float32)

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
        flags = STEPPED + TERMINATED * block.terminated + TRUNCATED * (block.truncated & ~block.terminated)
        written = (block.action, block.reward, flags, block.environment, diagnostics)
        for column, values in zip(self._columns.values(), written, strict=True):
            column[place] = values
        self._blocks += 1

    def log(self) -> BlockLog:
        """Everything but actions and environments, with an axis of one round first."""
        steps: tuple[Any, ...] = (self["reward"][None], self["flags"][None])
        diagnostics = self["diagnostics"].T[:, None]
        logged = dict(zip(self._logged, diagnostics[4:], strict=True))
        return BlockLog(*steps, *diagnostics[:4])._replace(logged=logged)

    def clear(self) -> None:
        """Drops all blocks."""
        self._blocks = 0


_FIRST_ROOM = 4_096  # steps

_KINDS = {"action": np.int32, "reward": np.float32, "environment": np.int32}
_ROW = sum(np.dtype(kind).itemsize for kind in _KINDS.values())  # bytes of a step


class OpenSteps:
    """The actions and rewards of a round's steps, from the beginning of the oldest unfinished episode on."""

    def __init__(self, environments: int) -> None:
        """Of a round in so many environments."""
        self._began = np.zeros(environments, np.int64)  # of each: the round's steps when its open episode began
        self._columns: dict[str, np.ndarray] = {name: np.zeros(_FIRST_ROOM, kind) for name, kind in _KINDS.items()}
        self._first = 0  # the number of the first step that is there
        self._taken: list[Rows] = []  # that are being restored
        self.steps = 0  # of the round, so far
        self.observed: np.ndarray | None = None  # what each environment observes, where it can be brought there again

    def write(self, action: np.ndarray, reward: np.ndarray, ended: np.ndarray, environment: np.ndarray) -> None:
        """Takes in the next steps, of which some ended episodes."""
        start = self.steps - self._first
        stop = start + len(action)
        if stop > len(self._columns["action"]):
            start, stop = self._make_room(len(action))
        for column, given in zip(self._columns.values(), (action, reward, environment), strict=True):
            column[start:stop] = given
        for place in range(len(self._began)):
            ends = np.flatnonzero(ended & (environment == place))
            if len(ends):
                self._began[place] = self.steps + ends[-1] + 1
        self.steps += len(action)

    def leave(self, environments: list[int]) -> None:
        """Drops the unfinished episodes of these environments."""
        self._began[environments] = self.steps

    def of(self, environment: int) -> tuple[np.ndarray, np.ndarray]:
        """The actions and rewards of an environment's unfinished episode."""
        rows = self._read(int(self._began[environment]), self.steps)
        mine = rows["environment"] == environment
        return rows["action"][mine], rows["reward"][mine]

    def state(self) -> tuple[Tensors, dict[str, Stream]]:
        """When episodes began, what is observed, and the steps."""
        tensors = {"began": self._began.copy()}
        if self.observed is not None:
            tensors["observed"] = self.observed
        return tensors, {"steps": Stream(int(self._began.min()), self.steps, self._read, "steps")}

    def take(self, name: str, first: int, rows: Rows) -> None:
        """Takes in steps that `state` gave."""
        for column, kind in _KINDS.items():
            if name != "steps" or rows[column].ndim != 1 or rows[column].dtype != kind:
                raise ValueError(f"its {name} have {rows[column].dtype} for {column}")
        if not self._taken:
            self._first = first
        self._taken.append(rows)
        self.steps = first + len(rows["action"])
        check_room(_ROW * (self.steps - self._first), "its open episodes")

    def restore(self, tensors: Tensors) -> None:
        """Takes in when episodes began, once all steps are there."""
        began, self.observed = tensors["began"], tensors.get("observed")
        if began.shape != self._began.shape or began.dtype != self._began.dtype:
            raise ValueError("it does not say when episodes began")
        if not self._taken:
            self._first = self.steps = int(began.min())
        if began.min() != self._first or began.max() > self.steps:
            raise ValueError("episodes began when there were no steps")
        if self.observed is not None and len(self.observed) != len(began):
            raise ValueError("it lacks an observation")
        self._began = began.copy()
        for name, kind in _KINDS.items():
            rows = [rows[name] for rows in self._taken]
            spare = np.zeros(max(0, _FIRST_ROOM - self.steps + self._first), kind)
            self._columns[name] = np.concatenate([*rows, spare])
        self._taken = []

    def _read(self, start: int, stop: int) -> Rows:
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
