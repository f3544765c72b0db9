"""The job in the words of Stable-Baselines3, which sbx shares."""

from __future__ import annotations

from typing import Any

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from job.clocks import Tick
from job.settings import (
    BATCH,
    CAPACITY,
    EPSILON_END,
    EPSILON_START,
    GAMMA,
    LEARNING_STARTS,
    STEP_SIZE,
    TARGET_EVERY,
    UPDATE_EVERY,
    Job,
)


def options_of(job: Job) -> dict[str, Any]:
    return dict(
        learning_rate=STEP_SIZE,
        buffer_size=CAPACITY,
        learning_starts=LEARNING_STARTS,
        batch_size=BATCH,
        gamma=GAMMA,
        train_freq=UPDATE_EVERY,
        gradient_steps=1,
        target_update_interval=TARGET_EVERY,
        exploration_fraction=1.0,
        exploration_initial_eps=EPSILON_START,
        exploration_final_eps=EPSILON_END,
        policy_kwargs=dict(net_arch=list(job.hidden)),
    )


def callback_of(tick: Tick) -> BaseCallback:
    return _Ticking(tick)


def updates_of(model: OffPolicyAlgorithm) -> int:
    """The updates made, by the library's own count, which it logs and has no other name for."""
    return model._n_updates


class _Ticking(BaseCallback):
    """Reports every update to the clock that is due, and ends the round when the clock says so."""

    def __init__(self, tick: Tick) -> None:
        super().__init__()
        self._tick = tick

    def _on_step(self) -> bool:
        return self.num_timesteps % UPDATE_EVERY != 0 or self._tick(self.num_timesteps)
