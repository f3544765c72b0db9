"""What a task, a network's hidden layers and an algorithm come to, and how many operations an outer iteration takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import jaxpr_as_fun

from arithmetic import ACTING, Operations, outer_iteration, parts_of_a_block
from srgdqn import tasks
from srgdqn.config import Configuration
from srgdqn.config.configure import configure
from srgdqn.learner import outer_iteration as learner
from srgdqn.learner.gradients import Transitions
from srgdqn.learner.networks import Network, make_network
from srgdqn.training.interaction import action_count, observation_size


class Problem(NamedTuple):
    """A configuration, its network, and the sizes of the network's layers from the observation to the actions."""

    configuration: Configuration
    network: Network
    layers: tuple[int, ...]

    @property
    def steps(self) -> int:
        """Environment steps in a block."""
        return self.configuration.training.learning_frequency

    @property
    def parts(self) -> dict[str, Operations]:
        """The operations that a block needs, part by part."""
        return parts_of_a_block(self.configuration, self.layers)


def problem_of(task: str, hidden: tuple[int, ...], algorithm: str) -> Problem:
    configuration = configure(task, algorithm, hidden=hidden)
    environment = tasks.make(configuration.task).environment
    size, actions = observation_size(environment), action_count(environment)
    return Problem(configuration, make_network(configuration.network, size, actions), (size, *hidden, actions))


def counts_of(task: str, hidden: tuple[int, ...], algorithm: str) -> dict[str, Any]:
    """The operations of one outer iteration by formula and by the compiler, and those of acting before it."""
    problem = problem_of(task, hidden, algorithm)
    needed = outer_iteration(problem.configuration, problem.layers)
    return {
        "task": task,
        "hidden": hidden,
        "algorithm": algorithm,
        "passes": needed.passes,
        "weight_gradients": needed.weight_gradients,
        "elementwise": needed.elementwise,
        "formula": needed.total,
        "compiler": _compiled_iteration(problem),
        "acting": problem.parts[ACTING].total,
    }


def _compiled_iteration(problem: Problem) -> int:
    """The compiler's count of one outer iteration of one round, whose trace is dropped."""
    configuration, network = problem.configuration, problem.network
    rows, inner, number = learner.batch_rows(configuration), configuration.estimator, jnp.result_type(float)
    column = jax.ShapeDtypeStruct((rows,), number)
    observations = jax.ShapeDtypeStruct((rows, problem.layers[0]), number)
    actions = jax.ShapeDtypeStruct((rows,), jnp.int32)
    batch = Transitions(observations, actions, column, observations, column)
    picks = jax.ShapeDtypeStruct((inner.inner_iterations, inner.inner_batch), jnp.int32)
    state = jax.eval_shape(lambda key: learner.init_learner(configuration, network.init(key)), jax.random.key(0))

    def iterate(state: learner.LearnerState, batch: Transitions, picks: jax.Array) -> learner.LearnerState:
        return learner.outer_iteration(configuration, network, state, batch, picks)[0]

    return compiler_count(iterate, state, batch, picks)


def compiler_count(function: Callable[..., Any], *arguments: Any) -> int:
    """The operations that XLA counts in one call, before any optimisation.

    XLA counts the body of a loop once, however often it runs. So the body is counted by itself, too, and added for each
    of the other times that a `scan`, which is not unrolled, runs it. Loops within loops or branches are not looked for.
    """
    loops = [part for part in jax.make_jaxpr(function)(*arguments).eqns if part.primitive.name == "scan"]
    repeated = sum((loop.params["length"] - 1) * _counted_once(_body(loop), *_inputs(loop)) for loop in loops)
    return _counted_once(function, *arguments) + repeated


def _counted_once(function: Callable[..., Any], *arguments: Any) -> int:
    return int(jax.jit(function).lower(*arguments).cost_analysis()["flops"])


def _body(loop: Any) -> Callable[..., Any]:
    return jaxpr_as_fun(loop.params["jaxpr"])


def _inputs(loop: Any) -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in loop.params["jaxpr"].in_avals]
