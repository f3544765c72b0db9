"""The noise map: where gradient noise limits deep Q-learning, what estimators do to it, and what to do about it.

The rules are in `rules` as constants and in docs/noise-map.md in words; they were fixed before any round of the seeds
that decide (47,001 on). `run` computes it task by task and leaves the data as Parquet; `section` shows it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from srgdqn.errors import InputError, unknown
from srgdqn.paper.cells import Console, run_cells
from srgdqn.paper.claims.evidence import Evidence, evidence_of
from srgdqn.paper.noise import described
from srgdqn.paper.noise.page import section
from srgdqn.paper.noise.results import tables_of
from srgdqn.paper.noise.rules import KIND, PLAN, QUICK, Plan
from srgdqn.paper.noise.stages import ERRORS_SCHEMA, ROUNDS_SCHEMA, compute_task
from srgdqn.runs.destination import make_folder, write_file
from srgdqn.runs.tables import encode_any

__all__ = [
    "KIND",
    "PLAN",
    "QUICK",
    "TITLE",
    "evidence_in",
    "folder_of",
    "run",
    "section",
    "tasks_of",
    "time_lines",
    "total_seconds",
]

TITLE = "Where gradient noise limits deep Q-learning"

_ROUNDS, _ERRORS, _DESCRIBED, _TIMES = "rounds", "errors", "described", "times"
_TIMES_SCHEMA = {"task": pl.String, "seconds": pl.Float64}


def tasks_of(plan: Plan, asked: Sequence[str]) -> tuple[str, ...]:
    """The tasks to compute, all by default."""
    for name in asked:
        if name in PLAN.regimes and name not in plan.regimes:
            raise InputError(
                f"the preview has {', '.join(plan.regimes)} alone, not {name}. Leave --quick or --task out."
            )
        if name not in plan.regimes:
            raise unknown("task", name, plan.regimes)
    return tuple(name for name in plan.regimes if name in asked or not asked)


def total_seconds(plan: Plan) -> float:
    """Of two cores, for all of it."""
    return sum(regime.seconds for regime in plan.regimes.values()) + plan.described_seconds


def time_lines(plan: Plan, tasks: Sequence[str]) -> list[str]:
    """How long each task takes on two cores if nothing of it is done, and all of it."""
    seconds = {task: plan.regimes[task].seconds for task in tasks}
    described_too = {"LunarLander and Catch (described)": plan.described_seconds}
    lines = [f"{name}: about {spent / 60:.0f} minutes" for name, spent in {**seconds, **described_too}.items()]
    total = sum(seconds.values()) + plan.described_seconds
    return [*lines, f"together about {total / 3600:.1f} hours on two cores, unless a part is done"]


def run(folder: Path, console: Console, plan: Plan = PLAN, tasks: Sequence[str] = ()) -> Evidence:
    """The study of some tasks, beside what was found for others before."""
    place = make_folder(folder_of(folder, plan))
    for task in tasks_of(plan, tasks):
        found = compute_task(plan, task, place, console)
        times = pl.DataFrame([(task, found.seconds)], schema=_TIMES_SCHEMA, orient="row")
        # The data of a task, whole or not at all, in files of their own: others may not be computed yet.
        for name, frame in ((_ROUNDS, found.rounds), (_ERRORS, found.errors), (_TIMES, times)):
            write_file(place / f"{task}-{name}.parquet", encode_any(frame))
    runs = described.cells(plan)
    results = run_cells("described", list(runs.values()), place, console)
    if results:
        beside = described.table_of({key: results[cell.name] for key, cell in runs.items()})
        write_file(place / f"{_DESCRIBED}.parquet", encode_any(beside.frame))
    for name, frame in zip((_ROUNDS, _ERRORS, _TIMES), read(place, plan), strict=True):
        write_file(place / f"{name}.parquet", encode_any(frame))
    return evidence_in(place, plan)


def evidence_in(place: Path, plan: Plan = PLAN) -> Evidence:
    """What follows from the data in a folder."""
    rounds, errors, times = read(place, plan)
    beside = place / f"{_DESCRIBED}.parquet"
    extra = [described.shown(pl.read_parquet(beside))] if beside.is_file() else []
    regimes = [plan.regimes[task] for task in rounds["task"].unique(maintain_order=True)]
    evidence = evidence_of(
        KIND,
        {},
        [*tables_of(rounds, errors, plan.resamples).values(), *extra],
        seed=regimes[0].confirmation.seeds[0],
        rounds=", ".join(f"{each.confirmation.total} on {each.task}" for each in regimes),
        seconds=float(times["seconds"].sum()),
    )
    missing = [task for task in plan.regimes if task not in rounds["task"]]
    notes = [f"Not computed yet: {', '.join(missing)}; Holm's procedure is over what is there."] if missing else []
    return dataclasses.replace(evidence, about={**evidence.about, "notes": notes})


def folder_of(folder: Path, plan: Plan) -> Path:
    """Where a folder of results has the cells, the data and the page of a plan."""
    return folder / (KIND if plan is PLAN else f"{KIND}-{plan.name}")


def read(place: Path, plan: Plan) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """The rounds and errors of all tasks that a folder has, and the seconds of one core that each took."""
    frames = []
    for name, schema in ((_ROUNDS, ROUNDS_SCHEMA), (_ERRORS, ERRORS_SCHEMA), (_TIMES, _TIMES_SCHEMA)):
        files = [place / f"{task}-{name}.parquet" for task in plan.regimes]
        tables = [pl.read_parquet(file) for file in files if file.is_file()]
        frames.append(pl.concat([pl.DataFrame(schema=schema), *tables]))
    rounds, errors, times = frames
    return rounds, errors, times
