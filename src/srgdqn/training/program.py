"""The compiled programs of a run, and the cache of them: numbers may change, shapes compile anew."""

from __future__ import annotations

import dataclasses
import operator
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from srgdqn.config import Configuration, TrainingSettings
from srgdqn.config.presets import is_compiled
from srgdqn.kernel.structures import TEAM, whole_teams
from srgdqn.learner.estimators import estimator
from srgdqn.learner.networks import NetworkFactory, Parameters, make_network
from srgdqn.learner.normalisation import Normaliser
from srgdqn.learner.outer_iteration import evaluated_parameters, sizes_of
from srgdqn.tasks import Task
from srgdqn.training.budget import Limits, limits_of
from srgdqn.training.direction_errors import DirectionProgram, direction_program
from srgdqn.training.evaluation import Evaluation, EvaluationKeys, evaluate_greedily, evaluation_keys
from srgdqn.training.interaction import action_count, observation_size
from srgdqn.training.jax_setup import hot_program_flags, in_this_precision, is_double, single_call_flags
from srgdqn.training.kernel_program import NativeProgram
from srgdqn.training.lane import PLAIN, BlockLog, Instruments, Lane, Program, init_lane, run_block
from srgdqn.training.user_code import Identity, code_of, unreadable_parts

SEGMENT_BLOCKS = 256  # the most blocks one call runs before the host has control again

Numbers = dict[str, Any]  # arrays of the host's, or of a program while it is traced


class Programs(NamedTuple):
    """The executables for one shape of configuration; calling them is safe from several threads.

    `init` takes (seed, round numbers, which lanes are in use), `segment` (lanes, numbers, first block, blocks,
    limits, data) and consumes the lanes it is given, `evaluate` (lanes, keys), `play` (parameters, normaliser, keys).
    """

    init: Callable[[Array, Array, Array], Lane]
    segment: Callable[[Lane, Numbers, Array, Array, Limits, Any], tuple[Lane, BlockLog]]
    evaluate: Callable[[Lane, EvaluationKeys], Evaluation]
    play: Callable[[Parameters, Normaliser, EvaluationKeys], Evaluation]
    compile_seconds: float
    width: int  # lanes of a chunk
    together: int  # rounds that cost no more than one
    chunk_bytes: int  # of the state of as many rounds as there are lanes
    form: Lane  # the shapes and types of that state
    directions: DirectionProgram  # compares directions of one round


Made = TypeVar("Made")


class Once(Generic[Made]):
    """What is costly to make, made once for each key, of the `most` newest keys. Threads that ask for the same wait for
    it, others do not.
    """

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._made: dict[Hashable, Future[Made]] = {}

    def get(self, key: Hashable, make: Callable[[], Made]) -> tuple[Made, bool]:
        """What is there for the key, and whether it was made by this call. What raises is not remembered."""
        with self._lock:
            fresh = key not in self._made
            promised = self._made.setdefault(key, Future())
            for oldest in list(self._made)[: -self._most]:
                del self._made[oldest]
        if fresh:
            try:
                promised.set_result(make())
            except BaseException as error:
                with self._lock:
                    self._made.pop(key, None)
                promised.set_exception(error)
                raise
        return promised.result(), fresh


_MOST = 64  # shapes whose programs stay in memory

_cache: Once[Programs] = Once(_MOST)
# Algorithms differ in what a segment does, seldom in how a round starts, and not in how it is evaluated.
_starts: Once[Any] = Once(_MOST)
_evaluations: Once[Any] = Once(_MOST)


