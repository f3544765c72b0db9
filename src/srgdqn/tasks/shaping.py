"""What tasks are made of: the paper's rewards of the state reached, Pendulum's twelve torques, and angles.

Formulas for NumPy and JAX alike (`xp` is the array module), so that the compiled tasks and the registered Gymnasium
environments cannot drift apart. Free of jax: whoever only wants the environments does not pay for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Literal, TypeVar

from srgdqn.errors import unknown

MountainCarReward = Literal["height", "distance", "raw"]
CartPoleReward = Literal["position-and-angle", "upright-cosine", "raw"]
Torques = Literal["endpoints", "midpoints"]
Dynamics = Literal["v0", "v1"]

POSITION_LIMIT = 2.4
ANGLE_LIMIT = 12 * 2 * math.pi / 360
"""Where a CartPole episode ends; its shaped reward is scaled by both. Written as Gymnasium does: math.radians(12) is
the next number above."""

TORQUE_COUNT = 12
MAX_TORQUE = 2.0

Choice = TypeVar("Choice")


def height(position: Any, xp: ModuleType) -> Any:
    """The altitude of Gymnasium's hill under the car, "positively correlated with the car's altitude" (row 17)."""
    return 0.45 * xp.sin(3 * position) + 0.55


def distance(position: Any, xp: ModuleType) -> Any:
    """The car's distance from the bottom of the valley, roughly (row 17)."""
    del xp
    return abs(position + 0.5)


def minus_one(position: Any, xp: ModuleType) -> Any:
    """Gymnasium's own MountainCar reward."""
    return xp.full_like(position, -1.0)


def position_and_angle(position: Any, angle: Any, xp: ModuleType) -> Any:
    """Higher the straighter the pole and the nearer the cart to the centre (row 18)."""
    del xp
    centred = (POSITION_LIMIT - abs(position)) / POSITION_LIMIT - 0.8
    upright = (ANGLE_LIMIT - abs(angle)) / ANGLE_LIMIT - 0.5
    return centred + upright


def upright_cosine(position: Any, angle: Any, xp: ModuleType) -> Any:
    """Higher the straighter the pole, wherever the cart is (row 18)."""
    del position
    return xp.cos(angle)


def one(position: Any, angle: Any, xp: ModuleType) -> Any:
    """Gymnasium's own CartPole reward."""
    del position
    return xp.ones_like(angle)


MOUNTAIN_CAR_REWARDS: Mapping[str, Callable[[Any, ModuleType], Any]] = {
    "height": height,
    "distance": distance,
    "raw": minus_one,
}
CART_POLE_REWARDS: Mapping[str, Callable[[Any, Any, ModuleType], Any]] = {
    "position-and-angle": position_and_angle,
    "upright-cosine": upright_cosine,
    "raw": one,
}

# The first torque and the spacing of the others (row 19): arithmetic is cheaper in a compiled step than a table.
TORQUES: Mapping[str, tuple[float, float]] = {
    "endpoints": (-MAX_TORQUE, 2 * MAX_TORQUE / (TORQUE_COUNT - 1)),
    "midpoints": (-MAX_TORQUE + MAX_TORQUE / TORQUE_COUNT, 2 * MAX_TORQUE / TORQUE_COUNT),
}

# Whether the angle is integrated with the speed before that is clipped to its limit (row 22).
DYNAMICS: Mapping[str, bool] = {"v0": True, "v1": False}


def within_half_a_turn(angle: Any, xp: ModuleType) -> Any:
    """The same angle from -π to π."""
    turn = 2 * math.pi
    return angle - turn * xp.floor(angle / turn + 0.5)


def choose(kind: str, name: str, choices: Mapping[str, Choice]) -> Choice:
    """The choice of that name, or an error that names the others.

    >>> choose("Pendulum dynamics", "v2", DYNAMICS)
    Traceback (most recent call last):
    srgdqn.errors.InputError: unknown Pendulum dynamics 'v2'. Did you mean 'v1'? Known: v0, v1.
    """
    if name not in choices:
        raise unknown(kind, name, choices)
    return choices[name]
