"""One number per round for how well it did, comparable between algorithms.

A round that went non-finite scores as the random policy.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from srgdqn.runs.result import Result

LAST_SHARE = 0.2  # of a step budget
LAST_EPISODES = 100  # of an episode budget


def final_scores(result: Result, random_score: float) -> np.ndarray:
    """Each round's mean reward per action over the last fifth of its steps or, under an episode budget, its mean return
    over its last hundred episodes.
    """
    training = result.configuration.training
    if training.episodes is not None:
        rows = result.episodes.filter(pl.col("episode") >= training.episodes - LAST_EPISODES)
        return _means(result, rows, "return", random_score)
    first = (1 - LAST_SHARE) * pl.col("step").max().over("round")
    return _means(result, result.curves.filter(pl.col("step") > first), "reward", random_score)


def first_half_scores(result: Result, random_score: float) -> np.ndarray:
    """Each round's mean reward per action over the first half of its steps: the area under that part of its curve."""
    half = pl.col("step").max().over("round") / 2
    return _means(result, result.curves.filter(pl.col("step") <= half), "reward", random_score)


def mean_lengths(result: Result, random_length: float) -> np.ndarray:
    """Each round's mean episode length, those that were cut counting with the length they were cut at."""
    return _means(result, result.episodes, "length", random_length)


def diverged_rounds(result: Result) -> int:
    """How many rounds went non-finite."""
    return int(result.rounds["diverged_at"].is_not_null().sum())


def _means(result: Result, rows: pl.DataFrame, column: str, random_score: float) -> np.ndarray:
    means = rows.group_by("round").agg(pl.col(column).mean().alias("score"))
    joined = result.rounds.join(means, on="round", how="left").sort("round")
    scores = joined["score"].to_numpy().astype(float)
    return np.where(joined["diverged_at"].is_not_null().to_numpy(), random_score, scores)
