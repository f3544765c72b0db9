"""Which transitions of a memory follow each other in their episodes, where several environments take turns."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from srgdqn.errors import InputError


class EpisodeLinks:
    """A link from every transition to the next one of its episode. They are numbered in the order of their writing."""

    def __init__(self, slots: int, environments: int) -> None:
        self._slots = slots
        self._newest = np.full(environments, -1, np.int64)  # of the open episode of each, where something is stored
        self._ahead = np.zeros(slots, np.int64)  # how many transitions on the next one is; 0 where there is none yet

    def write(self, written: int, environments: np.ndarray, ended: np.ndarray) -> np.ndarray:
        """Takes in transitions: how many before each the one before it in its episode is (0: it is the first, or that
        one is no longer stored).
        """
        back = np.zeros(len(environments), np.int64)
        for place, (environment, end) in enumerate(zip(environments.tolist(), ended.tolist(), strict=True)):
            number, before = written + place, int(self._newest[environment])
            self._ahead[number % self._slots] = 0
            if before >= 0 and number - before < self._slots:
                back[place] = self._ahead[before % self._slots] = number - before
            self._newest[environment] = -1 if end else number
        return back

    def leave(self, environments: Iterable[int]) -> None:
        """The next transitions in these environments are the first of new episodes."""
        self._newest[list(environments)] = -1

    def follow(self, slots: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
        """From each slot on those of up to n consecutive transitions (the last one repeated), and how many they are."""
        path, steps = np.repeat(slots[:, None].astype(np.int64), n, axis=1), np.ones(len(slots), np.int32)
        for step in range(1, n):
            ahead = self._ahead[path[:, step - 1]]
            path[:, step] = (path[:, step - 1] + ahead) % self._slots
            steps += ahead > 0  # once 0, it stays there
        return path, steps

    def state(self) -> dict[str, np.ndarray]:
        """What is not known from the distances that `write` gave."""
        return {"newest": self._newest}

    def restore(self, tensors: dict[str, np.ndarray], written: int, back: np.ndarray) -> None:
        """Takes in what `state` gave, with the distances of all slots."""
        newest = tensors.get("newest")
        numbers = np.arange(max(0, written - self._slots), written)
        distances = back[numbers % self._slots]
        whole = (distances >= 0) & (distances < self._slots) & (distances == np.floor(distances))
        if newest is None or newest.shape != self._newest.shape or newest.dtype != np.int64 or not whole.all():
            raise InputError("its replay does not say how episodes go on")
        if ((newest < -1) | (newest >= written)).any():
            raise InputError("its replay goes on with episodes that it does not have")
        before = numbers - distances.astype(np.int64)
        linked = (distances > 0) & (before >= max(0, written - self._slots))
        self._newest = newest.copy()
        self._ahead[before[linked] % self._slots] = distances[linked]
