"""Greedy evaluation on the host, by the protocol of the compiled one: starts that depend on the run's seed and the
episode's number alone, no exploration, a limit on every episode.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np

from srgdqn.host.failures import failed
from srgdqn.host.policy import ActsOnOne
from srgdqn.host.spaces import Actions, Observations
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
            for _ in range(limit):
                chosen = policy.one(observations.encode(given))
                given, reward, terminated, truncated, _ = environment.step(actions.table[chosen])
                returns[episode] += float(reward)
                lengths[episode] += 1
                if terminated or truncated:
                    terminations[episode] = bool(terminated)
                    break
        except Exception as error:
            when = f"at step {lengths[episode]} of episode {episode} of an evaluation"
            raise failed(name, when, f"raised {type(error).__name__} ({error})") from error
    return Evaluation(returns, lengths, terminations)  # type: ignore[arg-type]  # NumPy's arrays serve as well


def evaluation_seed(seed: int, episode: int) -> int:
    """The seed of an evaluation's episode."""
    return int(np.random.SeedSequence(seed, spawn_key=(_STREAM, episode)).generate_state(1)[0] >> 1)
