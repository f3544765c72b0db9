"""DQN of Stable-Baselines3."""

from __future__ import annotations

import gymnasium
import torch
from stable_baselines3 import DQN

from job.baselines_options import callback_of, options_of, updates_of
from job.clocks import Tick, measure_rounds
from job.settings import Job, read_job


def train_round(job: Job, seed: int, tick: Tick) -> int:
    # The device is named, or else a graphics card would take part.
    model = DQN("MlpPolicy", gymnasium.make(job.gymnasium_id), seed=seed, device="cpu", **options_of(job))
    model.learn(job.steps, callback=callback_of(tick), log_interval=None)
    return updates_of(model)


if __name__ == "__main__":
    asked = read_job(__doc__)
    torch.set_num_threads(1)  # more slow networks this small down
    measure_rounds(asked, lambda seed, tick: train_round(asked, seed, tick))
