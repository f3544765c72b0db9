"""The tables of the noise map, from rounds and errors alone: whoever has the Parquet files has every number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from srgdqn.paper.claims.verdicts import seed_of
from srgdqn.paper.noise.analysis import (
    Learner,
    batch_text,
    best_of,
    ceiling,
    contrasts,
    equivalent_interval,
    error_ratios,
    error_ratios_over_training,
    interval_of,
    name_of,
    resampled_means,
)
from srgdqn.paper.noise.arms import ADAM, LEARNERS, RANDOM, YARDSTICK, Arm, Candidate
from srgdqn.paper.noise.rules import OUTCOMES, PACES, RESAMPLES, Outcome
from srgdqn.paper.noise.selection import of_arm, scored, stage_rows, trials_of, values_of
from srgdqn.paper.report.contents import Table
from srgdqn.paper.scores import Scores

CEILING, LEARNED, ERRORS, OVER_TRAINING = (
    "noise-ceiling",
    "noise-learners",
    "noise-errors",
    "noise-errors-over-training",
)


def tables_of(rounds: pl.DataFrame, errors: pl.DataFrame, resamples: int = RESAMPLES) -> dict[str, Table]:
    """Every table by name; one that nothing was computed for is left out."""
    ratios = _by_task(errors, error_ratios)
    frames = {
        CEILING: pl.DataFrame(list(_ceiling_rows(rounds, resamples)), infer_schema_length=None),
        LEARNED: pl.DataFrame(_learner_rows(rounds, ratios, resamples), infer_schema_length=None),
        ERRORS: ratios,
        OVER_TRAINING: _by_task(errors.filter(pl.col("axis") == "own"), error_ratios_over_training),
    }
    return {
        name: Table(name, _TITLES[name][0], _finite(frame), _TITLES[name][1])
        for name, frame in frames.items()
        if frame.height
    }


ALONE, DIFFERENCE_ALONE = "Adam's B by this outcome", "difference to that"
"""The batch size of the Adam that is best by an outcome alone, and the learner's difference to it."""

_TITLES = {
    CEILING: (
        "Plain Adam by batch size, α tuned",
        "Share: (best of B = 512) − (best of B), of (best − random). Noise limits where that exceeds 5 % by its "
        "interval. Means are of confirmatory rounds, with 95 % intervals.",
    ),
    LEARNED: (
        "Learners against the best tuned Adam, at 8 queries per step",
        "Holm's procedure at 2.5 % over tasks, learners and outcomes, for each side apart. The best Adam is best in "
        "the mean of both outcomes; the difference to the one that is best by this outcome alone decides nothing. "
        "Equivalent: the batch size at which plain Adam, with one update per 8 steps, has this return, or its "
        "gradient this error.",
    ),
    ERRORS: (
        "Errors of directions",
        "Ratio: the squared error of a direction, divided by that of the plain gradient on as many transitions as a "
        "batch of it queries; below 1 the estimator pays as an estimator.",
    ),
    OVER_TRAINING: ("Errors of directions over training", "Summed over rounds at each measurement."),
}


def _by_task(errors: pl.DataFrame, function: Any) -> pl.DataFrame:
    parts = [
        function(mine).select(pl.lit(mine["task"][0]).alias("task"), pl.all())
        for mine in errors.partition_by("task", maintain_order=True)
    ]
    return pl.concat(parts) if parts else pl.DataFrame()


