"""One number per round for how well it ended, comparable between algorithms."""

from __future__ import annotations

import numpy as np
import polars as pl

from srgdqn.result import Result

LAST_SHARE = 0.2  # of a step budget
LAST_EPISODES = 100  # of an episode budget


def final_scores(result: Result, random_score: float) -> np.ndarray:
    """Each round's mean reward per action over the last fifth of its steps or, under an episode budget, its mean return
    over its last hundred episodes. A round that went non-finite scores as the random policy.
    """
    rounds = result.rounds.sort("round")
    training = result.configuration.training
    if training.episodes is not None:
        rows = result.episodes.filter(pl.col("episode") >= training.episodes - LAST_EPISODES)
        value = pl.col("return")
    else:
        first = (1 - LAST_SHARE) * pl.col("step").max().over("round")
        rows = result.curves.filter(pl.col("step") > first)
        value = pl.col("reward")
    means = rows.group_by("round").agg(value.mean().alias("score"))
    joined = rounds.join(means, on="round", how="left").sort("round")
    scores = joined["score"].to_numpy().astype(float)
    diverged = joined["diverged_at"].is_not_null().to_numpy()
    return np.where(diverged, random_score, scores)
