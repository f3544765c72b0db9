"""What is learned: the paper's three tasks, and anybody's functional JAX environment.

A task speaks Gymnasium's own functional interface (`FuncEnv`), so a shaped reward is one function; beside it stand the
limits that no state knows about.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
from gymnasium.experimental.functional import FuncEnv
from gymnasium.spaces import Box, Discrete

from srgdqn.config.numbers import shape_of
from srgdqn.config.task import TaskSettings
from srgdqn.errors import InputError, unknown
from srgdqn.tasks.cart_pole import CartPole
from srgdqn.tasks.mountain_car import MountainCar
from srgdqn.tasks.pendulum import Pendulum

__all__ = ["CartPole", "MountainCar", "Pendulum", "Success", "Task", "adopt", "judged_for", "make"]

Success = Literal["termination", "truncation", "none"]


@dataclass(frozen=True)
class Task:
    """An environment to train in, its twin to be judged in, and the limits of both."""

    name: str
    """What it is called in logs and results."""
    environment: FuncEnv
    """What is trained in."""
    raw: FuncEnv
    """The same dynamics with Gymnasium's own reward: what is evaluated in."""
    time_limit: int | None
    """Steps after which a training episode is truncated (none: never)."""
    evaluation_limit: int
    """Steps after which an evaluation episode is truncated."""
    success: Success
    """The end of an episode that counts as success: `termination` at a goal, `truncation` for having lasted."""


@dataclass(frozen=True)
class _Entry:
    """What is known of one of the paper's tasks."""

    environment: type[FuncEnv]
    options: tuple[str, ...]
    evaluation_limit: int
    success: Success


# Evaluation has Gymnasium's own limits even where training has none (rows 20 and 23 of the readings).
_TASKS = {
    "MountainCar": _Entry(MountainCar, ("reward",), 200, "termination"),
    "Pendulum": _Entry(Pendulum, ("torques", "dynamics"), 200, "none"),
    "CartPole": _Entry(CartPole, ("reward",), 500, "truncation"),
}


def make(settings: TaskSettings) -> Task:
    """The task that the settings describe.

    >>> make(TaskSettings(task="CartPole", reward="upright-cosine", time_limit=500)).success
    'truncation'

    An option that the task does not have is an error, never ignored:

    >>> make(TaskSettings(task="MountainCar", torques="midpoints"))
    Traceback (most recent call last):
    srgdqn.errors.InputError: MountainCar has no option torques, but 'midpoints' was given. Leave it out.
    """
    return _make(shape_of(settings))


@functools.cache  # compiled programs belong to a task, so that there is to be only one of each
def _make(settings: TaskSettings) -> Task:
    if settings.task not in _TASKS:
        raise unknown("task", settings.task, _TASKS)
    entry = _TASKS[settings.task]
    given: dict[str, Any] = {
        # Pendulum's only reward is the raw one, which is also every other task's option and the settings' default.
        "reward": None if settings.reward == "raw" and "reward" not in entry.options else settings.reward,
        "torques": settings.torques,
        "dynamics": settings.dynamics,
    }
    options = {name: value for name, value in given.items() if value is not None}
    for name, value in options.items():
        if name not in entry.options:
            advice = "Its reward is 'raw'." if name == "reward" else "Leave it out."
            raise InputError(f"{settings.task} has no option {name}, but {value!r} was given. {advice}")
    _check_limits(time_limit=settings.time_limit)
    environment = entry.environment(**options)
    shaped = options.get("reward", "raw") != "raw"
    return Task(
        name=settings.task,
        environment=environment,
        raw=entry.environment(**options | {"reward": "raw"}) if shaped else environment,
        time_limit=settings.time_limit,
        evaluation_limit=entry.evaluation_limit,
        success=entry.success,
    )


def adopt(
    environment: FuncEnv,
    *,
    name: str | None = None,
    time_limit: int | None = None,
    evaluation_limit: int | None = None,
) -> Task:
    """A task from anybody's functional JAX environment, trained and evaluated with its own reward.

    Args:
        environment: written for Gymnasium's functional interface in JAX: discrete actions counted from 0; observations
            in a Box of any shape (the training loop flattens them) or a Discrete space.
        name: what to call it; the full name of its class otherwise, which no task of the paper's has.
        time_limit: steps after which a training episode is truncated (none: never).
        evaluation_limit: steps after which an evaluation episode is truncated (none: the time limit, or else 1,000).

    """
    _check_interface(environment)
    _check_spaces(environment)
    _check_limits(time_limit=time_limit, evaluation_limit=evaluation_limit)
    return Task(
        name=name if name is not None else f"{type(environment).__module__}.{type(environment).__qualname__}",
        environment=environment,
        raw=environment,
        time_limit=time_limit,
        evaluation_limit=evaluation_limit or time_limit or 1_000,
        success="none",
    )


def judged_for(task: Task, limit: int | None) -> Task:
    """The task with another limit on its episodes of evaluation, where one is given."""
    return task if limit is None else dataclasses.replace(task, evaluation_limit=limit)


def _check_limits(**limits: int | None) -> None:
    for name, steps in limits.items():
        if steps is not None and steps < 1:
            raise InputError(f"{name} must be at least 1 step, but {steps} was given.")


def _check_interface(environment: object) -> None:
    if isinstance(environment, type):
        raise InputError(f"{environment.__name__} is a class. Give an instance of it: {environment.__name__}(…).")
    if isinstance(environment, gymnasium.Env):
        raise InputError(
            f"{type(environment).__name__} is an ordinary Gymnasium environment, which steps on the host; expected a "
            "functional one (gymnasium.experimental.functional.FuncEnv). If it was made from a functional one, give "
            "that (environment.unwrapped.func_env); srgdqn.train takes ordinary ones as they are."
        )
    parts = ("initial", "transition", "observation", "reward", "terminal", "observation_space", "action_space")
    missing = [part for part in parts if not hasattr(environment, part)]
    if missing:
        raise InputError(
            f"{type(environment).__name__} lacks {', '.join(missing)}. A functional environment has "
            f"{', '.join(parts)}: see gymnasium.experimental.functional.FuncEnv."
        )


def _check_spaces(environment: FuncEnv) -> None:
    actions = environment.action_space
    if not isinstance(actions, Discrete):
        raise InputError(
            f"the action space of {type(environment).__name__} is {actions}, but Q-learning needs Discrete actions. "
            "Choose a few actions, set action_space = Discrete(how many) and map the index to the action in transition."
        )
    if actions.start != 0:
        raise InputError(
            f"the action space of {type(environment).__name__} is {actions}, but actions are counted from 0. Set "
            f"action_space = Discrete({actions.n}) and add {actions.start} to the action in transition."
        )
    observations = environment.observation_space
    if not isinstance(observations, Box | Discrete):
        raise InputError(
            f"the observation space of {type(environment).__name__} is {observations}, but a Q-network reads a Box or "
            "a Discrete space. Put everything that is observed into one array and describe that as a Box."
        )
