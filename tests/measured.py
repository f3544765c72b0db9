"""Measurements made whole, together with what only they see on the way."""

from __future__ import annotations

import threading
from types import ModuleType
from typing import Any

import polars as pl
import pytest

from srgdqn.paper.measurements import gradient_spread, recorded
from srgdqn.paper.measurements.recorded import RecordedRun, record


def watched(measurement: ModuleType, plan: Any) -> tuple[RecordedRun, dict[str, pl.DataFrame]]:
    """The run that a measurement recorded, and its tables."""
    runs: list[RecordedRun] = []

    def keep(*given: Any, **others: Any) -> RecordedRun:
        runs.append(record(*given, **others))
        return runs[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorded if measurement is not gradient_spread else measurement, "record", keep)
        tables = measurement.measure(plan, lambda share: None, threading.Event())
    return runs[0], tables
