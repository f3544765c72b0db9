"""The loop of single-file implementations: Gymnasium's environment stepped in Python, replay in NumPy arrays."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

import gymnasium
import numpy as np

from job.clocks import Tick
from job.settings import BATCH, CAPACITY, LEARNING_STARTS, UPDATE_EVERY, Job, Transitions, exploration


class Learner(NamedTuple):
    """What is the contender's own: the greedy action, and an update after so many steps of the round."""

    act: Callable[[np.ndarray], int]
    update: Callable[[Transitions, int], None]


def sizes_of(environment: gymnasium.Env, hidden: tuple[int, ...]) -> tuple[int, ...]:
    """The widths of a Q-network's layers, from the observation to the actions."""
    return (environment.observation_space.shape[0], *hidden, int(environment.action_space.n))


def train_in_python(environment: gymnasium.Env, job: Job, seed: int, learner: Learner, tick: Tick) -> int:
    """One round: ε-greedy steps, and an update every so many of them. Gives the updates made."""
    random.seed(seed)
    generator = np.random.default_rng(seed)
    actions = int(environment.action_space.n)
    replay = _empty_replay(environment)
    observation, _ = environment.reset(seed=seed)
    updates = 0
    for now in range(job.steps):
        explores = random.random() < exploration(now, job.steps)
        action = random.randrange(actions) if explores else learner.act(observation)
        following, reward, terminated, truncated, _ = environment.step(action)
        row = Transitions(observation, action, reward, following, terminated)
        for column, value in zip(replay, row, strict=True):
            column[now % CAPACITY] = value
        observation = environment.reset()[0] if terminated or truncated else following
        made = now + 1
        if made % UPDATE_EVERY == 0 and made >= LEARNING_STARTS:
            picks = generator.integers(min(made, CAPACITY), size=BATCH)
            learner.update(Transitions(*(column[picks] for column in replay)), made)
            updates += 1
            if not tick(made):
                break
    return updates


def _empty_replay(environment: gymnasium.Env) -> Transitions:
    rows = (CAPACITY, *environment.observation_space.shape)
    return Transitions(
        observation=np.zeros(rows, np.float32),
        action=np.zeros(CAPACITY, np.int64),
        reward=np.zeros(CAPACITY, np.float32),
        next_observation=np.zeros(rows, np.float32),
        terminated=np.zeros(CAPACITY, np.float32),
    )
