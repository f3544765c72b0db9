"""A round's learner, and the policy that it makes: compiled by XLA, or in the kernel."""

from __future__ import annotations

from typing import Any, Protocol

import jax
import numpy as np

from srgdqn.adapters.policy import GreedyPolicy, greedy_policy
from srgdqn.adapters.replay_memory import Memory
from srgdqn.config import Configuration
from srgdqn.kernel import structures
from srgdqn.kernel.calls import HostLearner
from srgdqn.learner.normalisation import Normaliser, Scale
from srgdqn.learner.outer_iteration import LearnerState, batch_rows
from srgdqn.training.batches import ChosenRows
from srgdqn.training.host.program import HostProgram


class RoundLearner(Protocol):
    """What learns from a memory, one outer iteration at a time."""

    policy: GreedyPolicy

    @property
    def state(self) -> LearnerState:
        """What has been learnt."""

    def restore(self, state: LearnerState, normaliser: Normaliser) -> None:
        """Goes on from another state."""

    def remember(self, written: int) -> None:
        """A block was written to the memory, of so many transitions ever."""

    def learn(
        self, memory: Memory, rows: ChosenRows, progress: np.float32, normaliser: Normaliser
    ) -> tuple[bool, list[float]]:
        """One outer iteration on these rows: whether it led to numbers (otherwise nothing has changed), the mean loss
        and max_a Q, the norms of Δ_M and θ, and what the estimator logs.
        """


def make_learning(
    configuration: Configuration, program: HostProgram, state: LearnerState, normaliser: Normaliser, numbers: np.ndarray
) -> RoundLearner:
    """The learner that the configuration's `kernel` asks for."""
    made: RoundLearner = (
        KernelLearner(configuration, state)
        if configuration.training.kernel == "native"
        else XlaLearner(program, numbers)
    )
    made.restore(state, normaliser)
    return made


class XlaLearner:
    """By the program that XLA compiled."""

    state: LearnerState

    def __init__(self, program: HostProgram, numbers: np.ndarray) -> None:
        self._learn, self._remember, self._numbers = program.learn, program.remember, numbers
        self.policy = greedy_policy(program.network, program.greedy)

    def restore(self, state: LearnerState, normaliser: Normaliser) -> None:
        """Goes on from another state."""
        self.state = state
        self.policy.update(state.parameters, normaliser)

    def remember(self, written: int) -> None:
        """A block was written to the memory."""
        if self.state.priorities is not None:
            self.state = self.state._replace(priorities=self._remember(self.state.priorities, np.int32(written)))

    def learn(
        self, memory: Memory, rows: ChosenRows, progress: np.float32, normaliser: Normaliser
    ) -> tuple[bool, list[float]]:
        """One outer iteration."""
        beyond = None if rows.beyond is None else memory.gather(np.asarray(rows.beyond))
        given = (self._numbers, memory.gather(np.asarray(rows.origin.slots)), rows, beyond, progress)
        state, diagnostics = self._learn(self.state, normaliser, *given)
        values: list[float] = np.asarray(diagnostics).tolist()
        good = bool(np.isfinite(values[2]) and np.isfinite(values[3]))
        if good:
            self.restore(state, normaliser)
        return good, values


class KernelLearner:
    """In the kernel, without a dispatch to a device: for a perceptron it takes less time than that would."""

    def __init__(self, configuration: Configuration, state: LearnerState) -> None:
        shapes = [leaf.shape for leaf in jax.tree.leaves(state.parameters)]
        widths = [shapes[0][0], *(shape[0] for shape in shapes[1::2])]
        shape = structures.shape_of(configuration, widths=widths, rows=batch_rows(configuration))
        self._learner = HostLearner(shape, structures.numbers_of(configuration.numbers(), 1))
        self._like = state
        self.policy: GreedyPolicy = _KernelPolicy(self._learner)

    @property
    def state(self) -> LearnerState:
        """What has been learnt, copied out of the kernel."""
        like = self._like
        trees = jax.tree.map(lambda leaf: np.zeros(leaf.shape, np.float32), structures.learner_trees(like))
        counts = np.zeros(2, np.int32)
        self._learner.move(_addresses(trees, counts, []), into=False)
        parameters, first, second, target, *memory = trees
        return LearnerState(
            parameters,
            like.adam._replace(first=first, second=second, updates=counts[0]),
            target,
            None if like.memory is None else type(like.memory)(*memory),
            counts[1],
        )

    def restore(self, state: LearnerState, normaliser: Normaliser) -> None:
        """Goes on from another state."""
        trees = jax.tree.map(lambda leaf: np.array(leaf, np.float32, order="C"), structures.learner_trees(state))
        counts = np.array([state.adam.updates, state.iterations], np.int32)
        seen = normaliser.observations
        scale = [np.array(each, np.float32) for each in seen] if isinstance(seen, Scale) else []
        self._learner.move(_addresses(trees, counts, scale), into=True)

    def remember(self, written: int) -> None:
        """Nothing: it knows no priorities."""

    def learn(
        self, memory: Memory, rows: ChosenRows, progress: np.float32, normaliser: Normaliser
    ) -> tuple[bool, list[float]]:
        """One outer iteration."""
        del normaliser  # what it has, `restore` was given
        learner = self._learner
        memory.gather(np.asarray(rows.origin.slots), out=learner.batch)
        if rows.picks.size:
            learner.picks[:] = rows.picks.ravel()
        return learner.learn(float(progress), renewed=bool(rows.renewed))


class _KernelPolicy:
    """What the kernel's round would do."""

    def __init__(self, learner: HostLearner) -> None:
        self._observation, self._act = learner.observation, learner.act

    def update(self, parameters: Any, normaliser: Normaliser) -> None:
        """Nothing: the parameters are where the kernel learns them."""

    def one(self, observation: np.ndarray, mask: np.ndarray | None = None) -> int:
        """The best action for one observation."""
        del mask  # with which the kernel is not chosen
        self._observation[:] = observation
        return self._act()

    def rows(self, observations: np.ndarray, masks: np.ndarray | None = None) -> np.ndarray:
        """The best action for each of several."""
        del masks
        return np.array([self.one(row) for row in observations])


def _addresses(trees: tuple[Any, ...], counts: np.ndarray, scale: list[np.ndarray]) -> structures.LearnerState:
    learner, updates = structures.tree_addresses(map(jax.tree.leaves, trees)), structures.pointer(counts, np.int32)
    constants = [structures.pointer(each, np.float32) for each in scale] or [None, None]
    return structures.LearnerState(learner, updates, updates + counts.itemsize, *constants)
