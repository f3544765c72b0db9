"""Which of the two runs a configuration: the kernel, or programs compiled by XLA."""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from srgdqn.config import Configuration, sections
from srgdqn.errors import InputError
from srgdqn.kernel.build import NoKernelError, library
from srgdqn.kernel.structures import (
    LEARNER,
    LOOP,
    MOST_LAYERS,
    OWN_NUMBERS,
    TASKS,
    TEAM,
    Values,
    any_value,
)

# The widest hidden layers for which the kernel was measured to be the faster. Eight rounds share a vector, so that with
# fewer most of its work is wasted; but what runs a round must not depend on how many are asked for, so `lanes` decides.
_WIDEST_IN_TEAMS, _WIDEST_ALONE = 256, 32
# The same for a round whose environment runs in Python.
_WIDEST_ON_HOST = 128
# Of one layer; more do not fit into memory, eight rounds at a time. No task has more inputs or actions.
_MOST_WEIGHTS, _MOST_INPUTS, _MOST_ACTIONS = 2**26, 6, 12

# Options that Python handles around the kernel: the kernel's own name, the parameters at the start, which rounds there
# are and their random keys, and what is recorded and evaluated when.
AROUND = any_value(
    "kernel initialisation rounds seed lanes window evaluation_interval evaluation_episodes evaluation_limit "
    "direction_errors keep_best"
)
# Where the environment runs in Python, also that, the budget, the replay memory and what is drawn from it.
AROUND_LEARNER: dict[str, Values] = {
    **AROUND,
    **any_value("task reward_clip time_limit action_bins environments replay_capacity"),
    **any_value("steps outer_iterations episodes episode_cap learning_starts learning_frequency gradient_steps"),
    "sampling": ("with-replacement", "without-replacement", "newest"),
    "uniform_start": (False, True),
    "inner_sampling": ("with-replacement", "without-replacement"),
}


class KernelConditions(NamedTuple):
    """What the choice depends on beside the configuration."""

    own_environment: bool  # the task is none of the paper's, whatever it is called
    double: bool  # numbers are to have 64 bits
    on_cpu: bool  # jax computes on the processor


def resolved(configuration: Configuration, surroundings: KernelConditions) -> Configuration:
    """The configuration with `kernel` resolved; an error where the kernel is asked for and cannot run it."""
    obstacles = _obstacles(configuration, LOOP | AROUND, surroundings.double)
    if surroundings.own_environment:
        foreign = f"it knows {', '.join(TASKS)} alone, not {configuration.task.task!r}"
        obstacles = itertools.chain([foreign], obstacles)
    narrow = max(configuration.network.hidden, default=1) <= _widest(configuration)
    return _resolved(configuration, obstacles, worthwhile=surroundings.on_cpu and narrow)


def resolved_on_host(configuration: Configuration, *, double: bool) -> Configuration:
    """The same for rounds whose environment runs in Python, of which the kernel is only the learner."""
    obstacles = _obstacles(configuration, LEARNER | AROUND_LEARNER, double)
    narrow = max(configuration.network.hidden, default=1) <= _WIDEST_ON_HOST
    return _resolved(configuration, obstacles, worthwhile=narrow)


def _resolved(configuration: Configuration, obstacles: Iterator[str], *, worthwhile: bool) -> Configuration:
    asked = configuration.training.kernel
    if asked == "xla":
        return configuration
    obstacle = next(obstacles, None) if asked == "native" or worthwhile else "it would be slower"
    if obstacle is None:  # the compiler comes last, as it may take seconds
        try:
            library()
        except NoKernelError as reason:
            obstacle = str(reason)
            if asked == "auto":
                warnings.warn(
                    f"the C kernel cannot be used: {reason}. XLA compiles the run instead (kernel = 'xla'), which "
                    "rounds differently. Fix the compiler, or give kernel = 'xla' to choose this.",
                    RuntimeWarning,
                    stacklevel=3,
                )
    if asked == "native" and obstacle is not None:
        raise InputError(f"kernel is 'native', but {obstacle}. Give kernel = 'xla' or 'auto'.")
    training = dataclasses.replace(configuration.training, kernel="native" if obstacle is None else "xla")
    return dataclasses.replace(configuration, training=training)


def _widest(configuration: Configuration) -> int:
    return _WIDEST_IN_TEAMS if configuration.training.lanes >= TEAM else _WIDEST_ALONE


def _obstacles(configuration: Configuration, supported: Mapping[str, Values], double: bool) -> Iterator[str]:
    """Why the kernel cannot run the configuration, whether there is a compiler or not."""
    yield from _unsupported(configuration, supported)
    hidden = configuration.network.hidden
    if len(hidden) >= MOST_LAYERS:
        yield f"hidden has {len(hidden)} layers, and it has room for {MOST_LAYERS - 1}"
    widths = (_MOST_INPUTS, *hidden, _MOST_ACTIONS)
    if any(above * below > _MOST_WEIGHTS for above, below in itertools.pairwise(widths)):
        yield f"hidden = {hidden} has more weights than it has room for"
    if double:
        yield "it computes in single precision, and jax is set to double"


def _unsupported(configuration: Configuration, supported: Mapping[str, Values]) -> Iterator[str]:
    """Options with unsupported values. Of an option that `supported` does not name, only the default is supported."""
    for settings in (getattr(configuration, section) for section in sections()):
        default = type(settings)()
        for name in (field.name for field in dataclasses.fields(settings) if not field.metadata.get("own")):
            value = getattr(settings, name)
            values = supported.get(name, (getattr(default, name),))
            if values is not None and value not in values:
                yield f"it has no {name} = {value!r}, only {', '.join(map(repr, values))}"
    inner = configuration.estimator
    for name in sorted(dict(inner.own).keys() ^ set(OWN_NUMBERS.get(inner.estimator, ()))):
        yield f"its estimator {inner.estimator!r} has other numbers ({name})"
