"""A trained policy on film: greedy episodes in an ordinary Gymnasium environment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import gymnasium
from gymnasium.wrappers import TimeLimit

from srgdqn.config.presets import is_compiled
from srgdqn.errors import InputError
from srgdqn.integrations.filmed_episodes import (
    Act,
    Played,
    check_images,
    play,
    playing_environment,
    without_screen,
)
from srgdqn.integrations.video_files import check_video, video_writer
from srgdqn.integrations.video_progress import filming

if TYPE_CHECKING:
    from srgdqn.runs.result import Result

_USUAL_RATE = 30.0  # images per second, where an environment does not tell its own
_USUAL_LIMIT = 1_000  # steps, as of evaluations in environments without a limit


@dataclass(frozen=True)
class Film:
    """A video that was written."""

    path: Path
    rate: float
    """Images per second."""
    images: int
    episodes: tuple[Played, ...]
    """What every episode came to, in the environment's own reward."""


def video(
    result: Result,
    path: str | os.PathLike[str],
    *,
    round: int | None = None,  # noqa: A002, as the paper's word is a builtin's name
    episodes: int = 1,
    seed: int = 0,
    environment: gymnasium.Env | None = None,
    overwrite: bool = False,
    progress: bool | None = None,
) -> Film:
    """Films the greedy policy of a round.

    One of the paper's tasks is shown in its Gymnasium twin, with the reward that was learned from. Episodes end at the
    limit of the run's evaluations.

    Args:
      result: of a run.
      path: its suffix decides the format: `.mp4` (needs `srgdqn[video]`) or `.gif`.
      round: by default the best one.
      episodes: how many are played, one after the other.
      seed: the k-th episode starts from seed + k.
      environment: made with `render_mode="rgb_array"`, for a run in an environment of your own; it is not closed.
      overwrite: replace the file, if there is one.
      progress: show a progress bar (by default where there is a terminal).

    """
    target = check_video(path, overwrite=overwrite)
    act = result.policy(result.best if round is None else round)
    limit = result.run.provenance.get("evaluation_limit", _USUAL_LIMIT)
    if environment is not None:
        return film(TimeLimit(environment, limit), act, target, episodes, seed, overwrite=overwrite, progress=progress)
    with without_screen():
        shown = playing_environment(result.configuration)
        try:
            # A twin was made with that limit; others have their own, or none at all.
            cut = shown if is_compiled(result.configuration.task.task) else TimeLimit(shown, limit)
            return film(cut, act, target, episodes, seed, overwrite=overwrite, progress=progress)
        finally:
            shown.close()


def film(
    environment: gymnasium.Env,
    act: Act,
    path: str | os.PathLike[str],
    episodes: int = 1,
    seed: int = 0,
    *,
    overwrite: bool = False,
    progress: bool | None = None,
) -> Film:
    """Films episodes of anything that turns an observation into an action."""
    target = check_video(path, overwrite=overwrite)
    if episodes < 1 or seed < 0:
        raise InputError(f"episodes is {episodes} and seed is {seed}, but must be at least 1 and 0. Give such numbers.")
    check_images(environment)
    rate = float(environment.metadata.get("render_fps") or _USUAL_RATE)
    limit = environment.spec.max_episode_steps if environment.spec is not None else None
    played: list[Played] = []
    images = 0
    with filming(target.name, episodes, limit, progress) as listen, video_writer(target, rate=rate) as add:
        for shot in play(environment, act, episodes=episodes, seed=seed):
            add(shot.image)
            images += 1
            if shot.ended is not None:
                played.append(shot.ended)
            listen(len(played), images)
    return Film(target, rate, images, tuple(played))
