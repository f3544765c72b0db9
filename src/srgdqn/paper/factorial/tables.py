"""What came of all readings, as small tables: what the evidence stores, and the section is made from."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from srgdqn.paper.claims.verdicts import RESAMPLES, seed_of
from srgdqn.paper.experiment import RANDOM, UNTRAINED
from srgdqn.paper.factorial.arms import ARMS, CONTRASTS, LEARNING, OURS
from srgdqn.paper.factorial.design import ALL_READINGS, FACTORS, Reading, code_of, on_task
from srgdqn.paper.factorial.statistics import (
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
from srgdqn.paper.report.contents import Table


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
        values, diverged = scored(means, ARMS)
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
