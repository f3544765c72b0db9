"""States and actions that cover each task's whole state space, for every comparison of two implementations of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import jax
import numpy as np
import pytest

SPREAD = 12_000
"""Random transitions over the whole state space; the critical regions come on top."""
CRITICAL = 4_000


@dataclass(frozen=True)
class Cases:
    """Float64 states and actions to start single transitions from."""

    states: np.ndarray
    actions: np.ndarray


def _box(random: np.random.Generator, count: int, *ranges: tuple[float, float]) -> np.ndarray:
    low, high = np.array(ranges).T
    return random.uniform(low, high, (count, len(ranges)))


def _grid(*values: tuple[float, ...]) -> np.ndarray:
    return np.stack([axis.ravel() for axis in np.meshgrid(*values)], axis=1)


def _cases(random: np.random.Generator, actions: int, *states: np.ndarray) -> Cases:
    together = np.concatenate(states)
    return Cases(together, random.integers(actions, size=len(together)))


@pytest.fixture(scope="session")
def mountain_car_cases() -> Cases:
    random = np.random.default_rng(1)
    return _cases(
        random,
        3,
        _box(random, SPREAD, (-1.2, 0.6), (-0.1, 0.1)),  # speeds beyond the limit of 0.07 as well
        _box(random, CRITICAL, (-1.2, -1.1), (-0.09, 0.01)),  # into the wall
        _box(random, CRITICAL, (0.4, 0.6), (-0.02, 0.09)),  # the goal, from either side and rolling back
        _grid((-1.2, -0.5, 0.0, 0.5, 0.6), (-0.07, -0.001, 0.0, 0.001, 0.07)),
    )


@pytest.fixture(scope="session")
def pendulum_cases() -> Cases:
    random = np.random.default_rng(2)
    turns = 3 * np.pi
    return _cases(
        random,
        12,
        _box(random, SPREAD, (-turns, turns), (-8, 8)),
        _box(random, CRITICAL, (-turns, turns), (7, 10)),  # at and beyond the speed limit
        _box(random, CRITICAL, (-turns, turns), (-10, -7)),
        _box(random, CRITICAL, (-0.05, 0.05), (-0.5, 0.5)),  # balancing
        _grid((-np.pi, -np.pi / 2, 0.0, np.pi / 2, np.pi), (-8.0, -1.0, 0.0, 1.0, 8.0)),
    )


@pytest.fixture(scope="session")
def cart_pole_cases() -> Cases:
    random = np.random.default_rng(3)
    return _cases(
        random,
        2,
        _box(random, SPREAD, (-2.6, 2.6), (-4, 4), (-0.25, 0.25), (-4, 4)),
        _box(random, CRITICAL, (2.35, 2.45), (-3, 3), (-0.2, 0.2), (-3, 3)),  # the ends of the track
        _box(random, CRITICAL, (-2.45, -2.35), (-3, 3), (-0.2, 0.2), (-3, 3)),
        _box(random, CRITICAL, (-2.4, 2.4), (-3, 3), (0.2, 0.22), (-2, 2)),  # 12 degrees is 0.2094
        _box(random, CRITICAL, (-2.4, 2.4), (-3, 3), (-0.22, -0.2), (-2, 2)),
        _grid((-2.5, 0.0, 2.5), (-1.0, 0.0, 1.0), (-0.21, 0.0, 0.21), (-1.0, 0.0, 1.0)),
    )


@pytest.fixture(scope="session")
def acrobot_cases() -> Cases:
    random = np.random.default_rng(4)
    anywhere, slow, fast = (-np.pi, np.pi), (-2, 2), (10, 13)
    return _cases(
        random,
        3,
        _box(random, SPREAD, anywhere, anywhere, (-4 * np.pi, 4 * np.pi), (-9 * np.pi, 9 * np.pi)),
        _box(random, CRITICAL, anywhere, anywhere, fast, (24, 30)),  # at and beyond the limits of speed
        _box(random, CRITICAL, anywhere, anywhere, (-13, -10), (-30, -24)),
        _box(random, CRITICAL, (1.6, 2.4), (-1, 1), slow, slow),  # the tip about as high as it must be
        _box(random, CRITICAL, (-0.2, 0.2), (-0.2, 0.2), (-0.5, 0.5), (-0.5, 0.5)),  # hanging
        _grid((-np.pi, -np.pi / 2, 0.0, np.pi / 2, np.pi), (-np.pi, 0.0, np.pi), (-1.0, 0.0, 1.0), (-1.0, 0.0, 1.0)),
    )


@pytest.fixture
def x64() -> Iterator[None]:
    """Double precision for the length of a test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(params=["float32", "float64"])
def precision(request: pytest.FixtureRequest) -> Iterator[str]:
    """Both precisions in one process."""
    with jax.enable_x64(request.param == "float64"):
        yield request.param
