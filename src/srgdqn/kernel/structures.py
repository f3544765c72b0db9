"""The kernel's structures, field by field as in `c/settings.h`, and how they are filled."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from srgdqn.config import Configuration
from srgdqn.tasks.shaping import DYNAMICS, TORQUES

MOST_LAYERS = 8
LEARNER_TREES = 6  # as many as `learner_trees` gives
TEAM = 8  # rounds side by side in the processor's vectors

Values = tuple[Any, ...] | None  # of an option, that are implemented; None: any

# The places of these names are the kernel's enumerations.
TASKS = ("MountainCar", "Pendulum", "CartPole", "Acrobot")
_REWARDS = ("raw", "height", "distance", "position-and-angle", "upright-cosine")
_TARGETS = ("current", "outer", "hard", "polyak")
ESTIMATORS = ("none", "sgd", "full", "svrg", "srg", "storm", "storm_inner")
_SCHEDULES = ("constant", "linear", "cosine")
_OFF_ON = (False, True)


# The numbers that these estimators have of their own; the others have none.
OWN_NUMBERS = {"storm": ("a", "reset"), "storm_inner": ("a",)}


def any_value(names: str) -> dict[str, Values]:
    """These options, of which every value is implemented."""
    return dict.fromkeys(names.split())


def _fields(kind: Any, names: str) -> list[tuple[str, Any]]:
    return [(name, kind) for name in names.split()]


_INT, _FLOAT, _POINTER = ctypes.c_int32, ctypes.c_float, ctypes.c_void_p


class Task(ctypes.Structure):
    """The task's options."""

    _fields_ = _fields(_INT, "task reward integrates_unclipped") + _fields(_FLOAT, "first_torque torque_spacing")


class Shape(ctypes.Structure):
    """Options that choose what is computed, and all sizes."""

    _fields_ = [
        ("task", Task),
        ("layers", _INT),
        ("widths", _INT * (MOST_LAYERS + 1)),
        *_fields(_INT, "target double_q mask_terminal huber"),
        *_fields(_INT, "estimator inner_iterations inner_batch anchor_step"),
        *_fields(_INT, "adam_steps adam_process adam_takes_gradient adam_from_previous adam_norm clips schedule"),
        *_fields(
            _INT, "rows matched_steps shared block gradient_steps slots capacity newest uniform_start copied_by_steps"
        ),
    ]


class Numbers(ctypes.Structure):
    """Options that are numbers, in the order of `settings.h`."""

    _fields_ = _fields(
        _FLOAT,
        "reward_scale epsilon_start epsilon_end epsilon_fraction gamma target_period target_tau huber_delta "
        "coefficient eta alpha beta1 beta2 adam_epsilon clip_norm schedule_end a reset target_update_interval",
    )


class Limits(ctypes.Structure):
    """The budget, and where learning starts and ends."""

    _fields_ = [("unit", _INT), ("amount", _FLOAT), *_fields(_INT, "first_learning last_block time_limit")]


class Tree(ctypes.Structure):
    """Weights and biases, layer after layer."""

    _fields_ = [("leaves", _POINTER * (2 * MOST_LAYERS))]


class Lanes(ctypes.Structure):
    """Arrays with an axis of lanes first."""

    _fields_ = [
        *_fields(_POINTER, "key state observation ring"),
        ("learner", Tree * LEARNER_TREES),
        *_fields(_POINTER, "episode_steps updates iterations episodes diverged_at active mean deviation"),
    ]


class LearnerState(ctypes.Structure):
    """The learner of one round."""

    _fields_ = [
        ("learner", Tree * LEARNER_TREES),
        *_fields(_POINTER, "updates iterations mean deviation"),
    ]


class Log(ctypes.Structure):
    """Arrays with axes of lanes and of blocks first."""

    _fields_ = _fields(_POINTER, "reward loss max_q delta_norm theta_norm flags first_delta first_gradient")


STRUCTURES = (Shape, Numbers, Limits, Lanes, Log, LearnerState)

