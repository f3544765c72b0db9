"""What is learned on the host: an environment's source, how its spaces are read, and its limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv

from srgdqn.adapters.environments import UNLIMITED_EVALUATION, Source, close, limited, own_limit
from srgdqn.adapters.players import CopiesPlayer, EnvironmentInfo, Player, VectorPlayer
from srgdqn.adapters.spaces import Actions, Observations, read_actions, read_observations, scale_of, space_of
from srgdqn.config import Configuration
from srgdqn.config.identifiers import is_identifier
from srgdqn.errors import InputError
from srgdqn.training.budget import budget_of
from srgdqn.training.tables import Endings


@dataclass(frozen=True, eq=False)
class HostTask:
    """An environment to train in, and what a network sees of it."""

    source: Source
    observations: Observations
    actions: Actions
    evaluation_limit: int
    """Steps after which an episode of evaluation is cut."""
    cap: int | None
    """Steps after which a training episode is cut that would otherwise have no end."""
    scale: tuple[np.ndarray, np.ndarray] | None = None
    """The mean and deviation that observations are scaled with, where that is on and the space is known."""
    masked: bool = False
    """Whether the environment's info says which actions are allowed."""

    @property
    def name(self) -> str:
        """What it is called."""
        return self.source.name

    @property
    def endings(self) -> Endings:
        """What the end of an episode means."""
        return Endings("truncated" if self.cap is None else "censored", "none")

    @property
    def network_input(self) -> int | tuple[int, ...]:
        """What a network is made for."""
        return self.observations.shape if self.observations.kind == "image" else self.observations.size


def host_task(configuration: Configuration, source: Source) -> HostTask:
    """The task of a source, if it can be learned; an `InputError` that names the space and a way out otherwise."""
    settings = configuration.task
    environment = source.given if source.given is not None else source.fresh()
    try:
        many = isinstance(environment, VectorEnv)
        observations, actions = read_spaces(configuration, environment, source.name)
        limit = own_limit(environment)
        seen = space_of(environment, "observation")
    finally:
        if source.given is None:
            close(environment, source.name)
    _check_fits(configuration, observations, source, many)
    _check_limit(configuration, limit, source.name)
    endless = settings.time_limit is None and limit is None and budget_of(configuration.training).unit == "episodes"
    return HostTask(
        source,
        observations,
        actions,
        configuration.training.evaluation_limit or settings.time_limit or limit or UNLIMITED_EVALUATION,
        configuration.training.episode_cap if endless else None,
        scale_of(seen, source.name) if configuration.normalisation.scale_observations else None,
        configuration.acting.action_masks,
    )


def read_spaces(
    configuration: Configuration, environment: gym.Env | VectorEnv, name: str
) -> tuple[Observations, Actions]:
    """How an environment's observations and actions are read; an `InputError` where they cannot be."""
    seen, done = space_of(environment, "observation"), space_of(environment, "action")
    observations = read_observations(seen, name, as_image=configuration.network.network != "mlp")
    return observations, read_actions(done, name, configuration.task.action_bins)


def check_same_spaces(name: str, found: tuple[Observations, Actions], expected: tuple[Observations, Actions]) -> None:
    """An `InputError` if what was learned with some spaces is to be used with others."""
    if found[0] != expected[0]:
        raise InputError(
            f"the observations of {name} are {found[0].words}, but {expected[0].words} were learned with. Give an "
            "environment with the same spaces."
        )
    if found[1].count != expected[1].count:
        raise InputError(
            f"{name} has {found[1].count} actions, but {expected[1].count} were learned with. Give an environment "
            "with the same spaces."
        )


def about_task(task: HostTask) -> dict[str, Any]:
    """What a run stores about its task, for its policies to be used without it: JSON values."""
    return {
        "observation_size": task.observations.size,
        "observation_kind": task.observations.kind,
        "observation_shape": list(task.observations.shape),
        "observations": task.observations.metadata(),
        "actions": task.actions.count,
        "action_type": task.actions.kind,
        "action_table": [np.asarray(action).tolist() for action in task.actions.table],
        "evaluation_limit": task.evaluation_limit,
    }


def make_player(
    configuration: Configuration, task: HostTask, number: int, begun: Sequence[int] = ()
) -> tuple[Player, list[gym.Env | VectorEnv]]:
    """The player of a round, and those of its environments that are to be closed after it. `begun` are the episodes
    that each of them has begun before.
    """
    source, settings = task.source, configuration.training

    def seeds(environment: int, episode: int) -> int:
        return reset_seed(settings.seed, number, environment, episode)

    about = EnvironmentInfo(task.name, task.observations, task.actions, seeds, begun, task.masked)
    if isinstance(source.given, VectorEnv):
        return VectorPlayer(source.given, about), []
    if source.given is not None and settings.environments == 1:
        environment = limited(source.given, configuration.task, task.cap)
        return CopiesPlayer([environment], about), []
    if source.make_vector is not None and settings.environments > 1 and configuration.task.time_limit is None:
        together = source.make_vector(settings.environments)
        return VectorPlayer(together, about), [together]
    copies = [limited(source.fresh(), configuration.task, task.cap) for _ in range(settings.environments)]
    return CopiesPlayer(copies, about), list(copies)


def reset_seed(seed: int, number: int, environment: int, episode: int) -> int:
    """The seed of an episode's reset, a function of the run's seed, the round, the environment and the episode."""
    words = np.random.SeedSequence(seed, spawn_key=(number, environment, episode)).generate_state(1)
    return int(words[0] >> 1)  # some environments take 31 bits


def _check_fits(configuration: Configuration, observations: Observations, source: Source, many: bool) -> None:
    network, settings = configuration.network.network, configuration.training
    if network == "cnn" and observations.kind != "image":
        raise InputError(
            f"the network is 'cnn', but the observations of {source.name} are no images (uint8, 36 pixels or more "
            f"each way): they are {observations.words}. Give network = 'mlp'."
        )
    normalisation = configuration.normalisation
    if observations.kind == "image" and (normalisation.normalise_observations or normalisation.scale_observations):
        option = "normalise_observations" if normalisation.normalise_observations else "scale_observations"
        raise InputError(
            f"{option} is on, but the observations of {source.name} are images, which the network "
            "divides by 255. Switch it off."
        )
    if many:
        assert isinstance(source.given, VectorEnv)
        if settings.environments != source.given.num_envs:
            raise InputError(
                f"environments is {settings.environments}, but the vector environment {source.name} has "
                f"{source.given.num_envs}. Give environments = {source.given.num_envs}."
            )
        if configuration.task.time_limit is not None:
            raise InputError(
                f"time_limit is {configuration.task.time_limit}, but the vector environment {source.name} keeps its "
                "own limits. Make it with max_episode_steps, and leave time_limit out."
            )
    if source.given is not None and settings.rounds > 1 and source.recipe is None:
        raise InputError(
            f"rounds is {settings.rounds}, but the environment {source.name} was given as one instance, of which "
            "every round would need its own. Give an id or a function that makes it."
        )


def _check_limit(configuration: Configuration, limit: int | None, name: str) -> None:
    asked = configuration.task.time_limit
    if asked is not None and limit is not None and asked > limit:
        option = f"max_episode_steps={asked}"
        longer = f"{name},{option}" if is_identifier(name) else f"made with {option}"
        raise InputError(
            f"time_limit is {asked}, but episodes of {name} end after {limit} steps by themselves. Give a smaller one, "
            f"or the environment {longer}."
        )
