"""DQN of rejax on gymnax's tasks, mapped over seeds.

rejax makes one update per step of all its environments: 16 of them side by side give an update per 16 steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import gymnax
from rejax import DQN
from rejax.networks import DiscreteQNetwork, EpsilonGreedyPolicy

from job.clocks import measure_calls
from job.jax_dqn import train_all
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
    read_job,
)


def make_environment(identifier: str) -> tuple[Any, Any]:
    """The environment of gymnax, whose step returns termination and truncation since 1.0, as rejax knew it."""
    environment, settings = gymnax.make(identifier)

    class OneEnding(type(environment)):  # type: ignore[misc]
        """The same with a single sign that an episode is over."""

        def step(self, key: Any, state: Any, action: Any, params: Any = None) -> tuple:
            *outcome, terminated, truncated, info = super().step(key, state, action, params)
            return *outcome, terminated | truncated, info

    return OneEnding(), settings


def make_algorithm(job: Job) -> DQN:
    environment, settings = make_environment(job.gymnasium_id)
    algorithm = DQN.create(
        env=environment,
        env_params=settings,
        total_timesteps=job.steps,
        eval_freq=job.steps,
        skip_initial_evaluation=True,
        num_envs=UPDATE_EVERY,
        num_epochs=1,
        buffer_size=CAPACITY,
        fill_buffer=LEARNING_STARTS,
        batch_size=BATCH,
        learning_rate=STEP_SIZE,
        gamma=GAMMA,
        ddqn=False,
        target_update_freq=TARGET_EVERY,
        polyak=0.0,  # a copy
        eps_start=EPSILON_START,
        eps_end=EPSILON_END,
        exploration_fraction=1.0,
    )
    # `create` offers no other widths than its own.
    network = EpsilonGreedyPolicy(DiscreteQNetwork)(
        hidden_layer_sizes=job.hidden, activation=nn.relu, action_dim=environment.num_actions
    )
    return algorithm.replace(agent=network, eval_callback=lambda algorithm, state, key: ())


def prepare(job: Job) -> Callable[[int], int]:
    train = train_all(make_algorithm(job).train, job.rounds)

    def run(seed: int) -> int:
        train(seed)
        return job.rounds * job.learning_steps

    return run


if __name__ == "__main__":
    asked = read_job(__doc__)
    measure_calls(asked, lambda: prepare(asked))
