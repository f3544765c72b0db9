"""Over all readings: the paper's algorithms under every combination of what the paper leaves open.

A full factorial of eight options. Each reading of each task is one cached cell, which holds the scores of all arms. No
reading gets a verdict: what is shown is how contrasts and shares spread over readings, and which option moves them.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from srgdqn.config import Configuration
from srgdqn.config.algorithms import PAPER, READINGS
from srgdqn.config.discovery import COMPILED_TASKS
from srgdqn.config.presets import PRESETS
from srgdqn.interrupts import StopRequestedError
from srgdqn.paper.cells import Console, MeasurementCell, run_cells
from srgdqn.paper.claims.evidence import Evidence, evidence_of
from srgdqn.paper.claims.verdicts import RESAMPLES, seed_of
from srgdqn.paper.experiment import LAST_EPISODES, LAST_SHARE, RANDOM, UNTRAINED, configured, seconds_of
from srgdqn.paper.factorial_statistics import (
    above,
    best,
    effects,
    finished_means,
    intervals,
    is_void,
    scored,
    shares_best,
    weights_of,
)
from srgdqn.paper.measurements.recorded import Report
from srgdqn.paper.report.contents import Table
from srgdqn.paper.scale import CONFIRMATORY
from srgdqn.paper.scores import values_of
from srgdqn.paper.studies.figure_2 import TASKS
from srgdqn.results.result import Result
from srgdqn.session.prepare import result_of, with_kernel
from srgdqn.tasks import task_of
from srgdqn.training import train_side_by_side

# The readings


@dataclass(frozen=True)
class Level:
    """One choice where the paper leaves something open."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    by_task: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Factor:
    """Something that the paper leaves open; its default is the first level."""

    name: str
    rows: str
    """Its rows in the table of readings."""
    levels: tuple[Level, ...]


def _level(name: str, by_task: Mapping[str, Mapping[str, Any]] | None = None, **options: Any) -> Level:
    return Level(name, options, by_task or {})


FACTORS = (
    Factor(
        "target",
        "2",
        (
            _level("current θ", target="current"),
            _level("outer iteration", target="outer"),
            _level("hard, period 20", target="hard", target_period=20),
            _level("hard, period 100", target="hard", target_period=100),
        ),
    ),
    Factor("loss", "2", (_level("squared", loss="squared"), _level("Huber", loss="huber", huber_delta=1.0))),
    Factor(
        "hidden layers",
        "15",
        (
            _level("one", {task: {"hidden": PRESETS[task]["hidden"]} for task in TASKS}),
            _level("two", {task: {"hidden": PRESETS[task]["hidden"] * 2} for task in TASKS}),
        ),
    ),
    Factor(
        "initialisation",
        "16",
        (_level("LeCun uniform", initialisation="lecun-uniform"), _level("normal", initialisation="normal")),
    ),
    Factor(
        "reward",
        "17, 18, 21",
        (
            _level(
                "first",
                {
                    "MountainCar": {"reward": "height"},
                    "Pendulum": {"reward_scale": 1.0},
                    "CartPole": {"reward": "position-and-angle"},
                },
            ),
            _level(
                "second",
                {
                    "MountainCar": {"reward": "distance"},
                    "Pendulum": {"reward_scale": 0.1},
                    "CartPole": {"reward": "upright-cosine"},
                },
            ),
        ),
    ),
    Factor(
        "mask and Adam process",
        "3, 6, 7, 8",
        (_level("corrected", **READINGS["corrected"]), _level("printed", **READINGS["printed"])),
    ),
    Factor(
        "time limit",
        "20",
        (
            _level("none", {task: {"time_limit": PRESETS[task].get("time_limit")} for task in TASKS}),
            _level("Gymnasium's", {task: {"time_limit": COMPILED_TASKS[task].evaluation_limit} for task in TASKS}),
        ),
    ),
    Factor(
        "warm-up",
        "13",
        (
            _level("1,000 steps", learning_starts=1_000),
            _level("N steps", {task: {"learning_starts": PRESETS[task]["batch_size"]} for task in TASKS}),
        ),
    ),
)

