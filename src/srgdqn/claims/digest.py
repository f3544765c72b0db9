"""The hash of what decides: claims, rules, statistics, the margins that the pilot has set, and the confirmatory scale.

How a figure is drawn is not part of it, although a study's statistic and its figure stand in the same file: of those
files the statistics' own source is taken.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable
from importlib import resources
from typing import Any

from srgdqn.studies import (
    anatomy,
    dose_response,
    figure_1,
    figure_2,
    figure_3_left,
    figure_3_right,
    table_2,
    theorem_1,
    training_time,
)
from srgdqn.studies.scale import CONFIRMATORY, CONFIRMATORY_PRINTED

_FILES = {
    "srgdqn.claims": ("contrasts.py", "judgement.py", "rules.py", "statements.py"),
    "srgdqn": ("statistics.py",),
    "srgdqn.studies": ("pilot.py", "scores.py"),
    "srgdqn.evidence": ("pilot.json",),
}
_STATISTICS: tuple[Callable[..., Any], ...] = (
    figure_1.evaluation_matrix,
    figure_1.evaluation_steps,
    figure_2.random_score,
    figure_2.scores,
    figure_3_left.lengths,
    figure_3_right.distances,
    figure_3_right.log_ratios,
    table_2.Spreads,
    theorem_1._centre,
    theorem_1.log_query_ratios,
    training_time.seconds_to_threshold,
    anatomy.by_round,
    anatomy.errors,
    anatomy.share,
    dose_response.doses,
    dose_response.measured,
    dose_response.response,
)


@functools.cache
def claims_digest() -> str:
    """A digest of all that decides."""
    parts = [
        *(resources.files(package).joinpath(name).read_bytes() for package, names in _FILES.items() for name in names),
        *(inspect.getsource(statistic).encode() for statistic in _STATISTICS),
        repr((CONFIRMATORY, CONFIRMATORY_PRINTED)).encode(),
    ]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:16]