def _confirmed(rounds: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """The confirmatory rounds of each task, scored."""
    for mine in rounds.filter(pl.col("stage") == "confirmation").partition_by("task", maintain_order=True):
        yield mine["task"][0], scored(mine)


def _chance(task: str, mine: pl.DataFrame, outcome: str) -> np.ndarray:
    [batch] = mine.filter(pl.col("part") == YARDSTICK)["batch"].unique().to_list()
    return values_of(mine, Arm(task, YARDSTICK, RANDOM, batch), outcome)


def _batches(mine: pl.DataFrame, part: str) -> list[int]:
    return mine.filter(pl.col("part") == part)["batch"].unique().sort().to_list()


def _grid(task: str, mine: pl.DataFrame, part: str, outcome: str) -> np.ndarray:
    """(rounds, batches) of plain Adam at a pace."""
    return np.column_stack([values_of(mine, Arm(task, part, ADAM, b), outcome) for b in _batches(mine, part)])


def _ceiling_rows(rounds: pl.DataFrame, resamples: int) -> Iterator[dict[str, Any]]:
    for task, mine in _confirmed(rounds):
        for pace in PACES:
            for outcome in OUTCOMES:
                batches = _batches(mine, pace)
                if not batches:
                    continue
                chance = _chance(task, mine, outcome)
                seed = seed_of("noise", "ceiling", task, pace, outcome)
                found = ceiling(batches, _grid(task, mine, pace, outcome), chance, seed, resamples)
                for each in found:
                    about = _about(mine, Arm(task, pace, ADAM, each.batch))
                    yield {
                        "task": task,
                        "pace": pace,
                        "outcome": outcome,
                        "B": each.batch,
                        **about,
                        **_bounds("mean", each.mean),
                        **_bounds("share", each.loss),
                        "noise": each.verdict,
                        "random": float(chance.mean()),
                    }


def _about(mine: pl.DataFrame, arm: Arm) -> dict[str, Any]:
    rows = of_arm(mine, arm)
    return {
        "α": float(rows["alpha"][0]),
        "at an edge": rows["edges"][0],
        "rounds": rows.height,
        "diverged": int(rows["diverged"].sum()),
    }


def _bounds(name: str, interval: Any) -> dict[str, float]:
    return {name: interval.estimate, f"{name}_low": interval.low, f"{name}_high": interval.high}


def best_adam(rounds: pl.DataFrame, task: str, outcomes: Sequence[Outcome] = OUTCOMES) -> Arm:
    """The best tuned Adam at 8 queries per step, by what the candidates that were confirmed came to as pilots in the
    mean of these outcomes.
    """
    mine = rounds.filter(pl.col("task") == task)
    pilots, confirmed = stage_rows(mine, "pilots"), mine.filter(pl.col("stage") == "confirmation")
    arms = {batch: Arm(task, "queries", ADAM, batch) for batch in _batches(confirmed, "queries")}
    scores = {}
    for batch, arm in arms.items():
        variant, step = of_arm(confirmed, arm).select("variant", "alpha_step").row(0)
        scores[batch] = trials_of(pilots, arm, outcomes)[Candidate(variant, step)]
    return arms[best_of(scores)]


def _learner_rows(rounds: pl.DataFrame, ratios: pl.DataFrame, resamples: int) -> list[dict[str, Any]]:
    asked: list[tuple[Learner, dict[str, Any]]] = []
    for task, mine in _confirmed(rounds):
        learners = mine.filter(pl.col("part") == LEARNERS)
        names = learners.select("arm", "batch").unique(maintain_order=True).sort("arm")
        for name, batch in names.iter_rows():
            arm, adam = Arm(task, LEARNERS, name, batch), best_adam(rounds, task)
            for outcome in OUTCOMES:
                scores = _scores(mine, arm, outcome)
                learner = Learner(
                    task, name, outcome, scores, _scores(mine, adam, outcome), _chance(task, mine, outcome)
                )
                batches = _batches(mine, "updates")
                seed = seed_of("noise", "equivalent", task, name, outcome)
                grid = _grid(task, mine, "updates", outcome)
                equal = equivalent_interval(batches, grid, scores.values, seed, resamples)
                about = _of_learner(mine, arm, adam, ratios) | _equivalents(equal, batches)
                alone = best_adam(rounds, task, (outcome,))
                asked.append((learner, about | _beside(scores, _scores(mine, alone, outcome), alone, resamples)))
    judged = {each.name: each for each in contrasts([learner for learner, _ in asked], resamples)}
    rows = []
    for learner, about in asked:
        judgement = judged[name_of(learner)]
        [measured] = judgement.contrasts
        rows.append(
            {
                "task": learner.task,
                "learner": learner.name,
                "outcome": learner.outcome,
                "mean": float(learner.scores.values.mean()),
                "best Adam": float(learner.adam.values.mean()),
                "random": float(learner.chance.mean()),
                **_bounds("difference", measured.interval),
                "margin": measured.margin,
                "p⁺": measured.p_holds,
                "p⁻": measured.p_fails,
                "verdict": judgement.verdict,
                "small": "small" in judgement.marks,
                **about,
            }
        )
    return rows


def _beside(scores: Scores, adam: Scores, arm: Arm, resamples: int) -> dict[str, Any]:
    """The same beside the Adam that is best by this outcome alone, which decides nothing."""
    both = np.column_stack([scores.values, adam.values])
    drawn = resampled_means(both, seed_of("noise", "alone", arm.task), resamples)
    means = both.mean(0)
    return {
        ALONE: arm.batch,
        "that Adam": float(means[1]),
        **_bounds(DIFFERENCE_ALONE, interval_of(float(means[0] - means[1]), drawn[:, 0] - drawn[:, 1])),
    }


def _scores(mine: pl.DataFrame, arm: Arm, outcome: str) -> Scores:
    lost = of_arm(mine, arm).sort("seed", "round")["diverged"].to_numpy()
    return Scores(values_of(mine, arm, outcome), lost)


def _of_learner(mine: pl.DataFrame, arm: Arm, adam: Arm, ratios: pl.DataFrame) -> dict[str, Any]:
    row = of_arm(mine, arm).row(0, named=True)
    ratio = equivalent = None
    if ratios.height:
        own = ratios.filter(
            pl.col("task") == arm.task, pl.col("arm") == arm.name, pl.col("axis") == "own", variant=row["variant"]
        )
        if own.height:
            ratio, equivalent = float(own["ratio"][0]), float(own["equivalent"][0])
    return {
        "variant": row["variant"],
        "N": row["rows"],
        "Adam's B": adam.batch,
        **_about(mine, arm),
        "queries per batch": row["queries"],
        "error ratio": ratio,
        "equivalent batch by error": equivalent,
    }


def _equivalents(equal: Any, batches: list[int]) -> dict[str, str]:
    low, high = (batch_text(each, batches) for each in (equal.low, equal.high))
    return {"equivalent batch by return": f"{batch_text(equal.estimate, batches)} [{low}, {high}]"}


def _finite(frame: pl.DataFrame) -> pl.DataFrame:
    """Numbers that JSON has: what is not finite is null."""
    floats = [name for name, kind in frame.schema.items() if kind == pl.Float64]
    return frame.with_columns(
        pl.when(pl.col(name).is_finite()).then(pl.col(name)).otherwise(None).alias(name) for name in floats
    )


def rows_of(tables: Mapping[str, Table], name: str) -> list[dict[str, Any]]:
    """The rows of a table; none where there is no such table."""
    return tables[name].frame.to_dicts() if name in tables else []