Reading = tuple[int, ...]
"""The level of every factor."""
ALL_READINGS: tuple[Reading, ...] = tuple(itertools.product(*(range(len(factor.levels)) for factor in FACTORS)))
_LIMIT = [factor.name for factor in FACTORS].index("time limit")
# What decides which programs must be compiled: readings that share them are run one after the other.
_COMPILED = [place for place, each in enumerate(FACTORS) if each.name in ("hidden layers", "initialisation", "reward")]


def options_of(task: str, reading: Reading) -> dict[str, Any]:
    """The options of a reading of a task."""
    merged: dict[str, Any] = {}
    for factor, place in zip(FACTORS, reading, strict=True):
        level = factor.levels[place]
        merged |= {**level.options, **level.by_task.get(task, {})}
    return merged


def code_of(reading: Reading) -> str:
    """A reading as text: the level of every factor.

    >>> code_of((3, 1, 0, 0, 0, 0, 0, 0))
    '31000000'
    """
    return "".join(map(str, reading))


def reading_of(code: str) -> Reading:
    """The reading of a text."""
    return tuple(map(int, code))


def on_task(task: str, reading: Reading) -> Reading:
    """The reading of a task that a combination stands for: CartPole always has its limit of 500 steps."""
    return reading if task != "CartPole" else (*reading[:_LIMIT], 0, *reading[_LIMIT + 1 :])


def readings_of(task: str, readings: Sequence[Reading] = ALL_READINGS) -> list[Reading]:
    """The readings of a task among some combinations, each once."""
    return list(dict.fromkeys(on_task(task, reading) for reading in readings))


# What is run

LEARNING = (*PAPER, "sgd-inner-adam", "svr-dqn-no-adam")
"""The arms that learn: those that can be best, and whose worst finished round is what a diverged one scores."""
ARMS = (*LEARNING, RANDOM, UNTRAINED)
OURS = "srg-dqn"
CONTRASTS = {"svr": "svr-dqn", "sgd": "sgd-inner-adam"}
"""What SRG-DQN is compared with, by the name of the columns."""


@dataclass(frozen=True)
class Extent:
    """How much is run."""

    seed: int = 42_001
    rounds: int = 50
    readings: tuple[Reading, ...] = ALL_READINGS
    shorter: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options that replace the paper's budgets, by task."""
    resamples: int = RESAMPLES


WHOLE = Extent()


@dataclass(frozen=True)
class Plan:
    """All arms of one reading of a task, and what their scores are taken over."""

    arms: dict[str, Configuration]
    last_share: float = LAST_SHARE
    last_episodes: int = LAST_EPISODES


def configurations(task: str, reading: Reading, extent: Extent = WHOLE) -> dict[str, Configuration]:
    """The configuration of every arm of a reading."""
    scale = replace(CONFIRMATORY, seed=extent.seed)
    own = {**options_of(task, reading), "rounds": extent.rounds, "evaluation_interval": None}
    return {arm: configured(scale, task, arm, "corrected", **own, **extent.shorter.get(task, {})) for arm in ARMS}


def cell_name(task: str, reading: Reading) -> str:
    """The name of the cell that holds all arms of a reading of a task."""
    return f"{task}-{code_of(reading)}"


def cells(extent: Extent = WHOLE) -> list[MeasurementCell]:
    """One cell for each reading of each task. Their bits are those of training."""
    listed = []
    for task in TASKS:
        ordered = sorted(readings_of(task, extent.readings), key=lambda each: [each[place] for place in _COMPILED])
        for reading in ordered:
            arms = {arm: with_kernel(each) for arm, each in configurations(task, reading, extent).items()}
            listed.append(MeasurementCell(cell_name(task, reading), measure, Plan(arms), computation="training"))
    return listed


