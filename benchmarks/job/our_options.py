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

# A target network as the others have it, where the paper has none.
TARGET_NETWORK: dict[str, Any] = dict(gamma=GAMMA, target="hard", target_period=TARGET_EVERY // UPDATE_EVERY)


def shared_options(hidden: tuple[int, ...]) -> dict[str, Any]:
    return dict(
        hidden=hidden,
        batch_size=BATCH,
        replay_capacity=CAPACITY,
        learning_frequency=UPDATE_EVERY,
        learning_starts=LEARNING_STARTS,
        epsilon_start=EPSILON_START,
        epsilon_end=EPSILON_END,
        alpha=STEP_SIZE,
        eta=GRADIENT_STEP_SIZE,
        evaluation_interval=None,
        evaluation_episodes=1,
        progress=False,
    )
