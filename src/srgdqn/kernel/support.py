"""Whether the kernel can run a configuration, and which of the two is to."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import NamedTuple

from srgdqn.config import Configuration
from srgdqn.errors import InputError
from srgdqn.kernel.build import NoKernelError, library
from srgdqn.kernel.structures import ESTIMATORS, MOST_LAYERS, TASKS, TEAM

# Hidden layers up to which the kernel was measured to be the faster. Eight rounds share a vector, so that with fewer
# most of its work is for nothing; but what runs a round must not depend on how many are asked for, so lanes decide.
_WIDEST_IN_TEAMS, _WIDEST_ALONE = 256, 32
# The same for a round whose environment is elsewhere.
_WIDEST_STUDENT = 128


# Of one layer; what is larger has no place in any memory, eight rounds at a time. No task has more inputs or actions.
_MOST_WEIGHTS, _MOST_INPUTS, _MOST_ACTIONS = 2**26, 4, 12


class Surroundings(NamedTuple):
    """What a configuration does not tell, and the choice depends on."""

    own_environment: bool  # the task is none of the paper's, whatever it is called
    double: bool  # numbers are to have 64 bits
    on_cpu: bool  # jax computes on the processor


def settled(configuration: Configuration, surroundings: Surroundings) -> Configuration:
    """The configuration with `kernel` decided; an error where the kernel is asked for and cannot be had."""
    obstacles = itertools.chain(
        _loop_obstacles(configuration, surroundings), _obstacles(configuration, surroundings.double)
    )
    narrow = max(configuration.network.hidden, default=1) <= _widest(configuration)
    return _decided(configuration, obstacles, worthwhile=surroundings.on_cpu and narrow)


def settled_on_host(configuration: Configuration, *, double: bool) -> Configuration:
    """The same for rounds whose environment is elsewhere, of which the kernel is only the learner."""
    narrow = max(configuration.network.hidden, default=1) <= _WIDEST_STUDENT
    return _decided(configuration, _obstacles(configuration, double), worthwhile=narrow)


def _decided(configuration: Configuration, obstacles: Iterator[str], *, worthwhile: bool) -> Configuration:
    asked = configuration.training.kernel
    if asked == "xla":
        return configuration
    obstacle = next(obstacles, None) if asked == "native" or worthwhile else "it would be slower"
    if asked == "native" and obstacle is not None:
        raise InputError(f"kernel is 'native', but {obstacle}. Give kernel = 'xla' or 'auto'.")
    training = dataclasses.replace(configuration.training, kernel="native" if obstacle is None else "xla")
    return dataclasses.replace(configuration, training=training)


def _widest(configuration: Configuration) -> int:
    return _WIDEST_IN_TEAMS if configuration.training.lanes >= TEAM else _WIDEST_ALONE


def _loop_obstacles(configuration: Configuration, surroundings: Surroundings) -> Iterator[str]:
    """Why the kernel cannot run the configuration's whole loop."""
    c = configuration
    if surroundings.own_environment or c.task.task not in TASKS:
        yield f"it knows {', '.join(TASKS)} alone, not {c.task.task!r}"
    if c.task.reward_clip is not None:
        yield "it clips no rewards"
    if c.replay.sampling == "without-replacement" or c.estimator.inner_sampling == "without-replacement":
        yield "it draws with replacement alone"


def _obstacles(configuration: Configuration, double: bool) -> Iterator[str]:
    """Why the kernel cannot be the configuration's learner; the compiler is asked last, as that may take seconds."""
    c = configuration
    if c.network.network != "mlp":
        yield f"it knows perceptrons alone, not {c.network.network!r}"
    if len(c.network.hidden) >= MOST_LAYERS:
        yield f"hidden has {len(c.network.hidden)} layers, and it has room for {MOST_LAYERS - 1}"
    widths = (_MOST_INPUTS, *c.network.hidden, _MOST_ACTIONS)
    if any(above * below > _MOST_WEIGHTS for above, below in itertools.pairwise(widths)):
        yield f"hidden = {c.network.hidden} has more weights than it has room for"
    if c.network.activation != "relu":
        yield f"it has no activation {c.network.activation!r}"
    if c.estimator.estimator not in ESTIMATORS:
        yield f"it does not know the estimator {c.estimator.estimator!r}"
    if c.gradients.differentiation == "autodiff":
        yield "its gradients are in closed form, and differentiation is 'autodiff'"
    if c.normalisation.normalise_observations or c.normalisation.normalise_rewards:
        yield "it normalises nothing"
    if double:
        yield "it computes in single precision, and jax is set to double"
    try:
        library()
    except NoKernelError as reason:
        yield f"{reason}"