def measure(plan: Plan, report: Report, stop: threading.Event) -> dict[str, pl.DataFrame]:
    """The rounds of all arms of a reading. Arms that differ in numbers alone are trained side by side."""
    programs: dict[Configuration, list[str]] = {}
    for arm, configuration in plan.arms.items():
        programs.setdefault(configuration.shape(), []).append(arm)
    tables: dict[str, pl.DataFrame] = {}
    for arms in programs.values():
        members = [plan.arms[arm] for arm in arms]
        task, done = task_of(members[0]), len(tables)
        for place, trained in train_side_by_side(
            members,
            task,
            listener=lambda progress: report((done + len(arms) * progress.share) / len(plan.arms)),  # noqa: B023
            workers=1,
            stop=stop,
        ):
            if trained.interrupted:
                raise StopRequestedError
            tables[arms[place]] = rounds_table(arms[place], result_of(members[place], task, trained))
    return {"rounds": pl.concat([tables[arm] for arm in plan.arms])}


def rounds_table(arm: str, result: Result) -> pl.DataFrame:
    """A row for each round of an arm: its final score (null if it diverged), and what its last evaluation came to, by
    greedy episodes on the raw task.
    """
    final = values_of(result, "final")
    last = result.evaluations.filter(pl.col("step") == pl.col("step").max().over("round"))
    greedy = last.group_by("round").agg(
        pl.col("return").mean().alias("greedy_return"), pl.col("success").cast(pl.Float64).mean()
    )
    rounds = result.rounds.sort("round").select(
        pl.lit(arm).alias("arm"),
        "round",
        pl.Series("score", final.means, pl.Float64).fill_nan(None),
        pl.Series("diverged", final.diverged, pl.Boolean),
    )
    return rounds.join(greedy, on="round", how="left", maintain_order="left")


def run(folder: Path, console: Console, extent: Extent = WHOLE) -> Evidence:
    """Trains all arms of all readings, and tells what came of them."""
    listed = cells(extent)
    outcomes = run_cells("all readings", listed, folder / "factorial", console)
    console.begin("statistics over all readings", ("statistics",))
    by_task = {
        task: {each: outcomes[cell_name(task, each)].tables["rounds"] for each in readings_of(task, extent.readings)}
        for task in TASKS
    }
    tables = analysed(by_task, extent.readings, extent.resamples)
    console.progress("statistics", 1.0)
    return evidence_of(
        "factorial",
        {},
        tables,
        seed=extent.seed,
        rounds=f"{extent.rounds} of each algorithm in each reading",
        seconds=seconds_of(outcomes, outcomes),
    )


# What came of it


def analysed(
    by_task: Mapping[str, Mapping[Reading, pl.DataFrame]],
    readings: Sequence[Reading] = ALL_READINGS,
    resamples: int = RESAMPLES,
) -> list[Table]:
    """The tables of the evidence, from the rounds of every reading of every task; `readings` are all combinations."""
    rounds = next(iter(next(iter(by_task.values())).values())).filter(arm=OURS).height
    weights = weights_of(rounds, resamples, seed_of("factorial", "readings"))
    rows: dict[str, list[dict[str, Any]]] = {"readings": [], "effects": [], "shares": [], "arms": []}
    matched = {}
    for task, tables in by_task.items():
        own = list(tables)
        means = np.array([scores_of(tables[reading]) for reading in own])
        values, diverged = scored(means, ARMS, LEARNING)
        algorithms = values[:, : len(LEARNING)]
        tests = {
            "learned": above(algorithms, values[:, ARMS.index(UNTRAINED)], weights),
            "beats random": above(algorithms, values[:, ARMS.index(RANDOM)], weights),
        }
        rows["shares"] += [
            _share(task, what, arm, test.shares[place])
            for what, test in tests.items()
            for place, arm in enumerate((*LEARNING, ""))
        ]
        contrasts = {name: values[:, ARMS.index(OURS)] - values[:, ARMS.index(arm)] for name, arm in CONTRASTS.items()}
        for name, contrast in contrasts.items():
            rows["effects"] += _effect_rows(task, name, own, contrast, weights)
        rows["arms"] += _arm_rows(task, tables, values, diverged, weights)
        is_best = best(algorithms.mean(2))
        found = {name: intervals(contrast, weights) for name, contrast in contrasts.items()}
        for place, reading in enumerate(own):
            row: dict[str, Any] = {
                "task": task,
                "reading": code_of(reading),
                "diverged": int(diverged[place].sum()),
                "learned": int(tests["learned"].flags[place].sum()),
                "beat random": int(tests["beats random"].flags[place].sum()),
                "best": "".join(itertools.compress(LEARNING, is_best[place])),
            }
            row |= {arm: _short(mean) for arm, mean in zip(ARMS, values[place].mean(1), strict=True)}
            for name, other in CONTRASTS.items():
                ours, theirs = (diverged[place, [ARMS.index(arm)]] for arm in (OURS, other))
                both = finished_means(contrasts[name][[place]], ~(ours | theirs))[0]
                bounds = zip((name, f"{name} low", f"{name} high"), found[name][place], strict=True)
                row |= {key: _short(value) for key, value in bounds}
                row |= {f"{name} void": bool(is_void(ours, theirs)[0]), f"{name} finished": _short(both)}
            rows["readings"].append(row)
        matched[task] = algorithms[[own.index(on_task(task, reading)) for reading in readings]]
    everywhere = shares_best(matched, weights)
    for task, shares in {**everywhere.by_task, "all": everywhere.everywhere}.items():
        rows["shares"] += [_share(task, "best", arm, share) for arm, share in zip(LEARNING, shares, strict=True)]
    titles = {
        "readings": "Every reading",
        "effects": "Main effects of the options",
        "shares": "Shares of readings",
        "arms": "Algorithms over all readings",
    }
    return [Table(f"factorial-{name}", title, pl.DataFrame(rows[name])) for name, title in titles.items()]


