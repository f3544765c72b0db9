"""Ordinary environments of which everything is known beforehand, and options under which they are learned in a moment.

A worker's process imports this module by its name, so that it holds nothing which only a test can make.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete

# One shape of learning program for nearly all tests: compiling one takes longer than all else.
SMALL: dict[str, Any] = dict(
    hidden=(4,),
    batch_size=4,
    inner_iterations=2,
    replay_capacity=40,
    learning_frequency=8,
    learning_starts=16,
    window=20,
    evaluation_interval=None,
    evaluation_episodes=2,
)


class Counting(gym.Env):
    """Observes the episode, the step and the last action. Episode number e takes lengths[e] steps (over and over); the
    even ones terminate and the odd ones are truncated. The reward tells all of it.
    """

    observation_space = Box(-np.inf, np.inf, (3,), np.float32)
    action_space = Discrete(3)
    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(self, lengths: Sequence[int] = (3, 5, 2)) -> None:
        self.lengths, self.episode, self.seeds = tuple(lengths), -1, list[int | None]()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.episode, self.step_ = self.episode + 1, 0
        return observed(self.episode, 0, 0), {}

    def step(self, action: Any) -> tuple[Any, ...]:
        assert self.step_ < self.lengths[self.episode % len(self.lengths)], "the episode has ended"
        self.step_ += 1
        terminated, truncated = ends(self.lengths, self.episode, self.step_)
        after = observed(self.episode, self.step_, int(action))
        return after, rewarded(self.episode, self.step_, int(action)), terminated, truncated, {}


def observed(episode: int, step: int, action: int) -> np.ndarray:
    return np.array([episode, step, action], np.float32)


def rewarded(episode: int, step: int, action: int) -> float:
    return episode + step / 64 + action / 1024


def ends(lengths: Sequence[int], episode: int, step: int) -> tuple[bool, bool]:
    last = step == lengths[episode % len(lengths)]
    return last and episode % 2 == 0, last and episode % 2 == 1


class Slope(gym.Env):
    """A ball on a slope that is pushed down, left or up; at the foot the episode terminates, and after 12 steps it is
    truncated. Nothing is random but the start, which depends on the seed of the reset.
    """

    observation_space = Box(-4.0, 4.0, (2,), np.float32)
    action_space = Discrete(3)
    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.place, self.speed, self.steps = slope_start(self.np_random), 0.0, 0
        return np.array([self.place, self.speed], np.float32), {}

    def step(self, action: Any) -> tuple[Any, ...]:
        self.place, self.speed, reward, end = slope_step(self.place, self.speed, int(action))
        self.steps += 1
        return np.array([self.place, self.speed], np.float32), reward, end, self.steps >= 12 and not end, {}


def slope_start(random: np.random.Generator) -> float:
    return float(random.uniform(0.5, 1.5))


def slope_step(place: float, speed: float, action: int) -> tuple[float, float, float, bool]:
    speed = 0.9 * speed + 0.15 * (action - 1) - 0.05
    place = min(place + speed, 3.0)
    return place, speed, math.sin(place) + 0.25 * action, place < 0


def allowed(steps: int) -> np.ndarray:
    """After so many steps of an episode one action is forbidden, or two."""
    return np.array([steps % 3 != 0, steps % 3 != 1, steps % 2 == 0], np.int8)


class Masked(Slope):
    """Allows other actions from step to step, and raises where another is taken."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        seen, _ = super().reset(seed=seed, options=options)
        return seen, {"action_mask": allowed(0)}

    def step(self, action: Any) -> tuple[Any, ...]:
        if not allowed(self.steps)[action]:
            raise ValueError(f"action {action} is forbidden")
        *outcome, _ = super().step(action)
        return (*outcome, {"action_mask": allowed(self.steps)})


class Deadly(Slope):
    """Ends its whole process when it is reset with one of the seeds, but not in the process of the test."""

    def __init__(self, seeds: Sequence[int], spared: int) -> None:
        self._seeds, self._spared = seeds, spared

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        if seed in self._seeds and os.getpid() != self._spared:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().reset(seed=seed, options=options)


class Hanging(Slope):
    """Does not come back when it is reset with one of the seeds."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self._seeds = seeds

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        if seed in self._seeds:
            time.sleep(600)
        return super().reset(seed=seed, options=options)


class Talking(Slope):
    """Prints to standard output at every step, some of it without an end of line."""

    def step(self, action: Any) -> tuple[Any, ...]:
        print("pushed", action, end=chr(action) * 3)
        return super().step(action)


class Bad(Slope):
    """Does something wrong in its n-th call of `step` or `reset`."""

    def __init__(self, wrong: Callable[[Bad, Any], Any], where: str, after: int) -> None:
        self._wrong, self._where, self._left = wrong, where, after

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self._maybe("reset", super().reset(seed=seed, options=options))

    def step(self, action: Any) -> Any:
        return self._maybe("step", super().step(action))

    def _maybe(self, where: str, outcome: tuple[Any, ...]) -> Any:
        if where != self._where:
            return outcome
        self._left -= 1
        return self._wrong(self, outcome) if self._left == -1 else outcome
