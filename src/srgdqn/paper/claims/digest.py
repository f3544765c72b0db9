"""The hash of what decides: claims, rules, statistics, what is measured, the margins that the pilot has set, and how
much is run for verdicts.

How a figure is drawn is not part of it, although a study's statistic and its figure stand in the same file: of those
files the statistics' own source is taken, and every constant. Nor is how training is done, which has versions and a
digest of its own.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
from collections.abc import Callable
from importlib import resources
from types import ModuleType
from typing import Any

from srgdqn.paper.studies import (
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
from srgdqn.paper.studies.scale import CONFIRMATORY, CONFIRMATORY_PRINTED
from srgdqn.runs import curves

_FILES = {
    "srgdqn.paper.claims": ("contrasts.py", "judgement.py", "rules.py", "statements.py"),
    "srgdqn": ("statistics.py",),
    "srgdqn.paper.studies": ("anchor_cells.py", "pilot.py", "readings_study.py", "scores.py", "tuning.py"),
    "srgdqn.paper.evidence": ("pilot.json",),
    "srgdqn.paper.measurements": (
        "anchor_distances.py",
        "anchor_error.py",
        "anchors.py",
        "dose_response.py",
        "exact_anchors.py",
        "exact_gradient.py",
        "gradient_spread.py",
        "recorded.py",
        "step_times.py",
        "theorem_1.py",
        "theorem_growth.py",
        "theorem_inequality.py",
        "theorem_problems.py",
        "theorem_queries.py",
    ),
}
_CONSTANTS: tuple[ModuleType, ...] = (
    curves,
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
    theorem_1.least_slack,
    theorem_1.log_query_ratios,
    training_time.seconds_per_step,
    training_time.seconds_to_threshold,
    anatomy.errors,
    anatomy.shares,
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
        *(_constants(module).encode() for module in _CONSTANTS),
        repr((CONFIRMATORY, CONFIRMATORY_PRINTED)).encode(),
    ]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:16]


def _constants(module: ModuleType) -> str:
    """What a module assigns, but for the experiment that it is, which has a title and words, and for names of types,
    which decide nothing.
    """
    assigned = [
        node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.Assign | ast.AnnAssign)
    ]
    texts = [ast.unparse(node) for node in assigned]
    return "\n".join(text for text in texts if "Experiment(" not in text and " = Literal[" not in text)
