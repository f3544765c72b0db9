"""Tidy tables from what was recorded of rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from srgdqn.config import Configuration
from srgdqn.learner.outer_iteration import evaluations_per_iteration, logged_columns, queries_per_iteration
from srgdqn.tasks import Success, Task
from srgdqn.training.best_policies import Played
from srgdqn.training.budget import budget_of
from srgdqn.training.direction_errors import DirectionErrors
from srgdqn.training.window_rows import DIAGNOSTICS, Carry, Columns

Tables = dict[str, Columns]

PHASES = ("compile", "train", "evaluate", "checkpoint", "measure")
"""What time is spent on; recorded as places in this tuple."""


class Endings(NamedTuple):
    """What the end of an episode means."""

    cut: Literal["truncated", "censored"]  # the name of an end without termination
    success: Success


class Recorded(NamedTuple):
    """The rows of one round."""

    carry: Carry
    curves: Columns  # `window_rows.CURVES`
    episodes: Columns  # `window_rows.EPISODES`
    diverged_at: int  # -1 if it did not


def endings_of(task: Task) -> Endings:
    """What the end of an episode of a task means."""
    return Endings("truncated" if task.time_limit is not None else "censored", task.success)


def tables_of(
    configuration: Configuration,
    endings: Endings,
    rounds: Sequence[int],
    recorded: Sequence[Recorded],
    evaluations: Columns,
    timings: Columns,
    directions: Columns | None = None,
    played: Sequence[Played] | None = None,
) -> Tables:
    """The tables of some rounds; `evaluations`, `timings` and `directions` have the columns of the recorder's rows."""
    numbered = list(zip(rounds, recorded, strict=True))
    steps = [(number, one.carry.steps) for number, one in numbered]
    count = len(timings["step"])
    return {
        "curves": _stack([_curve_rows(configuration, number, one) for number, one in numbered]),
        "episodes": _stack([_episode_rows(endings, number, one) for number, one in numbered]),
        "evaluations": _evaluation_rows(configuration, endings, evaluations, numbered),
        "rounds": _stack([_round_row(configuration, endings, number, one) for number, one in numbered]),
        "timings": {
            "first_round": np.full(count, rounds[0], np.int32),
            "rounds": np.full(count, len(rounds), np.int32),
            "phase": np.array([PHASES[phase] for phase in timings["phase"]], str),
            "step": timings["step"],
            "seconds": timings["seconds"],
        },
        **({} if directions is None else {"directions": _direction_rows(configuration, directions, numbered)}),
        **({} if played is None else {"policies": policy_rows(configuration, endings, played, steps)}),
    }


def _curve_rows(configuration: Configuration, number: int, one: Recorded) -> Columns:
    rows = one.curves
    made = rows["iterations"]
    return {
        "round": np.full(len(made), number, np.int32),
        "step": rows["step"],
        "reward": rows["reward"],
        "reward_cumulative": rows["reward_cumulative"],
        "episodes": rows["episodes"].astype(np.int32),
        **{name: np.ma.masked_invalid(rows[name], copy=False) for name in DIAGNOSTICS},
        "queries": made * queries_per_iteration(configuration),
        "gradient_evaluations": made * evaluations_per_iteration(configuration),
        **{name: np.ma.masked_invalid(rows[name], copy=False) for name in logged_columns(configuration)},
    }


def _episode_rows(endings: Endings, number: int, one: Recorded) -> Columns:
    rows = one.episodes
    terminated = rows["terminated"]
    return {
        "round": np.full(len(terminated), number, np.int32),
        "episode": np.arange(len(terminated), dtype=np.int32),
        "step": rows["step"],
        "return": rows["return"],
        "length": rows["length"].astype(np.int32),
        "ending": np.where(terminated, "terminated", endings.cut),
        "success": _success(endings, terminated),
    }


def _evaluation_rows(
    configuration: Configuration, endings: Endings, evaluations: Columns, numbered: list[tuple[int, Recorded]]
) -> Columns:
    rows: list[Columns] = []
    for lane, (number, one) in enumerate(numbered):
        for step, row in evaluated_at(evaluations, configuration.training.learning_frequency, one.carry.steps):
            count = len(evaluations["length"][row, lane])
            rows.append(
                {
                    "round": np.full(count, number, np.int32),
                    "step": np.full(count, step, np.int64),
                    "episode": np.arange(count, dtype=np.int32),
                    "return": evaluations["total_reward"][row, lane],
                    "length": evaluations["length"][row, lane],
                    "success": _success(endings, evaluations["terminated"][row, lane]),
                }
            )
    return _stack(rows)


def _direction_rows(configuration: Configuration, directions: Columns, numbered: list[tuple[int, Recorded]]) -> Columns:
    """Rows of rounds that were measured; masked where a value is not finite."""
    rows: list[Columns] = []
    for lane, (number, one) in enumerate(numbered):
        for step, row in evaluated_at(directions, configuration.training.learning_frequency, one.carry.steps):
            errors = DirectionErrors(*(directions[name][row, lane] for name in DirectionErrors._fields))
            if not np.isnan(errors.squared_norm):
                values = {name: np.ma.masked_invalid([value]) for name, value in errors._asdict().items()}
                rows.append({"round": np.array([number], np.int32), "step": np.array([step], np.int64), **values})
    return _stack(rows)


def policy_rows(
    configuration: Configuration, endings: Endings, played: Sequence[Played], rounds: Sequence[tuple[int, int]]
) -> Columns:
    """A row per round (its number, and its steps) and policy; masked where nothing was played, and where no evaluation
    chose it.
    """
    rows: list[Columns] = []
    block = configuration.training.learning_frequency
    for lane, (number, steps) in enumerate(rounds):
        for each in played:
            count, means = 0, (np.nan,) * 3
            if each.evaluation is not None:
                returns, lengths, terminated = (np.asarray(column)[lane] for column in each.evaluation)
                success = np.ma.filled(_success(endings, terminated).astype(float), np.nan)
                count, means = len(returns), (returns.mean(dtype=np.float64), lengths.mean(), success.mean())
            came_to = dict(zip(("fresh_return", "fresh_length", "fresh_success"), means, strict=True))
            rows.append(
                {
                    "round": np.array([number], np.int32),
                    "policy": np.array([each.policy]),
                    "step": np.array([min(int(each.blocks[lane]) * block, steps)], np.int64),
                    "chosen_by": np.ma.masked_invalid([each.means[lane]]),
                    "fresh_episodes": np.array([count], np.int32),
                    **{name: np.ma.masked_invalid([value]) for name, value in came_to.items()},
                }
            )
    return _stack(rows)


def evaluated_at(
    evaluations: Columns, block: int, steps: int, *, first: int = 0, before: int = -1
) -> Iterator[tuple[int, int]]:
    """The step and the row of each evaluation, from row `first` on, of a round that has made so many steps and was last
    evaluated at step `before`.

    A state is evaluated once: that of a round that stopped early only at the end of the chunk.
    """
    for row in range(first, len(evaluations["blocks"])):
        blocks = int(evaluations["blocks"][row])
        step = min(blocks * block, steps)
        stopped_before = steps <= (blocks - 1) * block
        if step != before and (evaluations["last"][row] or not stopped_before):
            before = step
            yield step, row


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
