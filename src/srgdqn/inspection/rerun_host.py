"""A round in an ordinary environment lived again by what trained it, as far as is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from srgdqn.adapters.environments import close
from srgdqn.adapters.flat_replay import Memory
from srgdqn.inspection.iteration import Moment
from srgdqn.inspection.saved_run import Subject
from srgdqn.learner.gradients import Transitions
from srgdqn.learner.normalisation import Normaliser
from srgdqn.learner.outer_iteration import LearnerState
from srgdqn.learner.replay import unpack
from srgdqn.runs.checkpoints import Checkpoint
from srgdqn.training.host.learner import Learning
from srgdqn.training.host.program import host_program
from srgdqn.training.host.round import HostRound
from srgdqn.training.host.task import HostTask, make_player
from srgdqn.training.host.train_round import restored_round
from srgdqn.training.lane import TERMINATED, TRUNCATED
from srgdqn.training.loop import policy_arrays


class HostedRound:
    """A round of a run, and copies of it."""

    def __init__(self, subject: Subject, number: int, start: Checkpoint | None = None) -> None:
        """From its first step, or from a checkpoint."""
        assert isinstance(subject.task, HostTask)
        task, configuration = subject.task, subject.configuration
        self._again, self._name = (subject, number, start), task.name
        program, _ = host_program(configuration, task.network_input, task.actions.count, subject.network)
        if start is None:
            player, self._environments = make_player(configuration, task, number)
            self._round = HostRound(configuration, task, program, player, number)
        else:
            self._round, _ = restored_round(start, configuration, task, program, number)
            player, self._environments = make_player(configuration, task, number, self._round.begun)
            self._round.resume_episodes(player)
        self._round.learn_by(self._watched)
        self._copies: list[HostedRound] = []
        self.network = program.network
        self.ends: list[np.ndarray] = []  # environment steps at which episodes ended

    def _watched(self, learning: Learning) -> Learning:
        self._learning = _Watched(learning)
        return self._learning

    @property
    def blocks(self) -> int:
        """Lived so far."""
        return self._round.blocks

    @property
    def steps(self) -> int:
        """Environment steps lived."""
        return self._round.steps

    @property
    def active(self) -> bool:
        """Whether there is anything left to live."""
        return self._round.active

    def beside_copies(self, count: int, change: Callable[[np.ndarray], np.ndarray]) -> None:
        """Goes on beside so many copies of itself, in what they have learnt every array of real numbers has been
        changed. What their environments and replays hold is not.
        """
        for _ in range(count):
            copy = HostedRound(*self._again)
            learner = jax.tree.map(lambda leaf: _changed(np.asarray(leaf), change), copy._round.learner)
            copy._round.go_on_from(learner, copy._round.normaliser)
            self._copies.append(copy)

    def policies(self) -> list[dict[str, np.ndarray]]:
        """What the policy of every copy is made of, by path; the first is the round's own."""
        rounds = [each._round for each in (self, *self._copies)]
        return [policy_arrays(each.learner.parameters, each.normaliser) for each in rounds]

    def advance(self, block: int) -> None:
        """Lives until so many blocks have been lived, or nothing is left to live."""
        for copy in self._copies:
            copy.advance(block)
        while self.blocks < block and self.active:
            self._live()

    def live(self) -> Moment | None:
        """Lives one block, and gives the outer iteration at its end; None where there was none."""
        self._learning.watch()
        self._live()
        noted = self._learning.noted
        if noted is None:
            return None
        before, batch, slots, picks, progress, told, good = noted
        configuration, memory = self._round.configuration, self._round.memory
        transitions = batch if isinstance(batch, Transitions) else unpack(jnp.asarray(batch))
        return Moment(
            block=self.blocks - 1,
            step=self.steps,
            before=before,
            after=self._round.learner,
            normaliser=self._round.normaliser,
            transitions=jax.tree.map(np.asarray, transitions),
            made_at=memory.written - (memory.written - 1 - slots) % memory.slots,
            picks=picks,
            progress=np.asarray(progress),
            numbers=dict(zip(configuration.numbers(), self._round.numbers, strict=True)),
            told=np.array(told),
            discarded=not good,
        )

    def close(self) -> None:
        """Closes its environments."""
        for copy in self._copies:
            copy.close()
        for environment in self._environments:
            close(environment, self._name)

    def _live(self) -> None:
        lived = self.steps
        self._round.step_block()
        flags = self._round.step_log["flags"][-1]
        self.ends.append(lived + np.flatnonzero(flags & (TERMINATED | TRUNCATED)) + 1)
        self._round.step_log.clear()


class _Watched:
    """Learns as ever, and notes what the next outer iteration is made from."""

    def __init__(self, learning: Learning) -> None:
        self._learning, self._watching = learning, False
        self.policy, self.noted = learning.policy, cast(Any, None)

    @property
    def state(self) -> LearnerState:
        """What has been learnt."""
        return self._learning.state

    def restore(self, state: LearnerState, normaliser: Normaliser) -> None:
        """Goes on from another state."""
        self._learning.restore(state, normaliser)

    def watch(self) -> None:
        """Notes the next one."""
        self._watching, self.noted = True, None

    def learn(
        self, memory: Memory, slots: np.ndarray, picks: np.ndarray, progress: np.float32, normaliser: Normaliser
    ) -> tuple[bool, list[float]]:
        """One outer iteration."""
        if not self._watching:
            return self._learning.learn(memory, slots, picks, progress, normaliser)
        before = jax.tree.map(np.array, self.state)
        batch = jax.tree.map(np.array, memory.gather(slots))
        good, told = self._learning.learn(memory, slots, picks, progress, normaliser)
        self._watching = False
        self.noted = (before, batch, np.array(slots), np.array(picks), progress, told, good)
        return good, told


def _changed(leaf: np.ndarray, change: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    return change(leaf) if np.issubdtype(leaf.dtype, np.floating) else leaf
