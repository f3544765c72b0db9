"""Where rounds sit: boards with as many lanes as a compiled program, on which those still active are kept together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from srgdqn.training.evaluation import Evaluation
from srgdqn.training.lane import BlockLog, Lane


class Board(NamedTuple):
    """The lanes of one call of the program."""

    seats: np.ndarray  # each lane's place among the chunk's rounds; lanes beyond these are spare
    lanes: Lane
    numbers: dict[str, np.ndarray]  # one value per lane
    data: Any  # what each lane is given of the run's data


class Boards:
    """The boards of a chunk of rounds.

    Args:
      width: lanes of a board.
      rounds: which rounds they are.
      numbers: the numbers of their configurations, one value per round.
      begin: from a board's round numbers, and which of its lanes are in use, to its lanes before their first step.
      data: arrays with an axis of all rounds first, of which each lane is given its round's.
      resumed: every round's state as `on_host` gave it, where they do not begin with their first step.

    """

    def __init__(
        self,
        width: int,
        rounds: Sequence[int],
        numbers: Mapping[str, np.ndarray],
        begin: Callable[[np.ndarray, np.ndarray], Lane],
        data: Any = None,
        resumed: Lane | None = None,
    ) -> None:
        self._width, self._rounds, self._data = width, np.asarray(rounds, np.uint32), data
        self._numbers = numbers
        self._boards = [
            self._seated(seats, begin(self._rounds_of(seats), np.arange(width) < len(seats)))
            for seats in self._shared_out(np.arange(len(rounds)))
        ]
        # A chunk of one board never moves, and need not be copied.
        single = len(self._boards) == 1
        self._everyone = resumed if resumed is not None else None if single else self._copied()
        if resumed is not None:
            seats = np.arange(len(rounds)) if single else np.flatnonzero(resumed.active)
            self._boards = [self._seated(each, self._taken(each)) for each in self._shared_out(seats)]
            self._everyone = None if single else resumed

    @property
    def any_active(self) -> bool:
        """Whether there is anything left to do."""
        return any(np.asarray(board.lanes.active).any() for board in self._boards)

    @property
    def lanes(self) -> Lane:
        """Every round's state, be it still on a board or not (with keys as their data, where it has been moved)."""
        return self._boards[0].lanes if self._everyone is None else self._everyone

    def advance(self, run: Callable[[Board], tuple[Lane, BlockLog]]) -> BlockLog:
        """Runs every board, and gives the log of all rounds: those on no board have neither lived nor learned."""
        logs = []
        for index, board in enumerate(self._boards):
            lanes, log = run(board)
            self._boards[index] = board._replace(lanes=lanes)
            logs.append(log)
        if self._everyone is None:
            return logs[0]
        for board in self._boards:
            jax.tree.map(lambda kept, new, b=board: _put(kept, b, new), self._everyone, _on_host(board.lanes))
        return jax.tree.map(self._rows, *logs)

    def judge(self, evaluate: Callable[[Lane], Evaluation], *, everyone: bool) -> Evaluation:
        """The evaluation of every round, or of those on boards only: the others have nothing in theirs."""
        if self._everyone is None:
            return evaluate(self._boards[0].lanes)
        if not everyone:
            return jax.tree.map(self._rows, *(evaluate(board.lanes) for board in self._boards))
        places = np.arange(len(self._rounds))
        parts = [evaluate(self._taken(seats)) for seats in self._shared_out(places)]
        return jax.tree.map(lambda *leaves: np.concatenate(leaves)[: len(places)], *parts)

    def move_together(self) -> None:
        """Gives up boards, where the rounds still active fit on fewer."""
        active = np.concatenate([b.seats[np.asarray(b.lanes.active)[: len(b.seats)]] for b in self._boards])
        if len(active) <= self._width * (len(self._boards) - 1):
            self._boards = [self._seated(seats, self._taken(seats)) for seats in self._shared_out(active)]

    def _shared_out(self, places: np.ndarray) -> list[np.ndarray]:
        return [places[start : start + self._width] for start in range(0, len(places), self._width)]

    def _seated(self, seats: np.ndarray, lanes: Lane) -> Board:
        rounds, padded = self._rounds_of(seats), self._padded(seats)
        return Board(
            seats,
            lanes,
            {name: values[padded] for name, values in self._numbers.items()},
            jax.tree.map(lambda leaf: jnp.asarray(leaf[rounds]), self._data),
        )

    def _padded(self, seats: np.ndarray) -> np.ndarray:
        """A seat for every lane; spare ones share the first."""
        return np.append(seats, np.repeat(seats[:1], self._width - len(seats)))

    def _rounds_of(self, seats: np.ndarray) -> np.ndarray:
        """The round of every lane; spare ones are given the first of all rounds."""
        return np.append(self._rounds[seats], np.zeros(self._width - len(seats), np.uint32))

    def on_host(self) -> Lane:
        """A copy of every round's state that stays as it is, with keys as their data."""
        if self._everyone is not None:
            return jax.tree.map(np.copy, self._everyone)
        return jax.tree.map(lambda leaf: np.array(leaf[: len(self._rounds)]), _on_host(self._boards[0].lanes))

    def _copied(self) -> Lane:
        parts = [jax.tree.map(lambda leaf, b=b: leaf[: len(b.seats)], _on_host(b.lanes)) for b in self._boards]
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)

    def _taken(self, seats: np.ndarray) -> Lane:
        """Lanes with the states of these rounds. Spare ones have that of the first, and are not active."""
        padded = self._padded(seats)
        lanes: Lane = jax.tree.map(
            lambda leaf, like: _on_device(leaf[padded], like), self._everyone, self._boards[0].lanes
        )
        return lanes._replace(active=lanes.active & (jnp.arange(self._width) < len(seats)))

    def _rows(self, *logs: np.ndarray) -> np.ndarray:
        absent = np.nan if np.issubdtype(logs[0].dtype, np.floating) else 0
        rows = np.full((len(self._rounds), *logs[0].shape[1:]), absent, logs[0].dtype)
        for board, log in zip(self._boards, logs, strict=True):
            _put(rows, board, log)
        return rows


def _put(rows: np.ndarray, board: Board, new: np.ndarray) -> None:
    rows[board.seats] = new[: len(board.seats)]


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _on_host(lanes: Lane) -> Lane:
    return jax.tree.map(lambda leaf: np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf), lanes)


def _on_device(leaf: np.ndarray, like: Any) -> Any:
    array = jnp.asarray(leaf)
    return jax.random.wrap_key_data(array, impl=jax.random.key_impl(like)) if _is_key(like) else array
