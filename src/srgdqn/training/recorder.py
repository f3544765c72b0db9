"""What a chunk's log becomes while it is written: rows of tables, page by page, and what is open between two pages.

Nothing of a step is kept once its page is full. What comes out depends neither on how the log was cut into segments nor
on where recording stopped and went on again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from srgdqn.config import Configuration
from srgdqn.errors import InputError
from srgdqn.training.evaluation import Evaluation
from srgdqn.training.growing_rows import GrowingRows
from srgdqn.training.lane import LIVED, BlockLog
from srgdqn.training.tables import Endings, Recorded, Tables, tables_of
from srgdqn.training.window_rows import (
    CURVES,
    DIAGNOSTICS,
    EPISODES,
    Carry,
    Columns,
    Page,
    digest,
    nothing_yet,
    open_window,
    rules_of,
)

PAGE_STEPS = 2**15
"""Steps of a round to a page, as far as these are whole blocks: few enough to be kept in a checkpoint as they are."""

_LOGGED = ("reward", "flags", *DIAGNOSTICS)


class Recorder:
    """Records the rounds of a chunk, which may be of several configurations that differ in numbers alone."""

    def __init__(self, configuration: Configuration, endings: Endings, rounds: int) -> None:
        """Of so many rounds, whose budget, blocks, windows and environments are those of the configuration."""
        settings = configuration.training
        self._rules, self._endings = rules_of(settings), endings
        self._page_blocks = max(1, PAGE_STEPS // settings.learning_frequency)
        self._carries = [nothing_yet(settings.environments) for _ in range(rounds)]
        self._digested = 0  # blocks
        self._waiting = 0  # blocks of the page that is not full
        self._page: Columns = {}  # what was logged of them, with the axes of rounds and of blocks first
        self._rows = {
            "curves": GrowingRows({"lane": np.int32, **CURVES}),
            "episodes": GrowingRows({"lane": np.int32, **EPISODES}),
        }

    @property
    def blocks(self) -> int:
        """The blocks that it has heard of."""
        return self._digested + self._waiting

    @property
    def steps(self) -> int:
        """The steps of these blocks, in every round."""
        return self.blocks * self._rules.block

    def hear(self, log: BlockLog, seats: np.ndarray | None = None) -> None:
        """Takes in the next blocks of all rounds, with the axes of rounds (which spare lanes may follow) and of blocks
        first. `seats` tells of each step which of its round's environments made it, where there are several.
        """
        self._hear(
            {name: np.asarray(getattr(log, name)) for name in _LOGGED} | ({} if seats is None else {"seats": seats})
        )

    def _hear(self, heard: Mapping[str, np.ndarray]) -> None:
        rounds, start, stop = len(self._carries), 0, heard["flags"].shape[1]
        if not self._page:
            self._page = {
                name: np.empty((rounds, self._page_blocks, *part.shape[2:]), part.dtype) for name, part in heard.items()
            }
        while start < stop:
            count = min(stop - start, self._page_blocks - self._waiting)
            for name, part in heard.items():
                self._page[name][:, self._waiting : self._waiting + count] = part[:rounds, start : start + count]
            self._waiting += count
            start += count
            if self._waiting == self._page_blocks:
                self._turn_page()

    def _turn_page(self) -> None:
        for lane in range(len(self._carries)):
            self._carries[lane], rows = self._digest(lane)
            for name, columns in rows.items():
                self._rows[name].append({"lane": np.full(len(columns["step"]), lane, np.int32), **columns})
        self._digested, self._waiting = self._digested + self._waiting, 0

    def _digest(self, lane: int) -> tuple[Carry, dict[str, Columns]]:
        """What is open of a round after the blocks of the page so far, and the rows that they close."""
        page = {name: part[lane, : self._waiting].reshape(-1) for name, part in self._page.items()}
        if not self._waiting or not page["flags"][0] & LIVED:
            return self._carries[lane], {}
        after, curves, episodes = digest(
            self._rules,
            self._carries[lane],
            Page(
                self._digested,
                page["reward"].astype(np.float64),
                page["flags"],
                np.stack([page[name] for name in DIAGNOSTICS], axis=1, dtype=np.float64),
                page.get("seats"),
            ),
        )
        return after, {"curves": curves, "episodes": episodes}

    def reached(self, lane: int) -> Carry:
        """What a round has come to by now."""
        return self._digest(lane)[0]

    def tables(
        self,
        seats: slice,
        rounds: Sequence[int],
        configuration: Configuration,
        evaluations: Iterable[tuple[int, bool, Evaluation]],
        diverged_at: np.ndarray,
        timings: Sequence[tuple[str, int, float]],
    ) -> Tables:
        """The rows that some of the chunk's rounds, with their numbers and their configuration, have by now.

        `evaluations` (blocks done, whether it is the last, results) and `diverged_at` have an axis of all the chunk's
        rounds first. Recording may go on afterwards as if nobody had asked.
        """
        lanes = range(*seats.indices(len(self._carries)))
        curves, episodes = (self._closed(self._rows[name], lanes) for name in ("curves", "episodes"))
        recorded = []
        for place, lane in enumerate(lanes):
            carry, now = self._digest(lane)
            ended = [now] if now else []
            windows = [curves[place], *(rows["curves"] for rows in ended), open_window(self._rules, carry)]
            whole = [episodes[place], *(rows["episodes"] for rows in ended)]
            recorded.append(Recorded(carry, _joined(windows), _joined(whole), int(diverged_at[lane])))
        judged = [
            (blocks, last, jax.tree.map(lambda part: np.asarray(part)[lanes.start : lanes.stop], results))
            for blocks, last, results in evaluations
        ]
        return tables_of(configuration, self._endings, rounds, recorded, judged, timings)

    @staticmethod
    def _closed(rows: GrowingRows, lanes: range) -> list[Columns]:
        """The rows of each of some rounds, in the order in which they came."""
        columns = rows.read(0, len(rows))
        lane = columns.pop("lane")
        chosen = np.flatnonzero((lane >= lanes.start) & (lane < lanes.stop))
        chosen = chosen[np.argsort(lane[chosen], kind="stable")]
        parts = np.split(chosen, np.searchsorted(lane[chosen], np.arange(lanes.start + 1, lanes.stop)))
        return [{name: column[part] for name, column in columns.items()} for part in parts]

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, GrowingRows]]:
        """What `restore` and `take` need to go on from here: arrays that stay small, and rows that only grow."""
        columns = zip(Carry._fields, zip(*self._carries, strict=True), strict=True)
        arrays = {f"carry.{name}": np.array(column) for name, column in columns}
        arrays["digested"] = np.array(self._digested)
        arrays |= {f"page.{name}": part[:, : self._waiting].copy() for name, part in self._page.items()}
        return arrays, dict(self._rows)

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Goes on, as a new recorder, from what `state` gave, with all its rows given to `take`."""
        try:
            columns = [arrays[f"carry.{name}"] for name in Carry._fields]
            found, expected = columns[-1].shape, (len(self._carries), len(self._carries[0].open_lengths))
            if found != expected:
                raise ValueError(f"it has (rounds, environments) of {found}, not of {expected}")
            for name, column, like in zip(Carry._fields, columns, zip(*self._carries, strict=True), strict=True):
                _check_like(name, column, np.array(like))
            _check_like("digested", arrays["digested"], np.array(0))
            self._carries = [_carry(row) for row in zip(*columns, strict=True)]
            self._digested = int(arrays["digested"])
            page = {name[len("page.") :]: part for name, part in arrays.items() if name.startswith("page.")}
            if page:
                self._check_page(page)
                self._hear(page)
        except (KeyError, ValueError) as error:
            raise InputError(f"its records are none of this configuration's ({error})") from error

    def _check_page(self, page: Mapping[str, np.ndarray]) -> None:
        blocks = page["flags"].shape[:2]
        if blocks[:1] != (len(self._carries),) or not blocks[1:] < (self._page_blocks,):
            raise ValueError(f"its page has (rounds, blocks) of {blocks}")
        kinds = {"reward": "f", "flags": "u", **dict.fromkeys(DIAGNOSTICS, "f")}
        if {*page} - {"seats"} != {*kinds}:
            raise ValueError("its page has other columns")
        for name, part in page.items():
            steps = () if name in DIAGNOSTICS else (self._rules.block,)
            if part.shape != (*blocks, *steps) or part.dtype.kind != kinds.get(name, "i"):
                raise ValueError(f"its page has {part.dtype} of shape {part.shape} for {name}")

    def take(self, name: str, rows: Mapping[str, np.ndarray]) -> None:
        """The next rows of a table that `state` gave."""
        self._rows[name].append(rows)


def _joined(parts: list[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _check_like(name: str, found: np.ndarray, like: np.ndarray) -> None:
    """A ValueError if an array is none of that type and shape, or counts what nobody could."""
    if found.shape != like.shape or found.dtype != like.dtype:
        raise ValueError(f"it has {found.dtype} of shape {found.shape} for {name}")
    if like.dtype.kind == "i" and not ((found >= 0) & (found < 2**31)).all():
        raise ValueError(f"it has counts for {name} that nobody counted")


def _carry(row: Sequence[np.ndarray]) -> Carry:
    values: Any = (np.asarray(value) for value in row)
    return Carry(*(value.copy() if value.ndim else value.item() for value in values))
