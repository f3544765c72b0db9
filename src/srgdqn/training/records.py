"""What a chunk's log becomes: columns of tidy tables, computed on the host in double precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from srgdqn.learner import evaluations_per_iteration, queries_per_iteration
from srgdqn.settings import Configuration
from srgdqn.tasks import Success, Task
from srgdqn.training.clock import budget_of, limits_of, steps_within
from srgdqn.training.evaluation import Evaluation
from srgdqn.training.lane import LIVED, TERMINATED, TRUNCATED, BlockLog

Columns = dict[str, np.ndarray]
Tables = dict[str, Columns]

_DIAGNOSTICS = ("loss", "max_q", "delta_norm", "theta_norm")


class ChunkHistory(NamedTuple):
    """Everything the host heard from a chunk, with the lane axis first."""

    log: BlockLog
    evaluations: list[tuple[int, bool, Evaluation]]  # (blocks done, whether it is the last, results)
    diverged_at: np.ndarray
    timings: list[tuple[str, int, float]]  # (phase, steps, seconds)
    seats: np.ndarray | None = None  # of each step, which of the round's environments made it; None if there is one


class Endings(NamedTuple):
    """What the end of an episode means."""

    cut: Literal["truncated", "censored"]  # what one is called that did not terminate
    success: Success


class _RoundLog(NamedTuple):
    """One round's share of a log, cut at its budget."""

    reward: np.ndarray
    flags: np.ndarray
    seats: np.ndarray | None
    iteration_steps: np.ndarray  # environment steps at each outer iteration
    diagnostics: np.ndarray  # (outer iterations, 4)
    diverged_at: int | None

    @property
    def steps(self) -> int:
        return len(self.reward)


def endings_of(task: Task) -> Endings:
    """What the end of an episode of a task means."""
    return Endings("truncated" if task.time_limit is not None else "censored", task.success)


def chunk_tables(
    configuration: Configuration, endings: Endings, rounds: Sequence[int], history: ChunkHistory
) -> Tables:
    """The rows that the rounds of a chunk add to each table of the run."""
    logs = [_round_log(configuration, history, lane) for lane in range(len(rounds))]
    numbered = list(zip(rounds, logs, strict=True))
    phases, steps, seconds = zip(*history.timings, strict=True) if history.timings else ((), (), ())
    return {
        "curves": _stack([_curve_rows(configuration, number, log) for number, log in numbered]),
        "episodes": _stack([_episode_rows(endings, number, log) for number, log in numbered]),
        "evaluations": _evaluation_rows(configuration, endings, history, numbered),
        "rounds": _stack([_round_row(configuration, endings, number, log) for number, log in numbered]),
        "timings": {
            "first_round": np.full(len(phases), rounds[0], np.int32),
            "rounds": np.full(len(phases), len(rounds), np.int32),
            "phase": np.array(phases, str),
            "step": np.array(steps, np.int64),
            "seconds": np.array(seconds, np.float64),
        },
    }


