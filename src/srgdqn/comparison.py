"""What runs came to, side by side: statistics over rounds, and learning curves with their bands.

The *final stretch* of a run is what lies after 80 % of its budget, in the budget's own unit: the last 20 % of the
windows. A round that never got there (it diverged, or was interrupted) has no final value; it is left out of that
statistic, and counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from srgdqn.algorithms import ALGORITHMS
from srgdqn.errors import InputError, unknown
from srgdqn.presets import PRESETS
from srgdqn.readings import READINGS
from srgdqn.result import Result
from srgdqn.settings import Configuration
from srgdqn.settings.checks import BUDGETS
from srgdqn.statistics import bootstrap_interval, iqm

Axis = Literal["episodes", "steps", "queries", "seconds"]
AXES: tuple[Axis, ...] = ("episodes", "steps", "queries", "seconds")

SMOOTHING = 10
"""Episodes averaged into one point of a curve of returns: each with those before it."""


@dataclass(frozen=True)
class Spread:
    """One value per round, summarised. Everything but `rounds` is None where no round has a value."""

    rounds: int
    """Rounds that have a value."""
    mean: float | None = None
    low: float | None = None
    """Lower bound of the mean's 95 % bootstrap interval (None for a single round)."""
    high: float | None = None
    """Upper bound."""
    iqm: float | None = None
    """Interquartile mean."""
    sd: float | None = None
    """Standard deviation over rounds (None for a single round)."""


@dataclass(frozen=True)
class Summary:
    """What a run came to."""

    label: str
    """What tells it from the other runs of a comparison."""
    task: str
    algorithm: str
    readings: str
    rounds: int
    """Rounds that ran."""
    planned: int
    """Rounds that were asked for."""
    interrupted: bool
    diverged: dict[int, int]
    """The rounds that went non-finite, and the environment step of each."""
    censored: int
    """Episodes cut at the cap, over all rounds."""
    reward: Spread
    """Mean reward per action in the final stretch."""
    last_reward: Spread
    """Mean reward per action in the last window that a round has, wherever that is."""
    episode_return: Spread
    """Mean return of the training episodes that ended in the final stretch."""
    episode_length: Spread
    """Their mean length."""
    greedy_return: Spread
    """Mean return of the last greedy evaluation, on the raw reward, of the rounds that reached the final stretch."""
    greedy_length: Spread
    """The mean length of its episodes."""
    success: Spread
    """The share of its episodes that succeeded."""
    steps: int
    """Environment steps, over all rounds."""
    queries: float | None
    """Gradient queries by the estimator's formula: mean over rounds."""
    gradient_evaluations: float | None
    """Gradient evaluations really done: mean over rounds."""
    seconds: float | None
    """Training seconds per round, as `seconds_at` shares them out."""

    @property
    def entered(self) -> int:
        """Rounds that reached the final stretch."""
        return self.reward.rounds

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values that JSON can hold."""
        return {**asdict(self), "diverged": [{"round": k, "step": step} for k, step in self.diverged.items()]}


def summarise(result: Result, label: str | None = None) -> Summary:
    """What a run came to.

    Windows count by their steps, so that a shorter last window weighs less.
    """
    configuration, rounds = result.configuration, result.rounds
    windows = _windows(result)
    final = windows.filter(_is_final(configuration, "step", "episodes"))
    reached = final["round"].unique()
    episodes = result.episodes.filter(
        _is_final(configuration, "step", (pl.col("episode") + 1)) & pl.col("return").is_finite()
    )
    judged = _last_evaluations(result).filter(pl.col("round").is_in(reached.implode()))
    last = windows.filter(pl.col("step") == pl.col("step").max().over("round"))
    diverged = rounds.filter(pl.col("diverged_at").is_not_null()).sort("round")
    return Summary(
        label=configuration.algorithm if label is None else label,
        task=configuration.task.task,
        algorithm=configuration.algorithm,
        readings=configuration.readings,
        rounds=rounds.height,
        planned=configuration.training.rounds,
        interrupted=bool(result.run.provenance.get("interrupted", False)),
        diverged=dict(zip(diverged["round"].to_list(), diverged["diverged_at"].to_list(), strict=True)),
        censored=int(rounds["censored"].sum()),
        reward=_spread(_by_round(final, (pl.col("reward") * pl.col("length")).sum() / pl.col("length").sum())),
        last_reward=_spread(_by_round(last, pl.col("reward").first())),
        episode_return=_spread(_by_round(episodes, pl.col("return").mean())),
        episode_length=_spread(_by_round(episodes, pl.col("length").mean())),
        greedy_return=_spread(_by_round(judged, pl.col("return").mean())),
        greedy_length=_spread(_by_round(judged, pl.col("length").mean())),
        success=_spread(_by_round(judged, pl.col("success").cast(pl.Float64).mean())),
        steps=int(rounds["steps"].sum()),
        queries=_mean(rounds["queries"]),
        gradient_evaluations=_mean(rounds["gradient_evaluations"]),
        seconds=_training_seconds(result) / rounds.height if rounds.height else None,
    )


def compare(results: Sequence[Result], labels: Sequence[str] | None = None) -> pl.DataFrame:
    """One row per run: the fields of its `Summary`, a spread's as `reward`, `reward_low`, …, `reward_rounds`."""
    require_same_task(results)
    named = distinct_labels(results) if labels is None else labels
    rows = [flat(summarise(result, label)) for result, label in zip(results, named, strict=True)]
    return pl.DataFrame(rows, infer_schema_length=None)