def programs_for(
    configuration: Configuration,
    task: Task,
    user_network: eqx.Module | NetworkFactory | None = None,
    instruments: Instruments = PLAIN,
    data: Any = None,
) -> tuple[Programs, bool]:
    """The executables for this configuration, and whether they had to be compiled now.

    `data` holds arrays with an axis of rounds first, from which a lane is given its own round's; their shapes count.

    An environment, a network or an estimator of the user's is known by what it is and by what is in it at present.
    Configurations that differ in numbers only, in their budget, or in how many rounds they ask for share them. Where
    nobody has decided on a `kernel` (`auto`) it is XLA, as it must be where a study adds to the loop what the kernel
    does not have.
    """
    shape, native = shape_of_program(configuration), configuration.training.kernel == "native"
    environments = (Identity(task.environment), Identity(task.raw), task.evaluation_limit)
    leaves, structure = jax.tree.flatten(data)
    shapes = tuple((leaf.shape[1:], leaf.dtype) for leaf in leaves)
    own = None if is_compiled(configuration.task.task) else task.environment
    code = code_of(configuration, user_network, own)
    parts = (environments, Identity(user_network), code, unreadable_parts(configuration))
    key = (shape, native, parts, is_double(), instruments, structure, shapes)
    return _cache.get(key, lambda: _compile(configuration, task, user_network, code, instruments, data))


def lane_numbers(configuration: Configuration, lanes: int) -> Numbers:
    """The configuration's numbers, one value for each of so many lanes."""
    return {name: np.full(lanes, value, jnp.result_type(float)) for name, value in configuration.numbers().items()}


def shape_of_program(configuration: Configuration) -> Configuration:
    """What is compiled anew when it changes: the configuration without its numbers, its budget and what only the host
    looks at.
    """
    training, default = configuration.training, TrainingSettings()
    budget = ("steps", "outer_iterations", "episodes")
    on_host = ("rounds", "seed", "window", "evaluation_interval", "direction_errors", "keep_best")
    free = (*budget, *on_host, "learning_starts", "episode_cap", "kernel")
    training = dataclasses.replace(training, **{name: getattr(default, name) for name in free})
    return dataclasses.replace(configuration.shape(), training=training, algorithm="", readings="")


def _compile(
    configuration: Configuration,
    task: Task,
    user_network: eqx.Module | NetworkFactory | None,
    code: str,
    instruments: Instruments,
    data: Any,
) -> Programs:
    start = time.perf_counter()
    environment, settings = task.environment, configuration.training
    network = make_network(
        configuration.network,
        observation_size(environment),
        action_count(environment),
        user_network,
        atoms=configuration.gradients.outputs_per_action,
    )
    program = Program(configuration.shape(), task, network, instruments)
    native = settings.kernel == "native"
    # Also for XLA: what is left over of eight lanes it may compute by other instructions, that round otherwise.
    width = whole_teams(settings.lanes)
    init, starts = _init_of(program), _starts_of(width)
    lanes = jax.eval_shape(init, *starts)

    def compile_init() -> Any:
        key = (code, _what_starts_depend_on(program, user_network, lanes))
        return _starts.get(key, lambda: jax.jit(init).lower(*starts).compile(single_call_flags()))[0]

    def compile_segment() -> Any:
        scalar = jnp.zeros((), jnp.int32)
        given = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((width, *leaf.shape[1:]), leaf.dtype), data)
        arguments = (lanes, lane_numbers(configuration, width), scalar, scalar, limits_of(settings), given)
        return jax.jit(_segment_of(program), donate_argnums=0).lower(*arguments).compile(hot_program_flags())

    def compile_evaluate() -> Any:
        key = (code, _what_evaluations_depend_on(program, user_network, width))
        keys = evaluation_keys(settings.seed, settings.evaluation_episodes)
        evaluate, policies = jax.jit(_evaluate_of(program)), (lanes.learner.parameters, lanes.normaliser)
        return _evaluations.get(key, lambda: evaluate.lower(*policies, keys).compile(hot_program_flags()))[0]

    if native:
        fused = NativeProgram(program)
        run_init, run_segment, run_evaluate = compile_init(), fused.segment, fused.evaluate
    else:
        with ThreadPoolExecutor(3) as pool:
            jobs = (compile_init, compile_segment, compile_evaluate)
            run_init, run_segment, run_evaluate = pool.map(in_this_precision(operator.call), jobs)
    return Programs(
        run_init,
        run_segment,
        lambda lanes, keys: run_evaluate(*_policies(configuration, lanes), keys),
        run_evaluate,
        time.perf_counter() - start,
        width,
        min(TEAM, width) if native else width,
        sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(lanes)),
        lanes,
        direction_program(program.configuration, network, program.slots),
    )