# The option that each of these fields of `Shape` carries, and the values that the kernel implements. The field holds
# the value's place among them, or the value itself where any is implemented.
_LEARNER_FIELDS: dict[str, tuple[str, Values]] = {
    "target": ("target", _TARGETS),
    "double_q": ("bootstrap", ("max", "double")),
    "mask_terminal": ("mask_terminal", _OFF_ON),
    "huber": ("loss", ("squared", "huber")),
    "estimator": ("estimator", ESTIMATORS),
    "inner_iterations": ("inner_iterations", None),
    "inner_batch": ("inner_batch", None),
    "anchor_step": ("anchor_step", _OFF_ON),
    "adam_steps": ("step", ("gradient", "adam")),
    "adam_process": ("adam_process", _OFF_ON),
    "adam_takes_gradient": ("adam_input", ("delta", "gradient")),
    "adam_from_previous": ("adam_from", ("last", "previous")),
    "adam_norm": ("adam_denominator", ("elementwise", "norm")),
    "schedule": ("schedule", _SCHEDULES),
}
_LOOP_FIELDS: dict[str, tuple[str, Values]] = {
    "block": ("learning_frequency", None),
    "gradient_steps": ("gradient_steps", None),
    "capacity": ("replay_capacity", None),
    "newest": ("sampling", ("with-replacement", "newest")),
    "uniform_start": ("uniform_start", _OFF_ON),
}

# All options that the kernel implements as a learner, and their values. Any other must be at its default.
LEARNER: dict[str, Values] = {
    **dict(_LEARNER_FIELDS.values()),
    # `Shape.clips` and `copied_by_steps` say whether there are a clip_norm and a target_update_interval. An estimator's
    # own numbers are no options by themselves.
    **{name: None for name, _ in Numbers._fields_ if name not in itertools.chain(*OWN_NUMBERS.values())},
    **any_value("hidden batch_size"),  # `Shape.layers`, `widths` and `rows`
    "single_step_matches": ("nothing", "length", "queries"),  # `Shape.matched_steps` and `rows`
    # What the C code does by itself; no field carries these.
    **{"network": ("mlp",), "activation": ("relu",), "differentiation": ("auto", "closed-form")},
    **{"normalise_observations": (False,), "normalise_rewards": (False,)},
    **any_value("scale_observations"),  # by `Lanes` and `LearnerState`
}
# The same for the whole loop.
LOOP: dict[str, Values] = {
    **LEARNER,
    **dict(_LOOP_FIELDS.values()),
    **{"task": TASKS, "reward": _REWARDS, "torques": (None, *TORQUES), "dynamics": (None, *DYNAMICS)},  # `Task`
    **any_value("steps outer_iterations episodes episode_cap learning_starts time_limit"),  # `Limits`
    **{"inner_sampling": ("with-replacement",), "reward_clip": (None,)},  # no field carries these
}


def whole_teams(lanes: int) -> int:
    """A number of lanes rounded up to whole teams; fewer than a team stay as they are.

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
    options, carried = c.options(), _LEARNER_FIELDS if task is None else _LEARNER_FIELDS | _LOOP_FIELDS
    return Shape(
        task=task or Task(),
        layers=len(sizes) - 1,
        widths=(_INT * (MOST_LAYERS + 1))(*sizes),
        clips=c.optimiser.clip_norm is not None,
        copied_by_steps=c.gradients.target_update_interval is not None,
        rows=rows,
        matched_steps=c.estimator.inner_iterations + 1 if c.optimiser.single_step_matches == "length" else 1,
        slots=slots,
        **{
            field: options[name] if values is None else values.index(options[name])
            for field, (name, values) in carried.items()
        },
    )


def numbers_of(numbers: Mapping[str, Any], lanes: int) -> np.ndarray:
    """The numbers of every lane, in the structure's order; 0 for those that are not in use."""
    columns = [np.broadcast_to(np.asarray(numbers.get(name, 0.0)), lanes) for name, _ in Numbers._fields_]
    return np.ascontiguousarray(np.stack(columns, axis=1), np.float32)


def pointer(array: Any, dtype: Any) -> Any:
    """The address of an array of that type; the kernel reads and writes it without any check."""
    if array.dtype != dtype or not array.flags.c_contiguous:
        raise TypeError(f"the kernel needs a contiguous array of {np.dtype(dtype)}, not of {array.dtype}")
    return array.ctypes.data


def tree(leaves: Iterable[np.ndarray]) -> Tree:
    """The addresses of a perceptron's arrays."""
    return Tree((_POINTER * (2 * MOST_LAYERS))(*(pointer(leaf, np.float32) for leaf in leaves)))


def learner_trees(learner: Any) -> tuple[Any, ...]:
    """A learner's parameters, Adam's moments, a target network's parameters and STORM's memory, in the kernel's order;
    None for what it does not have.
    """
    memory = (None, None) if learner.memory is None else learner.memory
    return learner.parameters, learner.adam.first, learner.adam.second, learner.target, *memory


def tree_addresses(trees: Iterable[Iterable[np.ndarray]]) -> Any:
    """The addresses of the arrays of a learner's trees."""
    return (Tree * LEARNER_TREES)(*map(tree, trees))
