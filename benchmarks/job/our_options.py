"""The job in the words of `srgdqn.train`."""

from __future__ import annotations

from typing import Any

from job.settings import (
    BATCH,
    CAPACITY,
    EPSILON_END,
    EPSILON_START,
    GAMMA,
    GRADIENT_STEP_SIZE,
    LEARNING_STARTS,
    STEP_SIZE,
    TARGET_EVERY,
    UPDATE_EVERY,
)
from srgdqn.paper.tuning_search import step_sizes

# A target network as the others have it, where the paper has none.
TARGET_NETWORK: dict[str, Any] = dict(gamma=GAMMA, target="hard", target_period=TARGET_EVERY // UPDATE_EVERY)


def used_step_sizes(algorithm: str, **sizes: float) -> dict[str, float]:
    """Those of η and α that an algorithm uses; the other would be refused."""
    used = dict(zip(("eta", "alpha"), step_sizes(algorithm), strict=True))
    return {name: size for name, size in sizes.items() if used[name]}


def shared_options(hidden: tuple[int, ...], algorithm: str) -> dict[str, Any]:
    return dict(
        hidden=hidden,
        batch_size=BATCH,
        replay_capacity=CAPACITY,
        learning_frequency=UPDATE_EVERY,
        learning_starts=LEARNING_STARTS,
        epsilon_start=EPSILON_START,
        epsilon_end=EPSILON_END,
        **used_step_sizes(algorithm, eta=GRADIENT_STEP_SIZE, alpha=STEP_SIZE),
        evaluation_interval=None,
        evaluation_episodes=1,
        progress=False,
    )
