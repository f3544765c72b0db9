"""What is learned: the compiled tasks (the paper's three and Acrobot), and anybody's functional JAX environment.

A task has Gymnasium's functional interface (`FuncEnv`), so a shaped reward is one function; and the limits that no
state knows about. Importing this package does not import jax: the class of a task is imported when it is made.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import threading
from dataclasses import dataclass

import gymnasium
from gymnasium.experimental.functional import FuncEnv
from gymnasium.spaces import Box, Discrete

from srgdqn.config import Configuration
from srgdqn.config.discovery import COMPILED_TASKS, Success
from srgdqn.config.options import TaskSettings, shape_of
from srgdqn.errors import InputError, unknown

__all__ = ["Success", "Task", "adopt", "make", "task_of", "with_evaluation_limit"]


@dataclass(frozen=True)
class Task:
    """An environment to train in, one to evaluate in, and the limits of both."""

    name: str
    """Its name in logs and results."""
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


def make(settings: TaskSettings) -> Task:
    """The task that the settings describe.

    >>> make(TaskSettings(task="CartPole", reward="upright-cosine", time_limit=500)).success
    'truncation'

    An option that the task does not have is an error, never ignored:

    >>> make(TaskSettings(task="MountainCar", torques="midpoints"))
    Traceback (most recent call last):
    srgdqn.errors.InputError: MountainCar has no option torques, but 'midpoints' was given. Leave it out.
    """
    with _MAKING:
        return _make(shape_of(settings))


# Compiled programs belong to a task, so that there is to be only one of each, also if threads ask at the same time.
_MAKING = threading.Lock()


@functools.cache
def _make(settings: TaskSettings) -> Task:
    if settings.task not in COMPILED_TASKS:
        raise unknown("task", settings.task, COMPILED_TASKS)
    task = COMPILED_TASKS[settings.task]
    takes = {*task.options, *(("reward",) if len(task.rewards) > 1 else ())}
    options = {}
    for name in ("reward", *(name for each in COMPILED_TASKS.values() for name in each.options)):
        value = getattr(settings, name)
        if name in takes and value is not None:
            options[name] = value
        elif value not in (None, "raw"):
            advice = "Its reward is 'raw'." if name == "reward" else "Leave it out."
            raise InputError(f"{settings.task} has no option {name}, but {value!r} was given. {advice}")
    _check_limits(time_limit=settings.time_limit)
    make_environment = getattr(importlib.import_module(task.module), task.name)
    environment = make_environment(**options)
    shaped = options.get("reward", "raw") != "raw"
    return Task(
        name=settings.task,
        environment=environment,
        raw=make_environment(**options | {"reward": "raw"}) if shaped else environment,
        time_limit=settings.time_limit,
        evaluation_limit=task.evaluation_limit,
        success=task.success,
    )


def task_of(configuration: Configuration, environment: FuncEnv | None = None) -> Task:
    """The compiled task that a configuration names, or the user's own environment as one."""
    if environment is None:
        task = make(configuration.task)
    else:
        settings = configuration.task
        task = adopt(environment, name=settings.task, time_limit=settings.time_limit)
    return with_evaluation_limit(task, configuration.training.evaluation_limit)


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
        name: its name in logs and results; by default the full name of its class, which no compiled task has.
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


def with_evaluation_limit(task: Task, limit: int | None) -> Task:
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
    if 0 in (observations.shape or ()):
        raise InputError(
            f"the observation space of {type(environment).__name__} is {observations}, which has no numbers in it. "
            "Give it at least one."
        )
