"""Atari games and other environments of images as stacks of four grey frames, 84 by 84.

The protocol of the games is that of Machado et al. (2018) with the preprocessing of Mnih et al. (2015): one frame of
every four, the brighter of the last two; up to 30 idle frames at a start; sticky actions as the id has them (with
probability 0.25 in version 5); episodes to the game's end, and rewards as they are. Frames before the first are black.

Single games are preprocessed by Gymnasium's wrappers, vectors by `ale_py` itself. Both give the same bytes, but for two
details: starts have 1 to 30 idle frames or 0 to 30, and the limit of an episode's frames does or does not count them.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation, GrayscaleObservation, ResizeObservation

from srgdqn.errors import InputError, unknown
from srgdqn.extras import require

FRAMES, SIDE, SKIP, MOST_IDLE = 4, 84, 4, 30


def make_atari(identifier: str, *, render_mode: str | None = None, **options: Any) -> gymnasium.Env:
    """One game with observations of shape (4, 84, 84). `options` are those of `ale_py`'s environment."""
    require_game(identifier)
    _require_opencv()
    try:
        game = gymnasium.make(identifier, render_mode=render_mode, frameskip=1, **options)
    except TypeError as error:
        raise _refused(identifier, error) from error
    return _stacked(AtariPreprocessing(game, noop_max=MOST_IDLE, frame_skip=SKIP, screen_size=SIDE))


def make_atari_vector(identifier: str, count: int, *, threads: int = 0, **options: Any) -> VectorEnv:
    """Some copies of a game, stepped by `threads` of `ale_py`'s own (0: one per core); the results are the same.

    An episode that ended begins anew with the next step (`AutoresetMode.NEXT_STEP`), or at once and from a seed with
    `reset(seed=np.array([…]), options={"reset_mask": …})`.
    """
    require_game(identifier)
    protocol: dict[str, Any] = {
        "frameskip": SKIP,
        "stack_num": FRAMES,
        "img_height": SIDE,
        "img_width": SIDE,
        "noop_max": MOST_IDLE + 1,  # which it never reaches
        "use_fire_reset": False,
        "reward_clipping": False,
        "episodic_life": False,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
        "num_threads": threads,
    }
    try:
        made = gymnasium.make_vec(identifier, count, vectorization_mode="vector_entry_point", **protocol, **options)
    except TypeError as error:
        raise _refused(identifier, error) from error
    return _SeededByLists(made)


class _SeededByLists(VectorWrapper):
    """Takes a list of seeds, as Gymnasium's own vector environments do; `ale_py`'s takes an array."""

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return self.env.reset(seed=np.array(seed) if isinstance(seed, list) else seed, options=options)  # type: ignore[arg-type]  # as it is documented


def image_wrappers(environment: gymnasium.Env) -> gymnasium.Env:
    """Any environment of images (height, width, colours) with observations of shape (4, 84, 84) instead."""
    space = environment.observation_space
    if not is_picture(space):
        raise InputError(
            f"an observation is {space}, but images have the shape (height, width, 3) or (height, width) and numbers "
            "from 0 to 255 of type uint8. Wrap the environment accordingly, or use network = 'mlp'."
        )
    _require_opencv()
    if len(space.shape or ()) == 3:
        environment = GrayscaleObservation(environment)
    return _stacked(ResizeObservation(environment, (SIDE, SIDE)))


def is_picture(space: gymnasium.Space) -> bool:
    """Whether observations are grey or coloured images as cameras give them."""
    shape = space.shape or ()
    return isinstance(space, Box) and space.dtype == "uint8" and (len(shape) == 2 or shape[2:] == (3,))


def _stacked(environment: gymnasium.Env) -> gymnasium.Env:
    return FrameStackObservation(environment, FRAMES, padding_type="zero")


def _ale() -> ModuleType:
    """`ale_py`, which registers its ids when it is imported, with its greeting on standard error switched off."""
    require("ale_py", "atari", "An Atari game")
    import ale_py

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    return ale_py


def require_game(identifier: str) -> None:
    """An `InputError` unless the id is that of a known game."""
    _ale()
    games = [name for name in gymnasium.registry if name.startswith("ALE/")]
    if identifier not in games:
        raise unknown("Atari game", identifier, games)


def _require_opencv() -> None:
    require("cv2", "atari", "Resizing images")


def _refused(identifier: str, error: TypeError) -> InputError:
    return InputError(
        f"{identifier} does not take these options: {error}. Give options that ale-py documents, except those of "
        "preprocessing."
    )
