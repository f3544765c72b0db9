"""Greedy episodes in an ordinary Gymnasium environment, image by image."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from srgdqn.config import Configuration
from srgdqn.config.identifiers import is_identifier
from srgdqn.config.presets import is_compiled
from srgdqn.errors import InputError

Act = Callable[[Any], Any]

_NO_SCREEN = {"SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy"}


class Played(NamedTuple):
    """What an episode came to."""

    total_reward: float
    length: int
    terminated: bool


class Shot(NamedTuple):
    """An image of an episode, and what it came to if this is its last."""

    image: np.ndarray
    ended: Played | None


def playing_environment(configuration: Configuration) -> gymnasium.Env:
    """The environment that a configuration's policies are shown in, which gives images.

    One of the paper's tasks is its Gymnasium twin with the options of the run, under the limit of its evaluations. That
    of an id has no other limit than its own, if it has one.
    """
    settings = configuration.task
    if not is_compiled(settings.task) and is_identifier(settings.task):
        from srgdqn.adapters.environments import source_of

        return source_of(settings.task).fresh("rgb_array")
    if not is_compiled(settings.task):
        raise InputError(
            f"the task of this run is the environment {settings.task!r}, which is not stored with it. Give a Gymnasium "
            "environment of it that has render_mode='rgb_array': srgdqn.video(result, path, environment=…)."
        )
    # Only now: the tasks need jax, which is not needed to find that there is nothing to show.
    from srgdqn import environments, tasks

    environments.register()
    limit = tasks.with_evaluation_limit(tasks.make(settings), configuration.training.evaluation_limit).evaluation_limit
    given = {"torques": settings.torques, "dynamics": settings.dynamics}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if settings.task != "Pendulum":  # whose only reward is Gymnasium's own
        options["reward"] = settings.reward
    return gymnasium.make(f"srgdqn/{settings.task}-v0", render_mode="rgb_array", max_episode_steps=limit, **options)


@contextmanager
def without_screen() -> Iterator[None]:
    """Keeps SDL, which draws many environments' images, from looking for a screen or loudspeakers meanwhile."""
    added = [name for name in _NO_SCREEN if name not in os.environ]
    os.environ.update({name: _NO_SCREEN[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def check_images(environment: gymnasium.Env) -> None:
    """An `InputError` if the environment gives no images."""
    if environment.render_mode != "rgb_array":
        known = environment.metadata.get("render_modes", [])
        advice = "Make it with render_mode='rgb_array'." if "rgb_array" in known else f"It only knows {known}."
        raise InputError(
            f"the environment's render mode is {environment.render_mode!r}, but a film needs 'rgb_array'. {advice}"
        )


def play(environment: gymnasium.Env, act: Act, *, episodes: int, seed: int) -> Iterator[Shot]:
    """Plays episodes, the k-th of which starts from seed + k: an image before every step and one at the end of each."""
    for number in range(episodes):
        observation, _ = environment.reset(seed=seed + number)
        played = Played(0.0, 0, False)
        over = False
        while not over:
            yield Shot(_image(environment), None)
            observation, reward, terminated, truncated, _ = environment.step(act(observation))
            played = Played(played.total_reward + float(reward), played.length + 1, bool(terminated))
            over = bool(terminated or truncated)
        yield Shot(_image(environment), played)


def _image(environment: gymnasium.Env) -> np.ndarray:
    try:
        image: Any = environment.render()
    except gymnasium.error.DependencyNotInstalled as error:
        raise InputError(f"the environment cannot be drawn: {error} Or: pip install 'srgdqn[video]'.") from error
    if not (isinstance(image, np.ndarray) and image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3):
        got = f"an array of {image.dtype} of shape {image.shape}" if isinstance(image, np.ndarray) else repr(image)
        raise InputError(f"the environment renders {got}, but a film needs images of bytes: (height, width, 3).")
    return image
