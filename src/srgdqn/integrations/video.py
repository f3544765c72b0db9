"""Videos of a trained policy: greedy episodes in an ordinary Gymnasium environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.wrappers import TimeLimit
from rich.console import Console
from rich.progress import Progress

from srgdqn.adapters.environments import close, source_of
from srgdqn.config import Configuration
from srgdqn.config.discovery import COMPILED_TASKS
from srgdqn.config.identifiers import is_identifier
from srgdqn.config.presets import is_compiled
from srgdqn.errors import InputError
from srgdqn.integrations.video_files import check_video, video_writer

if TYPE_CHECKING:
    from srgdqn.results.result import Act, Result, Which


_NO_SCREEN = {"SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy"}
_USUAL_RATE = 30.0  # images per second, where an environment has no render_fps
_USUAL_LIMIT = 1_000  # steps, as of evaluations in environments without a limit


class Played(NamedTuple):
    """Return and length of an episode."""

    total_reward: float
    length: int
    terminated: bool


@dataclass(frozen=True)
class Film:
    """A video that was written."""

    path: Path
    rate: float
    """Images per second."""
    images: int
    episodes: tuple[Played, ...]
    """Return and length of every episode, in the environment's own reward."""


def video(
    result: Result,
    path: str | os.PathLike[str],
    *,
    round: int | None = None,  # noqa: A002, as the paper's word is a builtin's name
    which: Which = "last",
    episodes: int = 1,
    seed: int = 0,
    environment: gymnasium.Env | None = None,
    overwrite: bool = False,
    progress: bool | None = None,
) -> Film:
    """Films the greedy policy of a round.

    A compiled task is shown in its Gymnasium twin, with the reward that was learned from. Episodes end at the
    limit of the run's evaluations.

    Args:
      result: of a run.
      path: its suffix decides the format: `.mp4` (needs `srgdqn[video]`) or `.gif`.
      round: by default the best one.
      which: the round's last policy, or the best of its evaluations.
      episodes: how many are played, one after the other.
      seed: the k-th episode starts from seed + k.
      environment: made with `render_mode="rgb_array"`, for a run in an environment of your own; it is not closed.
      overwrite: replace the file, if there is one.
      progress: show a progress bar (by default where there is a terminal).

    """
    target = check_video(path, overwrite=overwrite)
    act = result.policy(result.best if round is None else round, which)
    limit = result.run.provenance.get("evaluation_limit", _USUAL_LIMIT)
    # The twin of a compiled task is made with that limit; others have their own, or none at all.
    own_limit = environment is None and is_compiled(result.configuration.task.task)
    with filming_environment(
        lambda: playing_environment(result.configuration), environment, None if own_limit else limit
    ) as shown:
        how: dict[str, Any] = {"overwrite": overwrite, "progress": progress}
        return film(shown, act, target, episodes, seed, **how, masked=result.configuration.acting.action_masks)


@contextmanager
def filming_environment(
    make: Callable[[], gymnasium.Env], given: gymnasium.Env | None, limit: int | None
) -> Iterator[gymnasium.Env]:
    """The environment given, or one that is made and closed, with a limit of steps, where no screen is needed."""
    with without_screen():
        shown = make() if given is None else given
        try:
            yield shown if limit is None else TimeLimit(shown, limit)
        finally:
            if given is None:
                close(shown, type(shown.unwrapped).__name__)


def film(
    environment: gymnasium.Env,
    act: Act,
    path: str | os.PathLike[str],
    episodes: int = 1,
    seed: int = 0,
    *,
    overwrite: bool = False,
    progress: bool | None = None,
    masked: bool = False,
) -> Film:
    """Films episodes of anything that turns an observation (and, `masked`, what `info["action_mask"]` has, as
    `action_masks`) into an action.

    There is an image before every step and one at the end of each episode; the k-th episode starts from seed + k.
    """
    target = check_video(path, overwrite=overwrite)
    if episodes < 1 or seed < 0:
        raise InputError(f"episodes is {episodes} and seed is {seed}, but must be at least 1 and 0. Give such numbers.")
    if environment.render_mode != "rgb_array":
        known = environment.metadata.get("render_modes", [])
        advice = "Make it with render_mode='rgb_array'." if "rgb_array" in known else f"It only knows {known}."
        raise InputError(
            f"the environment's render mode is {environment.render_mode!r}, but a film needs 'rgb_array'. {advice}"
        )
    rate = float(environment.metadata.get("render_fps") or _USUAL_RATE)
    played: list[Played] = []
    images = 0
    shown = sys.stderr.isatty() if progress is None else progress
    with Progress(console=Console(stderr=True), disable=not shown) as bar, video_writer(target, rate=rate) as write:
        task = bar.add_task(target.name, total=episodes)

        def add_image() -> None:
            nonlocal images
            write(_image(environment))
            images += 1
            bar.update(task, description=f"{target.name}: episode {len(played) + 1}, {images} images")

        for number in range(episodes):
            observation, info = environment.reset(seed=seed + number)
            total, length, terminated, truncated = 0.0, 0, False, False
            add_image()
            while not (terminated or truncated):
                masks = {"action_masks": info["action_mask"]} if masked else {}
                observation, reward, terminated, truncated, info = environment.step(act(observation, **masks))
                total, length = total + float(reward), length + 1
                add_image()
            played.append(Played(total, length, bool(terminated)))
            bar.advance(task)
    return Film(target, rate, images, tuple(played))


def playing_environment(configuration: Configuration) -> gymnasium.Env:
    """The environment that a configuration's policies are shown in, which gives images.

    A compiled task is its Gymnasium twin with the options of the run, under the limit of its evaluations. That
    of an id has no other limit than its own, if it has one.
    """
    settings = configuration.task
    if not is_compiled(settings.task):
        if is_identifier(settings.task):
            return source_of(settings.task).fresh("rgb_array")
        raise InputError(
            f"the task of this run is the environment {settings.task!r}, which is not stored with it. Give a Gymnasium "
            "environment of it that has render_mode='rgb_array': srgdqn.video(result, path, environment=…)."
        )
    # Imported only now: the tasks need jax, which the refusal above does not.
    from srgdqn import environments, tasks

    environments.register()
    limit = tasks.task_of(configuration).evaluation_limit
    about = COMPILED_TASKS[settings.task]
    names = (*about.options, *(("reward",) if len(about.rewards) > 1 else ()))
    options = {name: value for name in names if (value := getattr(settings, name)) is not None}
    return gymnasium.make(f"srgdqn/{settings.task}-v0", render_mode="rgb_array", max_episode_steps=limit, **options)


@contextmanager
def without_screen() -> Iterator[None]:
    """Runs SDL, which draws many environments' images, without a screen or loudspeakers."""
    added = [name for name in _NO_SCREEN if name not in os.environ]
    os.environ.update({name: _NO_SCREEN[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _image(environment: gymnasium.Env) -> np.ndarray:
    try:
        image: Any = environment.render()
    except gymnasium.error.DependencyNotInstalled as error:
        raise InputError(f"the environment cannot be drawn: {error} Or: pip install 'srgdqn[video]'.") from error
    if not (isinstance(image, np.ndarray) and image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3):
        got = f"an array of {image.dtype} of shape {image.shape}" if isinstance(image, np.ndarray) else repr(image)
        raise InputError(f"the environment renders {got}, but a film needs images of bytes: (height, width, 3).")
    return image
