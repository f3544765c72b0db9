"""Greedy evaluation on the host, by the protocol of the compiled one: starts that depend on the run's seed and the
episode's number alone, no exploration, a limit on every episode.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from srgdqn.adapters.failures import RAISED, described, failed
from srgdqn.adapters.policy import ActsOnOne
from srgdqn.adapters.spaces import Actions, Observations, OddValueError, flag_of, reward_of
from srgdqn.training.evaluation import Evaluation

_STREAM = 0xE7A1  # keeps the evaluation's seeds apart from the rounds'


def judge(
    environment: gym.Env,
    name: str,
    observations: Observations,
    actions: Actions,
    policy: ActsOnOne,
    *,
    seed: int,
    episodes: int,
    limit: int,
) -> Evaluation:
    """Plays episodes with the greedy policy."""
    returns, lengths, terminations = np.zeros(episodes), np.zeros(episodes, np.int32), np.zeros(episodes, bool)
    for episode in range(episodes):
        try:
            given, _ = environment.reset(seed=evaluation_seed(seed, episode))
            present = _finite(observations.encode(given))
            for _ in range(limit):
                lengths[episode] += 1
                given, reward, terminated, truncated, _ = environment.step(actions.table[policy.one(present)])
                gained, end = _finite_reward(reward), flag_of(terminated, "terminated")
                ended = end or flag_of(truncated, "truncated")
                returns[episode] += gained
                if ended:
                    terminations[episode] = end
                    break
                present = _finite(observations.encode(given))
        except RAISED as error:
            when = f"at step {lengths[episode]} of episode {episode} of an evaluation"
            what = f"gave {error}" if isinstance(error, OddValueError) else f"raised {described(error)}"
            raise failed(name, when, what) from error
    return Evaluation(returns, lengths, terminations)  # type: ignore[arg-type]  # NumPy's arrays serve as well


def evaluation_seed(seed: int, episode: int) -> int:
    """The seed of an evaluation's episode."""
    return int(np.random.SeedSequence(seed, spawn_key=(_STREAM, episode)).generate_state(1)[0] >> 1)


def _finite(observation: np.ndarray) -> np.ndarray:
    if not np.isfinite(observation).all():
        raise OddValueError(f"the observation {observation}")
    return observation


def _finite_reward(told: Any) -> float:
    reward = reward_of(told)
    if not np.isfinite(reward):
        raise OddValueError(f"the reward {reward}")
    return reward