def _starts_of(width: int) -> tuple[Array, Array, Array]:
    """What `init` is given, for a chunk of that width."""
    return jnp.zeros((), jnp.uint32), jnp.zeros(width, jnp.uint32), jnp.zeros(width, bool)


def _init_of(program: Program) -> Callable[[Array, Array, Array], Lane]:
    def init(seed: Array, rounds: Array, active: Array) -> Lane:
        return jax.vmap(lambda number, on: init_lane(program, seed, number, on))(rounds, active)

    return init


def _segment_of(program: Program) -> Callable[..., tuple[Lane, BlockLog]]:
    def segment(
        lanes: Lane, numbers: Numbers, first: Array, blocks: Array, limits: Limits, data: Any
    ) -> tuple[Lane, BlockLog]:
        def one(lane: Lane, lane_numbers: Numbers, index: Array, lane_data: Any) -> tuple[Lane, BlockLog]:
            filled = program._replace(configuration=program.configuration.with_numbers(lane_numbers))
            return run_block(filled, lane, index, limits, lane_data)

        def block(offset: Array, carry: tuple[Lane, BlockLog]) -> tuple[Lane, BlockLog]:
            lanes, log = carry
            lanes, row = every_lane(lanes, numbers, first + offset, data)
            return lanes, jax.tree.map(lambda buffer, new: buffer.at[:, offset].set(new), log, row)

        every_lane = jax.jit(jax.vmap(one, (0, 0, None, 0)))  # traced once, though asked for twice
        row = jax.eval_shape(every_lane, lanes, numbers, first, data)[1]
        log = jax.tree.map(lambda r: jnp.zeros((r.shape[0], SEGMENT_BLOCKS, *r.shape[1:]), r.dtype), row)
        return jax.lax.fori_loop(0, blocks, block, (lanes, log))

    return segment


def _evaluate_of(program: Program) -> Callable[[Parameters, Normaliser, EvaluationKeys], Evaluation]:
    def evaluate(parameters: Parameters, normaliser: Normaliser, keys: EvaluationKeys) -> Evaluation:
        def one(theta: Parameters, moments: Normaliser) -> Evaluation:
            return evaluate_greedily(program.task, program.network, theta, moments, keys)

        return jax.vmap(one)(parameters, normaliser)

    return evaluate


def _policies(configuration: Configuration, lanes: Lane) -> tuple[Parameters, Normaliser]:
    """What greedy policies are made of."""
    return evaluated_parameters(configuration, lanes.learner, rounds=True), lanes.normaliser


def _what_starts_depend_on(program: Program, user_network: Any, lanes: Lane) -> Hashable:
    """What `init_lane` reads: the sources of its values, and beyond them options that change the form of the lanes."""
    configuration, name = program.configuration, program.configuration.estimator.estimator
    leaves, structure = jax.tree.flatten(lanes)
    return (
        Identity(program.task.environment),
        configuration.network,
        Identity(user_network),
        None if name == "none" else estimator(name).init,
        tuple(tuple(each.items()) if isinstance(each, Mapping) else each for each in sizes_of(configuration)),
        structure,
        tuple((leaf.shape, leaf.dtype) for leaf in leaves),
    )


def _what_evaluations_depend_on(program: Program, user_network: Any, width: int) -> Hashable:
    """Everything that `evaluate_greedily` reads."""
    configuration, task = program.configuration, program.task
    return (
        Identity(task.raw),
        task.evaluation_limit,
        configuration.network,
        configuration.gradients.outputs_per_action,
        Identity(user_network),
        configuration.normalisation,
        width,
        configuration.training.evaluation_episodes,
        is_double(),
    )
