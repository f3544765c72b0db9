"""What was recorded of rounds, as columns of tidy tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from srgdqn.config import Configuration
from srgdqn.learner.outer_iteration import evaluations_per_iteration, queries_per_iteration
from srgdqn.tasks import Success, Task
from srgdqn.training.clock import budget_of
from srgdqn.training.evaluation import Evaluation
from srgdqn.training.window_rows import DIAGNOSTICS, Carry, Columns

Tables = dict[str, Columns]


class Endings(NamedTuple):
    """What the end of an episode means."""

    cut: Literal["truncated", "censored"]  # what one is called that did not terminate
    success: Success


class Recorded(NamedTuple):
    """What was recorded of one round."""

    carry: Carry
    curves: Columns  # the columns of `pages.CURVES`,
    episodes: Columns  # and those of `pages.EPISODES`
    diverged_at: int  # -1 if it did not

    @property
    def steps(self) -> int:
        """Within its budget."""
        return self.carry.steps


def endings_of(task: Task) -> Endings:
    """What the end of an episode of a task means."""
    return Endings("truncated" if task.time_limit is not None else "censored", task.success)


def tables_of(
    configuration: Configuration,
    endings: Endings,
    rounds: Sequence[int],
    recorded: Sequence[Recorded],
    evaluations: Sequence[tuple[int, bool, Evaluation]],
    timings: Sequence[tuple[str, int, float]],
) -> Tables:
    """The tables of some rounds. `evaluations` (blocks done, whether it is the last, results) have an axis of them."""
    numbered = list(zip(rounds, recorded, strict=True))
    phases, steps, seconds = zip(*timings, strict=True) if timings else ((), (), ())
    return {
        "curves": _stack([_curve_rows(configuration, number, one) for number, one in numbered]),
        "episodes": _stack([_episode_rows(endings, number, one) for number, one in numbered]),
        "evaluations": _evaluation_rows(configuration, endings, evaluations, numbered),
        "rounds": _stack([_round_row(configuration, endings, number, one) for number, one in numbered]),
        "timings": {
            "first_round": np.full(len(phases), rounds[0], np.int32),
            "rounds": np.full(len(phases), len(rounds), np.int32),
            "phase": np.array(phases, str),
            "step": np.array(steps, np.int64),
            "seconds": np.array(seconds, np.float64),
        },
    }


def _curve_rows(configuration: Configuration, number: int, one: Recorded) -> Columns:
    kept = one.curves
    made = kept["iterations"]
    return {
        "round": np.full(len(made), number, np.int32),
        "step": kept["step"],
        "reward": kept["reward"],
        "reward_cumulative": kept["reward_cumulative"],
        "episodes": kept["episodes"].astype(np.int32),
        **{name: np.ma.masked_invalid(kept[name], copy=False) for name in DIAGNOSTICS},
        "queries": made * queries_per_iteration(configuration),
        "gradient_evaluations": made * evaluations_per_iteration(configuration),
    }


def _episode_rows(endings: Endings, number: int, one: Recorded) -> Columns:
    kept = one.episodes
    terminated = kept["terminated"]
    return {
        "round": np.full(len(terminated), number, np.int32),
        "episode": np.arange(len(terminated), dtype=np.int32),
        "step": kept["step"],
        "return": kept["return"],
        "length": kept["length"].astype(np.int32),
        "ending": np.where(terminated, "terminated", endings.cut),
        "success": _success(endings, terminated),
    }


def _evaluation_rows(
    configuration: Configuration,
    endings: Endings,
    evaluations: Sequence[tuple[int, bool, Evaluation]],
    numbered: list[tuple[int, Recorded]],
) -> Columns:
    block = configuration.training.learning_frequency
    rows: list[Columns] = []
    for lane, (number, one) in enumerate(numbered):
        judged: set[int] = set()
        for blocks, last, results in evaluations:
            step = min(blocks * block, one.steps)
            stopped_before = one.steps <= (blocks - 1) * block
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


def _round_row(configuration: Configuration, endings: Endings, number: int, one: Recorded) -> Columns:
    carry, budget = one.carry, budget_of(configuration.training)
    diverged = one.diverged_at >= 0
    spent = {"steps": carry.steps, "outer_iterations": carry.iterations, "episodes": carry.episodes}[budget.unit]
    cut = carry.truncated if endings.cut == "censored" else 0
    return {
        "round": np.array([number], np.int32),
        "steps": np.array([carry.steps], np.int64),
        "episodes": np.array([carry.episodes], np.int32),
        "outer_iterations": np.array([carry.iterations], np.int64),
        "queries": np.array([carry.iterations * queries_per_iteration(configuration)], np.int64),
        "gradient_evaluations": np.array([carry.iterations * evaluations_per_iteration(configuration)], np.int64),
        "censored": np.array([cut], np.int32),
        "diverged_at": np.ma.array([min(one.diverged_at, carry.steps)], np.int64, mask=[not diverged]),
        "completed": np.array([spent >= budget.amount and not diverged]),
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
