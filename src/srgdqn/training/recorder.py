"""Records the rounds of a chunk: the one place where windows, episodes and diagnostics are computed, for the tables and
for the reports to loggers.

A chunk's log becomes rows page by page; nothing of a step is stored once its page is full. The rows depend neither on
how the log was cut into segments nor on where recording was interrupted and resumed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from srgdqn.config import Configuration
from srgdqn.errors import InputError
from srgdqn.runs.snapshots import Rows, Stream, Tensors
from srgdqn.training.budget import Budget
from srgdqn.training.evaluation import Evaluation
from srgdqn.training.lane import STEPPED, TERMINATED, TRUNCATED, BlockLog
from srgdqn.training.tables import PHASES, Endings, Recorded, Tables, evaluated_at, tables_of
from srgdqn.training.window_rows import (
    CURVES,
    DIAGNOSTICS,
    EPISODES,
    Carry,
    Columns,
    LogSlice,
    digest,
    empty_carry,
    means_of,
    new_window,
    no_rows,
    open_window,
    rules_of,
)

PAGE_STEPS = 2**15
"""Steps of a round per page, rounded down to whole blocks: few enough to be stored in a checkpoint as they are."""

_LOGGED = ("reward", "flags", *DIAGNOSTICS)
_FIRST_ROOM = 16  # rows
_UNLIMITED = 2**62


class GrowingRows:
    """Columns that grow together, in arrays that double whenever they are full."""

    def __init__(self, kinds: Mapping[str, npt.DTypeLike]) -> None:
        """With the type of each column's elements, which may be arrays."""
        self._kinds = {name: np.dtype(kind) for name, kind in kinds.items()}
        self._columns = {name: np.zeros(_FIRST_ROOM, kind) for name, kind in self._kinds.items()}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, rows: Mapping[str, Any]) -> None:
        """Appends rows, of which every column has as many."""
        [count] = {len(rows[name]) for name in self._columns}
        stop = self._count + count
        for name, column in self._columns.items():
            if stop > len(column):
                grown = np.zeros(max(stop, 2 * len(column)), self._kinds[name])
                grown[: self._count] = column[: self._count]
                self._columns[name] = column = grown
            column[self._count : stop] = rows[name]
        self._count = stop

    def check(self, rows: Mapping[str, np.ndarray]) -> None:
        """Raises a ValueError if rows from a file have other types or shapes, or negative counts."""
        for name, kind in self._kinds.items():
            column = rows[name]
            if column.dtype != kind.base or column.shape[1:] != kind.shape:
                raise ValueError(f"it has {column.dtype} of shape {column.shape} for {name}")
            if kind.base.kind == "i" and not (column >= 0).all():
                raise ValueError(f"it has negative counts for {name}")

    def read(self, start: int = 0, stop: int = _UNLIMITED) -> dict[str, np.ndarray]:
        """The rows between two numbers, as views that later rows do not change."""
        return {name: column[start : min(stop, self._count)] for name, column in self._columns.items()}


class GreedyEpisodes(NamedTuple):
    """One greedy evaluation on the raw reward."""

    step: int  # environment steps trained before it
    returns: np.ndarray
    lengths: np.ndarray


class News(NamedTuple):
    """What one round did since it was last asked about, and its counts so far."""

    step: int  # so far
    episodes: int  # so far
    outer_iterations: int  # so far
    steps: int
    reward: float  # their mean; NaN if there were none
    returns: np.ndarray  # of the episodes that ended
    lengths: np.ndarray
    evaluations: tuple[GreedyEpisodes, ...]
    loss: float  # means of the finite values; NaN if there are none
    max_q: float
    delta_norm: float
    theta_norm: float


