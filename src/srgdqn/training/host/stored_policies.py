"""Stored policies judged in an environment, whichever process trained them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import jax

from srgdqn.adapters.environments import Source, close
from srgdqn.adapters.policy import GreedyPolicy, greedy_policy
from srgdqn.adapters.spaces import Actions, Observations
from srgdqn.config import Configuration
from srgdqn.learner.networks import Network, Parameters
from srgdqn.learner.normalisation import Normaliser, normalise_observation
from srgdqn.runs.provenance import required
from srgdqn.training.evaluation import Evaluation
from srgdqn.training.host.evaluation import judge
from srgdqn.training.host.task import HostTask, check_same_spaces, host_task


def policy_of(network: Network, parameters: Parameters, normaliser: Normaliser) -> GreedyPolicy:
    """The greedy policy of parameters."""

    @jax.jit
    def compiled(theta: Parameters, moments: Normaliser, rows: Any) -> Any:
        return network.q_values(theta, normalise_observation(moments, rows)).argmax(-1)

    policy = greedy_policy(network, compiled)
    policy.update(parameters, normaliser)
    return policy


def same_task(configuration: Configuration, source: Source, about: dict[str, Any]) -> HostTask:
    """The task of a source, if a run that tells of itself so could have been trained on it."""
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
            yield judge(
                environment,
                task.name,
                task.observations,
                task.actions,
                policy,
                seed=seed,
                episodes=episodes,
                limit=task.evaluation_limit,
            )
    finally:
        close(environment, task.name)