def _round_log(configuration: Configuration, history: ChunkHistory, lane: int) -> _RoundLog:
    settings, log = configuration.training, history.log
    flags = np.asarray(log.flags[lane]).ravel()
    lived = int((flags & LIVED).astype(bool).sum())  # a lane that stops never starts again
    end = steps_within(budget_of(settings), (flags[:lived] & (TERMINATED | TRUNCATED)) > 0)
    limits = limits_of(settings)
    blocks = np.arange(lived // settings.learning_frequency)
    blocks = blocks[(blocks >= int(limits.first_learning)) & (blocks < int(limits.last_block))]
    diagnostics = np.stack([getattr(log, name)[lane, blocks] for name in _DIAGNOSTICS], axis=1)
    diverged = int(history.diverged_at[lane])
    return _RoundLog(
        np.asarray(log.reward[lane], np.float64).ravel()[:end],
        flags[:end],
        None if history.seats is None else history.seats[lane].ravel()[:end],
        # Under an episode budget the block in which the last episode ended still ended in an outer iteration.
        np.minimum((blocks + 1) * settings.learning_frequency, end),
        diagnostics.astype(np.float64),
        None if diverged < 0 else min(diverged, end),
    )


def _curve_rows(configuration: Configuration, number: int, log: _RoundLog) -> Columns:
    window = configuration.training.window
    edges = np.unique(np.append(np.arange(window, log.steps, window), log.steps))
    starts = np.append(0, edges[:-1])
    totals = np.add.reduceat(log.reward, starts)
    ends = np.flatnonzero(log.flags & (TERMINATED | TRUNCATED)) + 1
    made = np.searchsorted(log.iteration_steps, edges, side="right")
    means = _means(log.diagnostics, np.append(0, made[:-1]), made)
    return {
        "round": np.full(len(edges), number, np.int32),
        "step": edges.astype(np.int64),
        "reward": totals / (edges - starts),
        "reward_cumulative": np.cumsum(totals) / edges,
        "episodes": np.searchsorted(ends, edges, side="right").astype(np.int32),
        **{name: means[:, i] for i, name in enumerate(_DIAGNOSTICS)},
        "queries": made.astype(np.int64) * queries_per_iteration(configuration),
        "gradient_evaluations": made.astype(np.int64) * evaluations_per_iteration(configuration),
    }


def _means(values: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ma.MaskedArray:
    """The mean of the finite values of each range of rows, one range beginning where the last ended; masked if none.

    The iteration that diverged was discarded: its queries were spent, but its values are none to average.
    """
    finite = np.isfinite(values)
    sums, counts = np.zeros((2, len(starts), values.shape[1]))
    some = ends > starts
    if some.any():
        sums[some] = np.add.reduceat(np.where(finite, values, 0.0), starts[some])
        counts[some] = np.add.reduceat(finite, starts[some], dtype=float)
    return np.ma.array(sums, mask=counts == 0) / np.maximum(counts, 1)


def _episode_rows(endings: Endings, number: int, log: _RoundLog) -> Columns:
    ends, returns, lengths = _episodes(log)
    terminated = (log.flags[ends - 1] & TERMINATED).astype(bool)
    return {
        "round": np.full(len(ends), number, np.int32),
        "episode": np.arange(len(ends), dtype=np.int32),
        "step": ends.astype(np.int64),
        "return": returns,
        "length": lengths.astype(np.int32),
        "ending": np.where(terminated, "terminated", endings.cut),
        "success": _success(endings, terminated),
    }


def _episodes(log: _RoundLog) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of every ended episode, in the order of their ends: the round's steps by then, its return and its length."""
    order = np.arange(log.steps) if log.seats is None else np.argsort(log.seats, kind="stable")
    ended = (log.flags[order] & (TERMINATED | TRUNCATED)) > 0
    last = np.flatnonzero(ended)  # an environment's steps lie side by side in this order
    if not len(last):
        return np.zeros(0, int), np.zeros(0), np.zeros(0, int)
    begins = np.append(True, ended[:-1])
    if log.seats is not None:
        begins[1:] |= np.diff(log.seats[order]) != 0
    starts = np.flatnonzero(begins)
    first = starts[np.searchsorted(starts, last, side="right") - 1]
    # Sums between every two edges, of which those from an episode's first step to its last are kept.
    edges = np.unique(np.concatenate([starts, last + 1]))
    edges = edges[edges < log.steps]
    sums = np.add.reduceat(log.reward[order], edges)
    by_end = np.argsort(order[last], kind="stable")
    returns = sums[np.searchsorted(edges, first)]
    return order[last][by_end] + 1, returns[by_end], (last - first + 1)[by_end]


def _evaluation_rows(
    configuration: Configuration, endings: Endings, history: ChunkHistory, numbered: list[tuple[int, _RoundLog]]
) -> Columns:
    block = configuration.training.learning_frequency
    rows: list[Columns] = []
    for lane, (number, log) in enumerate(numbered):
        judged: set[int] = set()
        for blocks, last, results in history.evaluations:
            step = min(blocks * block, log.steps)
            stopped_before = log.steps <= (blocks - 1) * block
            if step in judged or (stopped_before and not last):
                continue
            judged.add(step)
            count = len(results.length[lane])
            rows.append(
                {
                    "round": np.full(count, number, np.int32),
                    "step": np.full(count, step, np.int64),
                    "episode": np.arange(count, dtype=np.int32),
                    "return": np.asarray(results.total_reward[lane], np.float64),
                    "length": np.asarray(results.length[lane], np.int32),
                    "success": _success(endings, np.asarray(results.terminated[lane])),
                }
            )
    return _stack(rows)


def _round_row(configuration: Configuration, endings: Endings, number: int, log: _RoundLog) -> Columns:
    made = len(log.iteration_steps)
    cut = int((log.flags & TRUNCATED).astype(bool).sum()) if endings.cut == "censored" else 0
    budget = budget_of(configuration.training)
    ended = int(((log.flags & (TERMINATED | TRUNCATED)) > 0).sum())
    spent = {"steps": log.steps, "outer_iterations": made, "episodes": ended}[budget.unit]
    return {
        "round": np.array([number], np.int32),
        "steps": np.array([log.steps], np.int64),
        "episodes": np.array([ended], np.int32),
        "outer_iterations": np.array([made], np.int64),
        "queries": np.array([made * queries_per_iteration(configuration)], np.int64),
        "gradient_evaluations": np.array([made * evaluations_per_iteration(configuration)], np.int64),
        "censored": np.array([cut], np.int32),
        "diverged_at": np.ma.array([log.diverged_at or 0], np.int64, mask=[log.diverged_at is None]),
        "completed": np.array([spent >= budget.amount and log.diverged_at is None]),
    }


def _success(endings: Endings, terminated: np.ndarray) -> np.ndarray:
    """Whether each episode succeeded, given whether it terminated; masked where the task has no such notion."""
    success = ~terminated if endings.success == "truncation" else terminated
    return np.ma.array(success, mask=np.full(len(success), endings.success == "none"))


def _stack(parts: list[Columns]) -> Columns:
    if not parts:
        return {}
    return {name: np.ma.concatenate([part[name] for part in parts]) for name in parts[0]}


def merge_tables(parts: list[Tables]) -> Tables:
    """The tables of several chunks as one; none if there are no chunks."""
    if not parts:
        return {}
    return {name: _stack([part[name] for part in parts if part[name]]) for name in parts[0]}
