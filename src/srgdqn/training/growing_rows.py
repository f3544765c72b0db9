"""Rows that are only ever appended, in arrays that double whenever they are full."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

_FIRST_ROOM = 256


class GrowingRows:
    """Columns of numbers and flags that grow together."""

    def __init__(self, kinds: Mapping[str, type]) -> None:
        """With the kinds of number of each column."""
        self._columns: dict[str, np.ndarray] = {name: np.zeros(_FIRST_ROOM, kind) for name, kind in kinds.items()}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, rows: Mapping[str, np.ndarray]) -> None:
        """Takes in rows, of which every column has as many."""
        [count] = {len(rows[name]) for name in self._columns}
        stop = self._count + count
        for name, column in self._columns.items():
            if stop > len(column):
                grown = np.zeros(max(stop, 2 * len(column)), column.dtype)
                grown[: self._count] = column[: self._count]
                self._columns[name] = column = grown
            column[self._count : stop] = rows[name]
        self._count = stop

    def read(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """The rows between two numbers, as views that later rows do not change."""
        return {name: column[start : min(stop, self._count)] for name, column in self._columns.items()}
