"""Greedy evaluation on the host, by the protocol of the compiled one: starts that depend on the run's seed and the
episode's number alone, no exploration, a limit on every episode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import gymnasium as gym
import jax
import numpy as np

from srgdqn.adapters.action_masks import read_mask
from srgdqn.adapters.environments import Source, close
from srgdqn.adapters.failures import RAISED, described, failed
from srgdqn.adapters.policy import GreedyPolicy, greedy_policy
from srgdqn.adapters.spaces import Actions, Observations, OddValueError, flag_of, reward_of
from srgdqn.config import Configuration
from srgdqn.learner.exploration import best_actions
from srgdqn.learner.networks import Network, Parameters
from srgdqn.learner.normalisation import Normaliser, normalise_observation
from srgdqn.runs.provenance import required
from srgdqn.training.evaluation import STREAM, Evaluation
from srgdqn.training.host.task import HostTask, check_same_spaces, host_task


def evaluate_policy(
    environment: gym.Env,
    task: HostTask,
    act: Callable[..., int],
    *,
    seed: int,
    episodes: int,
    stream: int = STREAM,
) -> Evaluation:
    """Plays episodes of a task in a copy of its environment; `act` chooses an action's index by an observation and,
    where the task has such, a mask.
    """
    observations, actions = task.observations, task.actions

    def seen(given: Any, info: Any) -> tuple[np.ndarray, ...]:
        masks = (read_mask(info, actions.count),) if task.masked else ()
        return _finite(observations.encode(given)), *masks

    returns, lengths, terminations = np.zeros(episodes), np.zeros(episodes, np.int32), np.zeros(episodes, bool)
    for episode in range(episodes):
        try:
            present = seen(*environment.reset(seed=evaluation_seed(seed, episode, stream)))
            for _ in range(task.evaluation_limit):
                lengths[episode] += 1
                given, reward, terminated, truncated, info = environment.step(actions.table[act(*present)])
                gained, end = _finite_reward(reward), flag_of(terminated, "terminated")
                ended = end or flag_of(truncated, "truncated")
                returns[episode] += gained
                if ended:
                    terminations[episode] = end
                    break
                present = seen(given, info)
        except RAISED as error:
            when = f"at step {lengths[episode]} of episode {episode} of an evaluation"
            what = f"gave {error}" if isinstance(error, OddValueError) else f"raised {described(error)}"
            raise failed(task.name, when, what) from error
    return Evaluation(returns, lengths, terminations)  # type: ignore[arg-type]  # NumPy's arrays serve as well


def evaluation_seed(seed: int, episode: int, stream: int = STREAM) -> int:
    """The seed of an evaluation's episode."""
    return int(np.random.SeedSequence(seed, spawn_key=(stream, episode)).generate_state(1)[0] >> 1)


def _finite(observation: np.ndarray) -> np.ndarray:
    if not np.isfinite(observation).all():
        raise OddValueError(f"the observation {observation}")
    return observation


def _finite_reward(given: Any) -> float:
    reward = reward_of(given)
    if not np.isfinite(reward):
        raise OddValueError(f"the reward {reward}")
    return reward


def policy_of(network: Network, parameters: Parameters, normaliser: Normaliser) -> GreedyPolicy:
    """The greedy policy of parameters."""

    @jax.jit
    def compiled(theta: Parameters, moments: Normaliser, rows: Any, masks: Any = None) -> Any:
        return best_actions(network.q_values(theta, normalise_observation(moments, rows)), masks)

    policy = greedy_policy(network, compiled)
    policy.update(parameters, normaliser)
    return policy


def same_task(configuration: Configuration, source: Source, about: dict[str, Any]) -> HostTask:
    """The task of a source, if a run with this metadata could have been trained on it."""
    task = host_task(configuration, source)
    stored = (
        Observations.from_metadata(required(about, "observations")),
        Actions.from_metadata(required(about, "action_table"), required(about, "action_type")),
    )
    check_same_spaces(source.name, (task.observations, task.actions), stored)
    return task


def evaluate_policies(
    task: HostTask, policies: Iterable[GreedyPolicy], *, seed: int, episodes: int
) -> Iterator[Evaluation]:
    """Plays the same episodes with one policy after the other."""
    environment = task.source.fresh()
    try:
        for policy in policies:
            yield evaluate_policy(environment, task, policy.one, seed=seed, episodes=episodes)
    finally:
        close(environment, task.name)