def scores_of(table: pl.DataFrame) -> np.ndarray:
    """(arms, rounds): the final scores of one reading, NaN where a round diverged."""
    by_arm = (table.filter(arm=arm).sort("round")["score"].cast(pl.Float64).fill_null(np.nan) for arm in ARMS)
    return np.array([each.to_numpy() for each in by_arm])


def _effect_rows(
    task: str, contrast: str, readings: Sequence[Reading], values: np.ndarray, weights: np.ndarray
) -> list[dict[str, Any]]:
    found = []
    for place, factor in enumerate(FACTORS):
        levels = np.array([reading[place] for reading in readings])
        if (levels == 0).any():
            for level, effect in effects(values, levels, weights).items():
                names = {"option": factor.name, "level": factor.levels[level].name, "first": factor.levels[0].name}
                found.append({"task": task, "contrast": contrast, **names, **_interval(effect)})
    return found


def _arm_rows(
    task: str,
    tables: Mapping[Reading, pl.DataFrame],
    values: np.ndarray,
    diverged: np.ndarray,
    weights: np.ndarray,
) -> list[dict[str, Any]]:
    """What each arm came to over all readings; greedy episodes are those of rounds that finished."""
    finished = pl.concat(list(tables.values())).filter(~pl.col("diverged"))
    greedy = finished.group_by("arm").agg(pl.col("greedy_return", "success").mean())
    by_arm = {row["arm"]: row for row in greedy.to_dicts()}
    shares = intervals(diverged.mean(0), weights)
    found = []
    for place, arm in enumerate(ARMS):
        own = by_arm.get(arm, {})
        found.append(
            {
                "task": task,
                "algorithm": arm,
                "readings": len(values),
                "rounds": int(diverged[:, place].size),
                "diverged": int(diverged[:, place].sum()),
                **_interval(shares[place]),
                "score": _short(values[:, place].mean()),
                "greedy return": _short(own.get("greedy_return")),
                "success": _short(own.get("success")),
            }
        )
    return found


def _share(task: str, what: str, algorithm: str, share: np.ndarray) -> dict[str, Any]:
    return {"task": task, "what": what, "algorithm": algorithm, **_interval(share)}


def _interval(found: np.ndarray) -> dict[str, float | None]:
    return {name: _short(value) for name, value in zip(("estimate", "low", "high"), found, strict=True)}


def _short(value: float | None) -> float | None:
    """Four digits, which is more than the rounds can tell; None for what is not a number."""
    return None if value is None or not np.isfinite(value) else float(f"{value:.4g}")
