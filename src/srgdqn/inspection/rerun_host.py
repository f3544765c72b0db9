"""A round in an ordinary Gymnasium environment rerun by the program that trained it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from srgdqn.adapters.environments import close
from srgdqn.adapters.replay import Memory
from srgdqn.inspection.trace import IterationInputs
from srgdqn.learner.normalisation import Normaliser
from srgdqn.learner.outer_iteration import LearnerState
from srgdqn.learner.replay import made_at, unpack
from srgdqn.runs.checkpoints import Checkpoint
from srgdqn.training.host.learner import Learning
from srgdqn.training.host.program import host_program
from srgdqn.training.host.round import HostRound
from srgdqn.training.host.task import HostTask, make_player
from srgdqn.training.host.train_round import restored_round
from srgdqn.training.lane import TERMINATED, TRUNCATED
from srgdqn.training.loop import policy_arrays

if TYPE_CHECKING:
    from srgdqn.inspection.saved_run import SavedRun


class HostRerun:
    """A round of a saved run, and copies of it."""

    def __init__(self, saved: SavedRun, number: int, start: Checkpoint | None = None) -> None:
        """From its first step, or from a checkpoint."""
        assert isinstance(saved.task, HostTask)
        task, configuration = saved.task, saved.configuration
        self._made_from, self._name = (saved, number, start), task.name
        program, _ = host_program(configuration, task.network_input, task.actions.count, saved.network)
        if start is None:
            player, self._environments = make_player(configuration, task, number)
            self._round = HostRound(configuration, task, program, player, number)
        else:
            self._round, _ = restored_round(start, configuration, task, program, number)
            player, self._environments = make_player(configuration, task, number, self._round.begun)
            self._round.resume_episodes(player)
        self._round.learn_by(self._recording)
        self._copies: list[HostRerun] = []
        self.network = program.network
        self.ends: list[np.ndarray] = []  # environment steps at which episodes ended

    def _recording(self, learning: Learning) -> Learning:
        self._learning = _Recording(learning)
        return self._learning

    @property
    def blocks(self) -> int:
        """Blocks done."""
        return self._round.blocks

    @property
    def steps(self) -> int:
        """Environment steps made."""
        return self._round.steps

    @property
    def active(self) -> bool:
        """Whether the round has not ended."""
        return self._round.active

    def beside_copies(self, count: int, change: Callable[[np.ndarray], np.ndarray]) -> None:
        """Adds copies of the round, with `change` applied to every array of their learner's state, but not to their
        environments and replays.
        """
        for _ in range(count):
            copy = HostRerun(*self._made_from)
            learner = jax.tree.map(lambda leaf: change(np.asarray(leaf)), copy._round.learner)
            copy._round.go_on_from(learner, copy._round.normaliser)
            self._copies.append(copy)

    def policies(self) -> list[dict[str, np.ndarray]]:
        """The arrays of the policy of every copy, by path; the first is the round's own."""
        rounds = [each._round for each in (self, *self._copies)]
        return [policy_arrays(each.learner.parameters, each.normaliser) for each in rounds]

    def advance(self, block: int) -> None:
        """Runs until that many blocks are done, or the round ends."""
        for copy in self._copies:
            copy.advance(block)
        while self.blocks < block and self.active:
            self._run()

    def next_iteration(self) -> IterationInputs | None:
        """Runs one block, and returns the outer iteration at its end; None where there was none."""
        self._learning.record_next()
        self._run()
        recorded = self._learning.recorded
        if recorded is None:
            return None
        before, batch, slots, picks, progress, logged, good = recorded
        configuration, memory = self._round.configuration, self._round.memory
        return IterationInputs(
            block=self.blocks - 1,
            step=self.steps,
            before=before,
            after=self._round.learner,
            normaliser=self._round.normaliser,
            transitions=jax.tree.map(np.asarray, unpack(jax.tree.map(jnp.asarray, batch))),
            made_at=made_at(slots, memory.slots, memory.written),
            picks=picks,
            progress=np.asarray(progress),
            numbers=dict(zip(configuration.numbers(), self._round.numbers, strict=True)),
            logged=np.array(logged),
            discarded=not good,
        )

    def close(self) -> None:
        """Closes its environments."""
        for copy in self._copies:
            copy.close()
        for environment in self._environments:
            close(environment, self._name)

    def _run(self) -> None:
        before = self.steps
        self._round.step_block()
        flags = self._round.step_log["flags"][-1]
        self.ends.append(before + np.flatnonzero(flags & (TERMINATED | TRUNCATED)) + 1)
        self._round.step_log.clear()


class _Recording:
    """Learns as usual, and records the inputs of the next outer iteration when asked to."""

    def __init__(self, learning: Learning) -> None:
        self._learning, self._due = learning, False
        self.policy, self.recorded = learning.policy, cast(Any, None)

    @property
    def state(self) -> LearnerState:
        """The learner's state."""
        return self._learning.state

    def restore(self, state: LearnerState, normaliser: Normaliser) -> None:
        """Continues from another state."""
        self._learning.restore(state, normaliser)

    def record_next(self) -> None:
        """Records the next outer iteration."""
        self._due, self.recorded = True, None

    def learn(
        self, memory: Memory, slots: np.ndarray, picks: np.ndarray, progress: np.float32, normaliser: Normaliser
    ) -> tuple[bool, list[float]]:
        """One outer iteration."""
        if not self._due:
            return self._learning.learn(memory, slots, picks, progress, normaliser)
        before = jax.tree.map(np.array, self.state)
        batch = jax.tree.map(np.array, memory.gather(slots))
        good, logged = self._learning.learn(memory, slots, picks, progress, normaliser)
        self._due = False
        self.recorded = (before, batch, np.array(slots), np.array(picks), progress, logged, good)
        return good, logged
