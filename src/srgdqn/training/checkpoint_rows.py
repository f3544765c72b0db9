"""Lists that grow as rounds go on, as the rows of numbers that a checkpoint keeps of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from srgdqn.training.evaluation import Evaluation

Judged = list[tuple[int, bool, Evaluation]]
"""Evaluations: blocks done, whether it is the last, and results with an axis of rounds first."""

Timings = list[tuple[str, int, float]]
"""Phases, steps and seconds."""

_TIMED = {"phase": "u", "step": "i", "seconds": "f"}  # columns and their kinds of numbers
_PHASES = ("compile", "train", "evaluate", "checkpoint")  # stored as their places


def judged_rows(evaluations: Judged) -> dict[str, np.ndarray]:
    """Evaluations as columns."""
    blocks, last, results = zip(*evaluations, strict=True)
    columns = {name: np.stack([getattr(each, name) for each in results]) for name in Evaluation._fields}
    return {"blocks": np.array(blocks, np.int64), "last": np.array(last, bool), **columns}


def judged_from(rows: dict[str, np.ndarray]) -> Judged:
    """The evaluations in such columns; an error where there are none such."""
    kinds = {"blocks": "i", "last": "b", "total_reward": "f", "length": "i", "terminated": "b"}
    if any(rows[name].dtype.kind != kind for name, kind in kinds.items()):
        raise ValueError("evaluations that are none")
    if rows["blocks"].ndim != 1 or rows["last"].ndim != 1:
        raise ValueError("evaluations that are none")
    if not ((rows["blocks"] >= 0) & (rows["blocks"] < 2**31)).all():
        raise ValueError("evaluations after more blocks than there can be")
    if len({rows[name].shape[1:] for name in Evaluation._fields}) != 1:
        raise ValueError("evaluations of different rounds")
    blocks, last = rows["blocks"].tolist(), rows["last"].tolist()
    results: list[Any] = [Evaluation(*each) for each in zip(*(rows[name] for name in Evaluation._fields), strict=True)]
    return list(zip(blocks, last, results, strict=True))


def timed_rows(timings: Timings) -> dict[str, np.ndarray]:
    """Timings as columns."""
    phases, steps, seconds = zip(*timings, strict=True)
    return {
        "phase": np.array([_PHASES.index(phase) for phase in phases], np.uint8),
        "step": np.array(steps, np.int64),
        "seconds": np.array(seconds, np.float64),
    }


def timed_from(rows: dict[str, np.ndarray]) -> Timings:
    """The timings in such columns; an error where there are none such."""
    if any(rows[name].ndim != 1 or rows[name].dtype.kind != kind for name, kind in _TIMED.items()):
        raise ValueError("timings that are none")
    if not (rows["step"] >= 0).all():
        raise ValueError("steps below 0")
    columns = (rows[name].tolist() for name in _TIMED)
    timings = [(_PHASES[phase], step, seconds) for phase, step, seconds in zip(*columns, strict=True)]
    if not all(math.isfinite(seconds) for _, _, seconds in timings):
        raise ValueError("seconds that are no numbers")
    return timings
