"""Segments and evaluations by the fused kernel, called as the compiled programs are."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from srgdqn.kernel import calls, structures
from srgdqn.learner.networks import Parameters
from srgdqn.learner.normalisation import Normaliser, Scale
from srgdqn.learner.outer_iteration import batch_rows
from srgdqn.tasks import make
from srgdqn.training.batches import from_replay
from srgdqn.training.budget import Limits
from srgdqn.training.evaluation import Evaluation, EvaluationKeys
from srgdqn.training.interaction import action_count, observation_size
from srgdqn.training.lane import BlockLog, Lane, Program
from srgdqn.training.probes import FirstLayer, first_layer


class NativeProgram:
    """What `srgdqn.training.program` would compile, for a configuration that the kernel knows."""

    def __init__(self, program: Program) -> None:
        configuration, environment = program.configuration, program.task.environment
        source, probe, _ = program.instruments
        if source is not from_replay or probe not in (None, first_layer):
            raise ValueError(
                "the kernel takes no source of batches, and of probes only `first_layer`: give kernel='xla'"
            )
        known = make(configuration.task)
        if (program.task.environment, program.task.raw) != (known.environment, known.raw):
            raise ValueError("the kernel knows the compiled tasks with raw evaluations alone: give kernel='xla'")
        widths = (observation_size(environment), *configuration.network.hidden, action_count(environment))

        def shape(reward: str) -> structures.Shape:
            return structures.shape_of(
                configuration,
                widths=widths,
                rows=batch_rows(configuration),
                slots=program.slots,
                task=structures.task_of(configuration, reward),
            )

        self._shape, self._raw = shape(configuration.task.reward), shape("raw")
        self._block, self._limit = program.block, program.task.evaluation_limit
        self._probed = None if probe is None else (widths[0] + 1) * widths[1]  # numbers in the first layer

    def segment(
        self, lanes: Lane, numbers: dict[str, Array], first: Array, blocks: Array, limits: Limits, data: Any
    ) -> tuple[Lane, BlockLog]:
        """Runs blocks of every lane. The lanes given are consumed, as by a compiled program."""
        del data
        lanes = jax.tree.map(_owned, lanes)
        count, length = len(lanes.active), int(blocks)
        size = (count, length)
        diagnostics = _empty(size, 4)
        reward: Any = np.zeros((*size, self._block), np.float32)
        flags: Any = np.zeros((*size, self._block), np.uint8)
        probed = None if self._probed is None else FirstLayer(*_empty((*size, self._probed), 2))
        keys = np.asarray(jax.random.key_data(lanes.key))
        calls.run_segment(
            self._shape,
            structures.numbers_of(numbers, count),
            structures.Limits(*(leaf.item() for leaf in map(np.asarray, limits))),
            _addresses(lanes, keys),
            structures.Log(
                structures.pointer(reward, np.float32),
                *(structures.pointer(each, np.float32) for each in diagnostics),
                structures.pointer(flags, np.uint8),
                *(structures.pointer(each, np.float32) for each in probed or ()),
            ),
            first=int(first),
            blocks=length,
        )
        return lanes, BlockLog(reward, flags, *diagnostics)._replace(probed=probed)

    def evaluate(self, parameters: Parameters, normaliser: Normaliser, keys: EvaluationKeys) -> Evaluation:
        """Greedy episodes of every lane."""
        normaliser = jax.tree.map(np.ascontiguousarray, normaliser)
        leaves = [np.ascontiguousarray(leaf) for leaf in jax.tree.leaves(parameters)]
        starts = np.asarray(jax.random.key_data(keys.start))
        played: Any = calls.run_evaluation(
            self._raw, structures.tree(leaves), _scale(normaliser), starts, self._limit, len(leaves[0])
        )
        return Evaluation(*played)


def _empty(size: tuple[int, ...], count: int) -> list[Any]:
    """Arrays that are NaN wherever the kernel writes nothing."""
    return [np.full(size, np.nan, np.float32) for _ in range(count)]


def _owned(leaf: Any) -> Any:
    """An array that may be written to: jax's own are copied, and keys, which nothing writes, left as they are."""
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return leaf
    return leaf if isinstance(leaf, np.ndarray) and leaf.flags.writeable else np.array(leaf)


def _addresses(lanes: Lane, keys: np.ndarray) -> structures.Lanes:
    def floats(leaf: Any) -> Any:
        return structures.pointer(leaf, np.float32)

    def counts(leaf: Any) -> Any:
        return structures.pointer(leaf, np.int32)

    learner, situation = lanes.learner, lanes.situation
    return structures.Lanes(
        structures.pointer(keys, np.uint32),
        floats(situation.state),
        floats(situation.observation),
        floats(lanes.ring),
        structures.tree_addresses(map(jax.tree.leaves, structures.learner_trees(learner))),
        counts(situation.episode_steps),
        counts(learner.adam.updates),
        counts(learner.iterations),
        counts(lanes.episodes),
        counts(lanes.diverged_at),
        structures.pointer(lanes.active, bool),
        *_scale(lanes.normaliser),
    )


def _scale(normaliser: Normaliser) -> tuple[int | None, int | None]:
    """The addresses of the constants that observations are scaled with."""
    scale = normaliser.observations
    if not isinstance(scale, Scale):
        return None, None
    return structures.pointer(scale.mean, np.float32), structures.pointer(scale.deviation, np.float32)
