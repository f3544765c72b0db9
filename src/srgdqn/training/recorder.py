"""Records the rounds of a chunk for tables and loggers alike; `window_rows` has the sums of windows and episodes.

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
from srgdqn.training.best_policies import Played
from srgdqn.training.budget import Budget
from srgdqn.training.direction_errors import DirectionErrors
from srgdqn.training.evaluation import Evaluation
from srgdqn.training.lane import STEPPED, TERMINATED, TRUNCATED, BlockLog
from srgdqn.training.tables import PHASES, Endings, Recorded, Tables, evaluated_at, tables_of
from srgdqn.training.window_rows import (
    EPISODES,
    Carry,
    Columns,
    LogSlice,
    OpenEpisodes,
    counted,
    curve_columns,
    digest,
    empty_carry,
    ended_episodes,
    means_of,
    open_window,
    rules_of,
)

PAGE_STEPS = 2**15
"""Steps of a round per page, rounded down to whole blocks: few enough to be stored in a checkpoint as they are."""

_FIRST_ROOM = 16  # rows
_UNLIMITED = 2**62
_DIRECTIONS: dict[str, npt.DTypeLike] = {"blocks": np.int64, "last": np.bool_}


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


class MeasuredDirection(NamedTuple):
    """How far a direction was from the gradient."""

    step: int  # environment steps trained before it was measured
    errors: DirectionErrors


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
    directions: tuple[MeasuredDirection, ...]
    loss: float  # means of the finite values; NaN if there are none
    max_q: float
    delta_norm: float
    theta_norm: float
    logged: dict[str, float]  # by the estimator, likewise


class _Unread:
    """What has been counted for the next news, with an axis of rounds."""

    def __init__(
        self, diagnostics: int, steps: Sequence[int], iterations: Sequence[int], episodes: Sequence[int]
    ) -> None:
        """After these counts so far, of outer iterations with so many diagnostics."""
        self.steps, self.iterations, self.episodes = (np.array(each) for each in (steps, iterations, episodes))
        rounds, self._diagnostics = len(self.steps), diagnostics
        self.evaluated_at = np.full(rounds, -1)
        self.open_from = np.zeros(rounds, int)  # where the open episode begins in the page, if there is one environment
        self.blocks = 0  # of the page that are counted
        self.measured_at = np.full(rounds, -1)
        self.evaluations, self.directions = 0, 0  # rows that are read
        self.clear()

    def clear(self) -> None:
        """Begins the next news."""
        rounds = len(self.steps)
        self.new_steps, self.reward = np.zeros(rounds, int), np.zeros(rounds)
        self.sums, self.counts = np.zeros((2, rounds, self._diagnostics))  # of the finite diagnostics
        self.ended: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # rounds, returns and lengths of episodes

    def add_episodes(self, lanes: np.ndarray, rows: Columns) -> None:
        """Adds those rows of episodes that are new, and whose return is known."""
        new = (rows["step"] > self.steps[lanes]) & ~np.isnan(rows["return"])
        self.ended.append((lanes[new], rows["return"][new], rows["length"][new].astype(np.int32)))


class Recorder:
    """Records the rounds of a chunk, whose configurations may differ in numbers alone."""

    def __init__(self, configuration: Configuration, endings: Endings, rounds: int) -> None:
        """Of so many rounds, whose budget, blocks, windows and environments are those of the configuration."""
        settings = configuration.training
        self._rules, self._endings = rules_of(configuration), endings
        self._page_blocks = max(1, PAGE_STEPS // settings.learning_frequency)
        self._carries = [empty_carry(self._rules, settings.environments) for _ in range(rounds)]
        self._digested = 0  # blocks
        self._waiting = 0  # blocks in the page that is not full
        self._page: Columns = {}  # their log, with the axes of rounds and of blocks first
        played = rounds, settings.evaluation_episodes
        measured = dict.fromkeys(DirectionErrors._fields, (np.float64, (rounds,)))
        self._rows = {
            "curves": GrowingRows({"lane": np.int32, **curve_columns(self._rules.diagnostics)}),
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
            **({"directions": GrowingRows(_DIRECTIONS | measured)} if settings.direction_errors else {}),
            "timings": GrowingRows({"phase": np.uint8, "step": np.int64, "seconds": np.float64}),
        }
        self._makes_tables = True
        self._unread = _Unread(len(self._rules.diagnostics), *np.zeros((3, rounds), int))
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
        block, environments = configuration.training.learning_frequency, configuration.training.environments
        recorder._rules = recorder._rules._replace(
            budget=Budget("steps", _UNLIMITED), window=_UNLIMITED, first_learning=first_learning, last_block=_UNLIMITED
        )
        carry = empty_carry(recorder._rules, environments)._replace(steps=blocks * block, iterations=iterations)
        recorder._carries = [
            carry._replace(open_returns=carry.open_returns * np.nan, open_lengths=carry.open_lengths + 1)
        ]
        recorder._unread = _Unread(len(recorder._rules.diagnostics), [blocks * block], [iterations], [0])
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
        diagnostics = {**log._asdict(), **log.logged}
        logged = {name: np.asarray(diagnostics[name]) for name in ("reward", "flags", *self._rules.diagnostics)}
        self._record(logged if environments is None else {**logged, "environments": environments})

    def record_evaluation(self, blocks: int, results: Evaluation, *, last: bool) -> None:
        """Records an evaluation of all rounds (which spare lanes may follow) after so many blocks."""
        rounds = len(self._carries)
        columns = {name: np.asarray(getattr(results, name))[None, :rounds] for name in Evaluation._fields}
        self._rows["evaluations"].append({"blocks": [blocks], "last": [last], **columns})

    def record_directions(self, blocks: int, errors: DirectionErrors, *, last: bool) -> None:
        """Records how far the directions of all rounds are from the gradient, after so many blocks."""
        columns = {name: column[None] for name, column in errors._asdict().items()}
        self._rows["directions"].append({"blocks": [blocks], "last": [last], **columns})

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
        after: list[Carry] = []
        for lane in range(len(self._carries)):
            carry, rows = self._digest(lane)
            after.append(carry)
            if rows:
                self._unread.add_episodes(np.full(len(rows["episodes"]["step"]), lane), rows["episodes"])
            for name, columns in rows.items() if self._makes_tables else ():
                self._rows[name].append({"lane": np.full(len(columns["step"]), lane, np.int32), **columns})
        self._count_news(with_episodes=False)
        self._carries, self._unread.blocks, self._unread.open_from[:] = after, 0, 0
        self._digested, self._waiting = self._digested + self._waiting, 0

    def _digest(self, lane: int) -> tuple[Carry, dict[str, Columns]]:
        """The carry of a round after the page so far, and the rows that end in it."""
        page = {name: part[lane, : self._waiting].reshape(-1) for name, part in self._page.items()}
        if not self._waiting or not page["flags"][0] & STEPPED:
            return self._carries[lane], {}
        after, curves, episodes = digest(
            self._rules,
            self._carries[lane],
            LogSlice(
                self._digested,
                page["reward"].astype(np.float64),
                page["flags"],
                np.stack([page[name] for name in self._rules.diagnostics], axis=1, dtype=np.float64),
                page.get("environments"),
            ),
        )
        return after, {"curves": curves, "episodes": episodes}

    # For the tables

    def tables(
        self,
        lanes: slice,
        rounds: Sequence[int],
        configuration: Configuration,
        diverged_at: np.ndarray,
        *,
        share: float = 1.0,
        played: Sequence[Played] | None = None,
    ) -> Tables:
        """The tables of some of the chunk's rounds, with their numbers, their configuration and their share of the
        time. `diverged_at` has an axis of all the chunk's rounds; `played` is of these rounds' policies, where the best
        are kept. Recording may go on afterwards.
        """
        chosen = range(*lanes.indices(len(self._carries)))
        curves, episodes = (self._closed(self._rows[name], chosen) for name in ("curves", "episodes"))
        recorded = []
        for place, lane in enumerate(chosen):
            carry, now = self._digest(lane)
            ended = [now] if now else []
            windows = [curves[place], *(rows["curves"] for rows in ended), open_window(self._rules, carry)]
            whole = [episodes[place], *(rows["episodes"] for rows in ended)]
            recorded.append(Recorded(carry, _joined(windows), _joined(whole), int(diverged_at[lane])))
        evaluations, timings = self._rows["evaluations"].read(), self._rows["timings"].read()
        evaluations |= {name: evaluations[name][:, chosen.start : chosen.stop] for name in Evaluation._fields}
        timings["seconds"] = timings["seconds"] * share
        directions = self._rows["directions"].read() if "directions" in self._rows else None
        if directions is not None:
            directions |= {name: directions[name][:, chosen.start : chosen.stop] for name in DirectionErrors._fields}
        return tables_of(configuration, self._endings, rounds, recorded, evaluations, timings, directions, played)

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
        self._count_news()
        unread, evaluations, rounds = self._unread, self._rows["evaluations"].read(), range(len(self._carries))
        means = means_of(unread.sums, unread.counts)
        nothing = (np.zeros(0, int), np.zeros(0), np.zeros(0, np.int32))
        lanes, *episodes = (np.concatenate(columns) for columns in zip(nothing, *unread.ended, strict=True))
        order = np.argsort(lanes, kind="stable")
        places = np.searchsorted(lanes[order], rounds[1:])
        returns, lengths = (np.split(column[order], places) for column in episodes)
        news = []
        for lane in rounds:
            step, steps, last = int(unread.steps[lane]), int(unread.new_steps[lane]), int(unread.evaluated_at[lane])
            made = [
                GreedyEpisodes(at, evaluations["total_reward"][row, lane], evaluations["length"][row, lane])
                for at, row in evaluated_at(evaluations, self._rules.block, step, first=unread.evaluations, before=last)
            ]
            if made:
                unread.evaluated_at[lane] = made[-1].step
            measured = self._new_directions(lane, step)
            loss, max_q, delta_norm, theta_norm, *others = means[lane].tolist()
            news.append(
                News(
                    step,
                    int(unread.episodes[lane]),
                    int(unread.iterations[lane]),
                    steps,
                    float(unread.reward[lane]) / steps if steps else np.nan,
                    returns[lane],
                    lengths[lane],
                    tuple(made),
                    tuple(measured),
                    loss,
                    max_q,
                    delta_norm,
                    theta_norm,
                    dict(zip(self._rules.diagnostics[4:], others, strict=True)),
                )
            )
        unread.evaluations = len(evaluations["blocks"])
        unread.directions = len(self._rows.get("directions", ()))
        unread.clear()
        return news

    def _new_directions(self, lane: int, step: int) -> list[MeasuredDirection]:
        """Those of a round after so many steps that nobody has read."""
        if "directions" not in self._rows:
            return []
        unread, rows, measured = self._unread, self._rows["directions"].read(), []
        last = int(unread.measured_at[lane])
        for at, row in evaluated_at(rows, self._rules.block, step, first=unread.directions, before=last):
            unread.measured_at[lane] = at
            errors = DirectionErrors(*(float(rows[name][row, lane]) for name in DirectionErrors._fields))
            if not np.isnan(errors.squared_norm):
                measured.append(MeasuredDirection(at, errors))
        return measured

    def _count_news(self, *, with_episodes: bool = True) -> None:
        """Counts the blocks of the page that are not counted yet; their episodes may have been added before."""
        unread, first, stop, block = self._unread, self._unread.blocks, self._waiting, self._rules.block
        if first == stop:
            return
        rounds, start = len(self._carries), first * block
        rewards, flags = (self._page[name][:, :stop].reshape(rounds, -1) for name in ("reward", "flags"))
        learned, after = np.zeros((rounds, stop - first), bool), unread.steps.copy()
        ended: dict[int, tuple[int, int]] = {}  # of lanes in which episodes ended: where to look for them in the page
        for lane in np.flatnonzero(flags[:, start] & STEPPED).tolist():
            steps, ends, blocks = counted(
                self._rules,
                int(unread.steps[lane]),
                int(unread.episodes[lane]),
                self._digested + first,
                flags[lane, start:],
            )
            if not steps:
                continue
            learned[lane, blocks - self._digested - first] = True
            unread.reward[lane] += rewards[lane, start : start + steps].sum(dtype=np.float64)
            if len(ends):
                ended[lane] = int(unread.open_from[lane]), start + steps
                if "environments" not in self._page:
                    unread.open_from[lane] = start + int(ends[-1]) + 1
            unread.new_steps[lane] += steps
            unread.episodes[lane] += len(ends)
            unread.iterations[lane] += self._rules.updates * len(blocks)
            after[lane] += steps
        if ended and with_episodes:
            unread.add_episodes(*self._ended(ended, rewards, flags))
        unread.steps, unread.blocks = after, stop
        for place, name in enumerate(self._rules.diagnostics):
            values = self._page[name][:, first:stop]
            finite = learned & np.isfinite(values)
            unread.sums[:, place] += values.sum(1, where=finite, dtype=np.float64)
            unread.counts[:, place] += finite.sum(1)

    def _ended(
        self, looked_at: dict[int, tuple[int, int]], rewards: np.ndarray, flags: np.ndarray
    ) -> tuple[np.ndarray, Columns]:
        """The rounds and the rows of episodes that ended in the page, between two places of each of these rounds. They
        are summed as `digest` does: from the beginning of the page or, if that is later, of the episode.
        """
        returns, lengths = (np.array([getattr(each, name) for each in self._carries]) for name in Carry._fields[-2:])
        count = lengths.shape[1]
        made_in = [np.full(stop - begin, lane * count) for lane, (begin, stop) in looked_at.items()]
        for place, (lane, (begin, stop)) in enumerate(looked_at.items()):
            if "environments" in self._page:
                made_in[place] += self._page["environments"][lane].reshape(-1)[begin:stop]
            if begin:  # nothing of an episode from before the page is open there
                returns[lane], lengths[lane] = 0.0, 0
        reward, flag = (
            np.concatenate([part[lane, begin:stop] for lane, (begin, stop) in looked_at.items()])
            for part in (rewards, flags)
        )
        open_ = OpenEpisodes(returns.ravel(), lengths.ravel())
        _, rows = ended_episodes(open_, reward.astype(np.float64), flag, np.concatenate(made_in))
        edges = np.cumsum([0, *map(len, made_in)])
        places = np.searchsorted(edges, rows["step"], side="left") - 1
        lanes = np.array(list(looked_at))[places]
        before = np.array([self._carries[lane].steps + begin for lane, (begin, _) in looked_at.items()])
        rows["step"] = rows["step"] - edges[places] + before[places]
        return lanes, rows

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
            counts = [(carry.steps, carry.iterations, carry.episodes) for carry in self._carries]
            self._unread = _Unread(len(self._rules.diagnostics), *zip(*counts, strict=True))
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
        kinds = {"reward": "f", "flags": "u", **dict.fromkeys(self._rules.diagnostics, "f")}
        if {*page} - {"environments"} != {*kinds}:
            raise ValueError("its page has other columns")
        for name, part in page.items():
            steps = () if name in self._rules.diagnostics else (self._rules.block,)
            if part.shape != (*blocks, *steps) or part.dtype.kind != kinds.get(name, "i"):
                raise ValueError(f"its page has {part.dtype} of shape {part.shape} for {name}")

    def take(self, name: str, first: int, rows: Rows) -> None:
        """Appends the next rows of a table that `state` gave; a ValueError if they cannot be such."""
        if first != len(self._rows[name]):
            raise ValueError(f"rows from {first} on of {name}, of which there are {len(self._rows[name])}")
        if name in ("evaluations", "directions") and (rows["blocks"] >= 2**31).any():
            raise ValueError(f"{name} after more blocks than there can be")
        if name == "timings" and ((rows["phase"] >= len(PHASES)).any() or not np.isfinite(rows["seconds"]).all()):
            raise ValueError("timings of unknown phases or without finite seconds")
        self._rows[name].check(rows)
        self._rows[name].append(rows)


def _joined(parts: list[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _check_like(name: str, found: np.ndarray, like: np.ndarray) -> None:
    """Raises a ValueError if an array has another type or shape, or impossible counts."""
    if found.shape != like.shape or found.dtype != like.dtype:
        raise ValueError(f"it has {found.dtype} of shape {found.shape} for {name}")
    if like.dtype.kind == "i" and not ((found >= 0) & (found < 2**31)).all():
        raise ValueError(f"it has impossible counts for {name}")


def _carry(row: Sequence[np.ndarray]) -> Carry:
    values: Any = (np.asarray(value) for value in row)
    return Carry(*(value.copy() if value.ndim else value.item() for value in values))
