"""A segment of a compiled round learned again on the transitions that the run itself made.

Where programs round otherwise, a single action that comes out otherwise, because two Q-values were as good as equal,
leads to other transitions from there on. The checkpoints at both ends of a segment hold the transitions that the run
made in it, so that its learning can be repeated on those: then nothing is left to chance but rounding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from srgdqn.config import Configuration
from srgdqn.inspection.saved_run import Subject
from srgdqn.learner.networks import Network, make_network
from srgdqn.learner.normalisation import Normaliser, observe
from srgdqn.learner.outer_iteration import LearnerState, batch_rows
from srgdqn.learner.replay import unpack
from srgdqn.tasks import Task
from srgdqn.training.batches import Served, choose_rows
from srgdqn.training.clock import Limits, limits_of
from srgdqn.training.draws import draw_block
from srgdqn.training.interaction import action_count, observation_size
from srgdqn.training.loop import policy_arrays
from srgdqn.training.lane import Lane, learn_on
from srgdqn.training.program import lane_numbers


@functools.lru_cache(maxsize=4)
def forced_learning(subject: Subject) -> ForcedLearning:
    """That of a run, compiled once."""
    return ForcedLearning(subject)


class _Student(NamedTuple):
    learner: LearnerState
    normaliser: Normaliser


class ForcedLearning:
    """Segments of the rounds of one run; compiled once."""

    def __init__(self, subject: Subject) -> None:
        assert isinstance(subject.task, Task)
        environment, configuration = subject.task.environment, subject.configuration
        self._configuration, self._actions = configuration, action_count(environment)
        self._limits = limits_of(configuration.training, configuration.task.time_limit)
        self._network: Network = make_network(
            configuration.network, observation_size(environment), self._actions, subject.network
        )
        self._run = jax.jit(jax.vmap(self._learned, (0, 0, None, None, None, None, None, None)))

    def possible(self, start: tuple[int, Lane], end: tuple[int, Lane]) -> bool:
        """Whether the transitions of a segment, all that learning depends on, are in the states at its ends."""
        settings, block = self._configuration, self._configuration.training.learning_frequency
        by_episodes = bool(self._limits.counts_episodes) and settings.optimiser.schedule != "constant"
        return (
            (end[0] - start[0]) * block <= start[1].ring.shape[1]
            and bool(end[1].diverged_at[0] < 0)
            and not by_episodes
            and not settings.normalisation.normalise_rewards  # of which episodes' ends are needed
        )

    def learned(
        self,
        start: tuple[int, Lane],
        end: tuple[int, Lane],
        copies: int,
        change: Callable[[np.ndarray], np.ndarray],
    ) -> list[dict[str, np.ndarray]]:
        """The policies that the segment ends with: the round's own, and those of copies whose state was changed."""
        (first, before), (last, after) = start, end
        slots, block = before.ring.shape[1], self._configuration.training.learning_frequency
        base = first * block - slots
        numbers = np.arange(base, base + 2 * slots)  # of transitions; those before the first are never drawn
        old, new = (np.asarray(lane.ring[0])[numbers % slots] for lane in (before, after))
        made = np.where((numbers < first * block)[:, None], old, new)
        student = _Student(*(jax.tree.map(lambda leaf: leaf[0], part) for part in (before.learner, before.normaliser)))
        others = [jax.tree.map(lambda leaf: _changed(leaf, change), student) for _ in range(copies)]
        students = jax.tree.map(lambda *leaves: np.stack(leaves), student, *others)
        seen = np.stack([made, *(_changed(made, change) for _ in range(copies))])
        given = {name: values[0] for name, values in lane_numbers(self._configuration, 1).items()}
        span = np.int32(first), np.int32(last), np.int32(base)
        ended = self._run(students, seen, before.key[0], *span, given, self._limits)
        stored = policy_arrays(ended.learner.parameters, ended.normaliser)
        return [{path: array[copy] for path, array in stored.items()} for copy in range(1 + copies)]

    def _learned(
        self,
        student: _Student,
        made: Array,
        key: Any,
        first: Array,
        last: Array,
        base: Array,
        numbers: dict[str, Array],
        limits: Limits,
    ) -> _Student:
        configuration: Configuration = self._configuration.shape().with_numbers(numbers)
        block, slots = configuration.training.learning_frequency, made.shape[0] // 2
        key = jax.random.wrap_key_data(key, impl="threefry2x32")

        def live(index: Array, student: _Student) -> _Student:
            lived = unpack(jax.lax.dynamic_slice_in_dim(made, index * block - base, block))
            normaliser = observe(
                student.normaliser, lived.observation, lived.reward, lived.terminated > 0, configuration.gradients.gamma
            )
            draws = draw_block(configuration, key, index, actions=self._actions, rows=batch_rows(configuration))
            chosen, picks = choose_rows(configuration, slots, index, draws)
            newest = (index + 1) * block - 1
            rows = newest - (newest - chosen) % slots - base
            spent = limits.spent(
                steps=(index + 1) * block,
                outer_iterations=student.learner.iterations,
                episodes=jnp.zeros((), jnp.int32),
            )
            served = Served(unpack(made[rows]), picks)
            learner, _, _ = learn_on(
                configuration, self._network, student.learner, normaliser, served, spent / limits.amount
            )
            due = (index >= limits.first_learning) & (index < limits.last_block)
            kept = jax.tree.map(lambda new, old: jnp.where(due, new, old), learner, student.learner)
            return _Student(kept, normaliser)

        return jax.lax.fori_loop(first, last, live, student)


def _changed(leaf: np.ndarray, change: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    leaf = np.asarray(leaf)
    return change(leaf) if np.issubdtype(leaf.dtype, np.floating) else leaf