def flat(summary: Summary) -> dict[str, Any]:
    """A summary as one row of a table."""
    row: dict[str, Any] = {}
    for name, value in vars(summary).items():
        if isinstance(value, Spread):
            row[name] = value.mean
            row |= {f"{name}_{part}": getattr(value, part) for part in ("low", "high", "iqm", "sd", "rounds")}
        else:
            row[name] = len(value) if name == "diverged" else value
    return row


def require_same_task(results: Sequence[Result]) -> None:
    """Raises an `InputError` unless there are runs to compare, and all are of one task."""
    if not results:
        raise InputError("there is no run to compare. Give at least one.")
    tasks = list(dict.fromkeys(result.configuration.task.task for result in results))
    if len(tasks) > 1:
        raise InputError(
            f"the runs are of different tasks ({', '.join(tasks)}), whose rewards cannot be compared. "
            "Give runs of one task."
        )


# Labels: what tells two runs apart.

# Named last, because they rarely are the reason why two runs were made.
_INCIDENTAL = ("rounds", "seed")


def distinct_labels(results: Sequence[Result], names: Sequence[str] | None = None) -> list[str]:
    """A label for every run: its algorithm, and where several runs share that, what differs between them.

    `names` (such as folders) tell apart runs that nothing else does; by default they are numbered.
    """
    configurations = [result.configuration for result in results]
    fallback = [f"#{index + 1}" for index in range(len(results))] if names is None else _short(names)
    labels = []
    for configuration in configurations:
        alike = [other for other in configurations if other.algorithm == configuration.algorithm]
        labels.append(", ".join([configuration.algorithm, *_what_differs(configuration, alike)]))
    repeated = {label for label in labels if labels.count(label) > 1}
    return [
        f"{label}, {name}" if label in repeated else label for label, name in zip(labels, fallback, strict=True)
    ]


def differing_options(configurations: Sequence[Configuration]) -> list[str]:
    """The options that not all configurations share, `readings` among them; `rounds` and `seed` come last."""
    described = [{"readings": c.readings, **c.options()} for c in configurations]
    names = [name for name in described[0] if any(other[name] != described[0][name] for other in described[1:])]
    return [name for name in names if name not in _INCIDENTAL] + [name for name in names if name in _INCIDENTAL]


def departures(configuration: Configuration) -> dict[str, tuple[Any, Any]]:
    """The options in which a configuration differs from what its names stand for: (its value, that value)."""
    named = Configuration().options()
    named |= PRESETS.get(configuration.task.task, {})
    named |= ALGORITHMS[configuration.algorithm].options if configuration.algorithm in ALGORITHMS else {}
    named |= READINGS.get(configuration.readings, {})
    named["task"] = configuration.task.task
    return {name: (value, named[name]) for name, value in configuration.options().items() if value != named[name]}


def _what_differs(configuration: Configuration, alike: list[Configuration]) -> list[str]:
    names = differing_options(alike)
    options = configuration.options()
    if "readings" in names:
        # What follows from the set of readings need not be told again.
        follows = all(READINGS.get(c.readings, {}).get(name, value) == value for c in alike for name, value in [])
        del follows
        explained = [
            name
            for name in names
            if name != "readings" and all(READINGS.get(c.readings, {}).get(name) == c.options()[name] for c in alike)
        ]
        names = [name for name in names if name not in explained]
    budgets = [name for name in names if name in BUDGETS]
    telling = [name for name in names if name not in BUDGETS]
    telling += [name for name in budgets if options[name] is not None]
    if any(name not in _INCIDENTAL for name in telling):
        telling = [name for name in telling if name not in _INCIDENTAL or _needed(name, names, alike)]
    return [
        f"{configuration.readings} readings" if name == "readings" else f"{name} = {_shown(options[name])}"
        for name in telling
    ]
