"""DQN of sbx, Stable-Baselines3's sibling with networks in JAX."""

from __future__ import annotations

import gymnasium
import torch
from sbx import DQN

from job.baselines_options import callback_of, options_of, updates_of
from job.clocks import Tick, measure_rounds
from job.settings import Job, read_job


def train_round(job: Job, seed: int, tick: Tick) -> int:
    model = DQN("MlpPolicy", gymnasium.make(job.gymnasium_id), seed=seed, **options_of(job))
    model.learn(job.steps, callback=callback_of(tick), log_interval=None)
    return updates_of(model)


if __name__ == "__main__":
    asked = read_job(__doc__)
    torch.set_num_threads(1)  # its replay memory gives tensors of PyTorch's
    measure_rounds(asked, lambda seed, tick: train_round(asked, seed, tick))
