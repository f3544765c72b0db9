"""The kernel's structures, field by field as in `kernel/settings.h`, and how they are filled."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from srgdqn.config import Configuration
from srgdqn.tasks.shaping import DYNAMICS, TORQUES

MOST_LAYERS = 8
TEAM = 8  # rounds side by side in the processor's vectors

# The places of these names are the kernel's enumerations.
TASKS = ("MountainCar", "Pendulum", "CartPole")
_REWARDS = ("raw", "height", "distance", "position-and-angle", "upright-cosine")
_TARGETS = ("current", "outer", "hard", "polyak")
ESTIMATORS = ("none", "sgd", "full", "svrg", "srg")
_SCHEDULES = ("constant", "linear", "cosine")


def _fields(kind: Any, names: str) -> list[tuple[str, Any]]:
    return [(name, kind) for name in names.split()]


_INT, _FLOAT, _POINTER = ctypes.c_int32, ctypes.c_float, ctypes.c_void_p


class Task(ctypes.Structure):
    """The task's options."""

    _fields_ = _fields(_INT, "task reward integrates_unclipped") + _fields(_FLOAT, "first_torque torque_spacing")


class Shape(ctypes.Structure):
    """What chooses what is done, and how large everything is."""

    _fields_ = [
        ("task", Task),
        ("layers", _INT),
        ("widths", _INT * (MOST_LAYERS + 1)),
        *_fields(_INT, "target mask_terminal huber"),
        *_fields(_INT, "estimator inner_iterations inner_batch anchor_step"),
        *_fields(_INT, "adam_steps adam_process adam_takes_gradient adam_from_previous adam_norm clips schedule"),
        *_fields(_INT, "rows matched_steps shared block slots capacity newest"),
    ]


class Numbers(ctypes.Structure):
    """What is a mere number, in the order of `settings.h`."""

    _fields_ = _fields(
        _FLOAT,
        "reward_scale epsilon_start epsilon_end epsilon_fraction gamma target_period target_tau huber_delta "
        "coefficient eta alpha beta1 beta2 adam_epsilon clip_norm schedule_end",
    )


class Limits(ctypes.Structure):
    """The budget's."""

    _fields_ = [("unit", _INT), ("amount", _FLOAT), *_fields(_INT, "first_learning last_block time_limit")]


class Tree(ctypes.Structure):
    """Weights and biases, layer after layer."""

    _fields_ = [("leaves", _POINTER * (2 * MOST_LAYERS))]


class Lanes(ctypes.Structure):
    """Arrays with an axis of lanes first."""

    _fields_ = [
        *_fields(_POINTER, "key state observation ring"),
        *_fields(Tree, "parameters first_moment second_moment target"),
        *_fields(_POINTER, "episode_steps updates iterations episodes diverged_at active"),
    ]


class Mind(ctypes.Structure):
    """What one round has learnt."""

    _fields_ = [
        *_fields(Tree, "parameters first_moment second_moment target"),
        *_fields(_POINTER, "updates iterations"),
    ]


class Log(ctypes.Structure):
    """Arrays with axes of lanes and of blocks first."""

    _fields_ = _fields(_POINTER, "reward loss max_q delta_norm theta_norm flags")


STRUCTURES = (Shape, Numbers, Limits, Lanes, Log, Mind)


def whole_teams(lanes: int) -> int:
    """The lanes of a board that leave no team with places that might be filled; fewer than a team stay what they are.

    >>> whole_teams(25), whole_teams(1)
    (32, 1)
    """
    return lanes if lanes < TEAM else -(-lanes // TEAM) * TEAM


def task_of(configuration: Configuration, reward: str) -> Task:
    """A task of the kernel's own, with that reward."""
    settings = configuration.task
    first, spacing = TORQUES[settings.torques] if settings.torques is not None else (0.0, 0.0)
    return Task(
        TASKS.index(settings.task),
        _REWARDS.index(reward),
        settings.dynamics is not None and DYNAMICS[settings.dynamics],
        first,
        spacing,
    )


def shape_of(
    configuration: Configuration, *, widths: Iterable[int], rows: int, slots: int = 0, task: Task | None = None
) -> Shape:
    """The shape of a configuration's loop with batches of `rows` and rings of `slots`; without a task, of its learner
    alone.
    """
    c, sizes = configuration, tuple(widths)
    inner, optimiser = c.estimator, c.optimiser
    return Shape(
        task=task or Task(),
        layers=len(sizes) - 1,
        widths=(_INT * (MOST_LAYERS + 1))(*sizes),
        target=_TARGETS.index(c.gradients.target),
        mask_terminal=c.gradients.mask_terminal,
        huber=c.gradients.loss == "huber",
        estimator=ESTIMATORS.index(inner.estimator),
        inner_iterations=inner.inner_iterations,
        inner_batch=inner.inner_batch,
        anchor_step=inner.anchor_step,
        adam_steps=optimiser.step == "adam",
        adam_process=optimiser.adam_process,
        adam_takes_gradient=optimiser.adam_input == "gradient",
        adam_from_previous=optimiser.adam_from == "previous",
        adam_norm=optimiser.adam_denominator == "norm",
        clips=optimiser.clip_norm is not None,
        schedule=_SCHEDULES.index(optimiser.schedule),
        rows=rows,
        matched_steps=inner.inner_iterations + 1 if optimiser.single_step_matches == "length" else 1,
        block=c.training.learning_frequency,
        slots=slots,
        capacity=c.replay.replay_capacity,
        newest=c.replay.sampling == "newest",
    )


def numbers_of(numbers: Mapping[str, Any], lanes: int) -> np.ndarray:
    """The numbers of every lane, in the structure's order; 0 for those that are not in use."""
    columns = [np.broadcast_to(np.asarray(numbers.get(name, 0.0)), lanes) for name, _ in Numbers._fields_]
    return np.ascontiguousarray(np.stack(columns, axis=1), np.float32)


def pointer(array: Any, dtype: Any) -> Any:
    """The address of an array of that type, which the kernel will read and write without a further look."""
    if array.dtype != dtype or not array.flags.c_contiguous:
        raise TypeError(f"the kernel needs a contiguous array of {np.dtype(dtype)}, not of {array.dtype}")
    return array.ctypes.data


def tree(leaves: Iterable[np.ndarray]) -> Tree:
    """The addresses of a perceptron's arrays."""
    return Tree((_POINTER * (2 * MOST_LAYERS))(*(pointer(leaf, np.float32) for leaf in leaves)))
