"""Gymnasium's environment by itself, stepped in Python with random actions: what nobody who steps it can exceed.

Actions are drawn before the clock starts. Episodes end sooner than under a policy that has learned, and resets count.
"""

from __future__ import annotations

from collections.abc import Callable

import gymnasium
import numpy as np

from job.clocks import measure_calls
from job.settings import WARM_UP_STEPS, Job, read_job


def prepare(job: Job) -> Callable[[int], int]:
    environment = gymnasium.make(job.gymnasium_id)
    generator = np.random.default_rng(job.seed)
    # Plain integers, as stepping with NumPy's is slower.
    actions = generator.integers(environment.action_space.n, size=job.steps).tolist()
    play(environment, actions[:WARM_UP_STEPS], job.seed)
    return lambda seed: play(environment, actions, seed)


def play(environment: gymnasium.Env, actions: list[int], seed: int) -> int:
    environment.reset(seed=seed)
    for action in actions:
        _, _, terminated, truncated, _ = environment.step(action)
        if terminated or truncated:
            environment.reset()
    return len(actions)


if __name__ == "__main__":
    asked = read_job(__doc__)
    measure_calls(asked, lambda: prepare(asked))