class Recorder:
    """Records the rounds of a chunk, whose configurations may differ in numbers alone."""

    def __init__(self, configuration: Configuration, endings: Endings, rounds: int) -> None:
        """Of so many rounds, whose budget, blocks, windows and environments are those of the configuration."""
        settings = configuration.training
        self._rules, self._endings = rules_of(settings), endings
        self._page_blocks = max(1, PAGE_STEPS // settings.learning_frequency)
        self._carries = [empty_carry(settings.environments) for _ in range(rounds)]
        self._digested = 0  # blocks
        self._waiting = 0  # blocks in the page that is not full
        self._page: Columns = {}  # their log, with the axes of rounds and of blocks first
        played = rounds, settings.evaluation_episodes
        self._rows = {
            "curves": GrowingRows({"lane": np.int32, **CURVES}),
            "episodes": GrowingRows({"lane": np.int32, **EPISODES}),
            "evaluations": GrowingRows(
                {
                    "blocks": np.int64,
                    "last": np.bool_,
                    "total_reward": (np.float64, played),
                    "length": (np.int32, played),
                    "terminated": (np.bool_, played),
                }
            ),
            "timings": GrowingRows({"phase": np.uint8, "step": np.int64, "seconds": np.float64}),
        }
        self._makes_tables = True
        # What each round did since it was last asked about, as the carry of one window without end.
        self._unread = [empty_carry(settings.environments) for _ in range(rounds)]
        self._ended: list[list[Columns]] = [[] for _ in range(rounds)]  # episodes since then
        self._known_steps = [0] * rounds  # made by then
        self._counted = 0  # blocks of the page that are in these
        self._known_evaluations = 0  # rows that are read
        self._evaluated_at = [-1] * rounds
        self._since = (0, 0.0)  # steps and rewards since `totals` was last called
        self.episodes = 0
        """Episodes ended in all rounds."""

    @classmethod
    def for_reports(
        cls, configuration: Configuration, endings: Endings, *, blocks: int, first_learning: int, iterations: int
    ) -> Recorder:
        """A recorder of one round without tables, that begins after so many blocks and outer iterations, whatever the
        budget; the returns of episodes that are open then are unknown, and not reported.
        """
        recorder = cls(configuration, endings, 1)
        steps = blocks * configuration.training.learning_frequency
        recorder._rules = recorder._rules._replace(
            budget=Budget("steps", _UNLIMITED), first_learning=first_learning, last_block=_UNLIMITED
        )
        carry = recorder._unread[0]._replace(steps=steps, iterations=iterations)
        recorder._unread = [
            carry._replace(open_returns=carry.open_returns * np.nan, open_lengths=carry.open_lengths + 1)
        ]
        recorder._known_steps = [steps]
        recorder._digested, recorder._makes_tables = blocks, False
        return recorder

    @property
    def blocks(self) -> int:
        """The blocks recorded."""
        return self._digested + self._waiting

    @property
    def steps(self) -> int:
        """The steps of these blocks, in every round."""
        return self.blocks * self._rules.block

    def record(self, log: BlockLog, environments: np.ndarray | None = None) -> None:
        """Records the next blocks of all rounds, with the axes of rounds (which spare lanes may follow) and of blocks
        first. `environments` are the environments that made each step, where a round has several.
        """
        logged = {name: np.asarray(getattr(log, name)) for name in _LOGGED}
        self._record(logged if environments is None else {**logged, "environments": environments})

    def record_evaluation(self, blocks: int, results: Evaluation, *, last: bool) -> None:
        """Records an evaluation of all rounds (which spare lanes may follow) after so many blocks."""
        rounds = len(self._carries)
        columns = {name: np.asarray(getattr(results, name))[None, :rounds] for name in Evaluation._fields}
        self._rows["evaluations"].append({"blocks": [blocks], "last": [last], **columns})

    def record_time(self, phase: str, step: int, seconds: float) -> None:
        """Records how long a phase took."""
        self._rows["timings"].append({"phase": [PHASES.index(phase)], "step": [step], "seconds": [seconds]})

    def _record(self, logged: Mapping[str, np.ndarray]) -> None:
        rounds, start, stop = len(self._carries), 0, logged["flags"].shape[1]
        self._add_to_totals(logged["reward"][:rounds], logged["flags"][:rounds])
        if not self._page:
            self._page = {
                name: np.empty((rounds, self._page_blocks, *part.shape[2:]), part.dtype)
                for name, part in logged.items()
            }
        while start < stop:
            count = min(stop - start, self._page_blocks - self._waiting)
            for name, part in logged.items():
                self._page[name][:, self._waiting : self._waiting + count] = part[:rounds, start : start + count]
            self._waiting += count
            start += count
            if self._waiting == self._page_blocks:
                self._turn_page()

    def _turn_page(self) -> None:
        for lane in range(len(self._carries)):
            page = self._blocks_of(lane, 0)
            self._count_unread(lane, self._blocks_of(lane, self._counted) if self._counted else page)
            if not self._makes_tables:
                continue
            self._carries[lane], *rows = digest(self._rules, self._carries[lane], page)
            for name, columns in zip(("curves", "episodes"), rows, strict=True):
                self._rows[name].append({"lane": np.full(len(columns["step"]), lane, np.int32), **columns})
        self._digested, self._waiting, self._counted = self._digested + self._waiting, 0, 0

    def _blocks_of(self, lane: int, first: int) -> LogSlice:
        """The blocks of a round in the page, from `first` on."""
        page = {name: part[lane, first : self._waiting].reshape(-1) for name, part in self._page.items()}
        return LogSlice(
            self._digested + first,
            page["reward"].astype(np.float64),
            page["flags"],
            np.stack([page[name] for name in DIAGNOSTICS], axis=1, dtype=np.float64),
            page.get("environments"),
        )

    # For the tables

    def tables(
        self,
        lanes: slice,
        rounds: Sequence[int],
        configuration: Configuration,
        diverged_at: np.ndarray,
        *,
        share: float = 1.0,
    ) -> Tables:
        """The tables of some of the chunk's rounds, with their numbers, their configuration and their share of the
        time. `diverged_at` has an axis of all the chunk's rounds. Recording may go on afterwards.
        """
        chosen = range(*lanes.indices(len(self._carries)))
        curves, episodes = (self._closed(self._rows[name], chosen) for name in ("curves", "episodes"))
        recorded = []
        for place, lane in enumerate(chosen):
            carry, windows, ended = self._carries[lane], {}, {}
            if self._waiting:
                carry, windows, ended = digest(self._rules, carry, self._blocks_of(lane, 0))
            windows = _joined([curves[place], windows, open_window(self._rules, carry)])
            recorded.append(Recorded(carry, windows, _joined([episodes[place], ended]), int(diverged_at[lane])))
        evaluations, timings = self._rows["evaluations"].read(), self._rows["timings"].read()
        evaluations |= {name: evaluations[name][:, chosen.start : chosen.stop] for name in Evaluation._fields}
        timings["seconds"] = timings["seconds"] * share
        return tables_of(configuration, self._endings, rounds, recorded, evaluations, timings)

    @staticmethod
    def _closed(rows: GrowingRows, lanes: range) -> list[Columns]:
        """The rows of each of some rounds, in the order in which they came."""
        columns = rows.read()
        lane = columns.pop("lane")
        chosen = np.flatnonzero((lane >= lanes.start) & (lane < lanes.stop))
        chosen = chosen[np.argsort(lane[chosen], kind="stable")]
        parts = np.split(chosen, np.searchsorted(lane[chosen], np.arange(lanes.start + 1, lanes.stop)))
        return [{name: column[part] for name, column in columns.items()} for part in parts]

    # For progress and reports

    def _add_to_totals(self, reward: np.ndarray, flags: np.ndarray) -> None:
        active = (flags & STEPPED) > 0
        steps, rewards = self._since
        self._since = steps + int(active.sum()), rewards + float(reward.sum(where=active, dtype=np.float64))
        self.episodes += int((active & ((flags & (TERMINATED | TRUNCATED)) > 0)).sum())

    def totals(self) -> tuple[int, float]:
        """The steps of all rounds since the last call, and their mean reward (NaN if there were none)."""
        (steps, rewards), self._since = self._since, (0, 0.0)
        return steps, rewards / steps if steps else np.nan

    def news(self) -> list[News]:
        """What each round did since the last call."""
        if self._counted < self._waiting:
            for lane in range(len(self._carries)):
                self._count_unread(lane, self._blocks_of(lane, self._counted))
            self._counted = self._waiting
        evaluations, news = self._rows["evaluations"].read(), []
        for lane, carry in enumerate(self._unread):
            steps, self._known_steps[lane] = carry.steps - self._known_steps[lane], carry.steps
            ended, self._ended[lane] = _joined([no_rows(EPISODES), *self._ended[lane]]), []
            known = ~np.isnan(ended["return"])
            made = [
                GreedyEpisodes(at, evaluations["total_reward"][row, lane], evaluations["length"][row, lane])
                for at, row in evaluated_at(
                    evaluations,
                    self._rules.block,
                    carry.steps,
                    first=self._known_evaluations,
                    before=self._evaluated_at[lane],
                )
            ]
            if made:
                self._evaluated_at[lane] = made[-1].step
            news.append(
                News(
                    carry.steps,
                    carry.episodes,
                    carry.iterations,
                    steps,
                    carry.window_reward / steps if steps else np.nan,
                    ended["return"][known],
                    ended["length"][known].astype(np.int32),
                    tuple(made),
                    *means_of(carry.window_sums, carry.window_counts).tolist(),
                )
            )
            self._unread[lane] = new_window(carry)
        self._known_evaluations = len(evaluations["blocks"])
        return news

    def _count_unread(self, lane: int, log: LogSlice) -> None:
        """Counts blocks of a round that are not counted yet."""
        rules = self._rules._replace(window=_UNLIMITED)
        self._unread[lane], _, episodes = digest(rules, self._unread[lane], log)
        if len(episodes["step"]):
            self._ended[lane].append(episodes)

    # For checkpoints

    def state(self) -> tuple[Tensors, dict[str, Stream]]:
        """What `restore` and `take` need to resume from here: arrays that stay small, and rows that only grow."""
        columns = zip(Carry._fields, zip(*self._carries, strict=True), strict=True)
        arrays = {f"carry.{name}": np.array(column) for name, column in columns}
        arrays["digested"] = np.array(self._digested)
        arrays |= {f"page.{name}": part[:, : self._waiting].copy() for name, part in self._page.items()}
        return arrays, {name: Stream(0, len(rows), rows.read) for name, rows in self._rows.items()}

    def restore(self, arrays: Tensors) -> None:
        """Resumes, as a new recorder, from the arrays of `state`; all its rows are given to `take`."""
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
            self._unread = [new_window(carry) for carry in self._carries]
            self._known_steps = [carry.steps for carry in self._carries]
            self.episodes = sum(carry.episodes for carry in self._carries)
            page = {name[len("page.") :]: part for name, part in arrays.items() if name.startswith("page.")}
            if page:
                self._check_page(page)
                self._record(page)
            self._since = (0, 0.0)
        except (KeyError, ValueError) as error:
            raise InputError(f"its records do not fit this configuration ({error})") from error

    def _check_page(self, page: Mapping[str, np.ndarray]) -> None:
        blocks = page["flags"].shape[:2]
        if blocks[:1] != (len(self._carries),) or not blocks[1:] < (self._page_blocks,):
            raise ValueError(f"its page has (rounds, blocks) of {blocks}")
        kinds = {"reward": "f", "flags": "u", **dict.fromkeys(DIAGNOSTICS, "f")}
        if {*page} - {"environments"} != {*kinds}:
            raise ValueError("its page has other columns")
        for name, part in page.items():
            steps = () if name in DIAGNOSTICS else (self._rules.block,)
            if part.shape != (*blocks, *steps) or part.dtype.kind != kinds.get(name, "i"):
                raise ValueError(f"its page has {part.dtype} of shape {part.shape} for {name}")

    def take(self, name: str, first: int, rows: Rows) -> None:
        """Appends the next rows of a table that `state` gave; a ValueError if they cannot be such."""
        if first != len(self._rows[name]):
            raise ValueError(f"rows from {first} on of {name}, of which there are {len(self._rows[name])}")
        if name == "evaluations" and (rows["blocks"] >= 2**31).any():
            raise ValueError("evaluations after more blocks than there can be")
        if name == "timings" and ((rows["phase"] >= len(PHASES)).any() or not np.isfinite(rows["seconds"]).all()):
            raise ValueError("timings of unknown phases or without finite seconds")
        self._rows[name].check(rows)
        self._rows[name].append(rows)


def _joined(parts: list[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts if part]) for name in parts[0]}


def _check_like(name: str, found: np.ndarray, like: np.ndarray) -> None:
    """Raises a ValueError if an array has another type or shape, or impossible counts."""
    if found.shape != like.shape or found.dtype != like.dtype:
        raise ValueError(f"it has {found.dtype} of shape {found.shape} for {name}")
    if like.dtype.kind == "i" and not ((found >= 0) & (found < 2**31)).all():
        raise ValueError(f"it has impossible counts for {name}")


def _carry(row: Sequence[np.ndarray]) -> Carry:
    values: Any = (np.asarray(value) for value in row)
    return Carry(*(value.copy() if value.ndim else value.item() for value in values))
