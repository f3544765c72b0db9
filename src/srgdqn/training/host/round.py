"""One round on the host: a block of steps under the ε-greedy policy, then an outer iteration, as in a compiled lane."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp
import numpy as np

from srgdqn.adapters.failures import EnvironmentFailedError
from srgdqn.adapters.flat_replay import Block, FlatMemory, Memory
from srgdqn.adapters.frame_replay import FrameMemory
from srgdqn.adapters.players import Player, check_block
from srgdqn.config import Configuration
from srgdqn.learner.normalisation import Normaliser
from srgdqn.learner.outer_iteration import LearnerState
from srgdqn.training.clock import budget_of, limits_of
from srgdqn.training.host.draws import Plan
from srgdqn.training.host.learner import Learning, make_learning
from srgdqn.training.host.program import HostProgram, numbers_of
from srgdqn.training.host.step_log import StepLog
from srgdqn.training.host.task import HostTask
from srgdqn.training.lane import as_stored
from srgdqn.training.window_rows import ANEW

_NOTHING_LEARNT = [np.nan] * 4


class HostRound:
    """A round's whole state, advanced a block at a time."""

    def __init__(
        self,
        configuration: Configuration,
        task: HostTask,
        program: HostProgram,
        player: Player | None,
        number: int = 0,
    ) -> None:
        """`player` may be None for a round that is not going to live, but only to act."""
        self.configuration, self.task, self.number, self.player = configuration, task, number, player
        learner, self.normaliser, self.key = program.begin(np.uint32(configuration.training.seed), np.uint32(number))
        self.numbers = numbers_of(configuration)
        self._learning = make_learning(configuration, program, learner, self.normaliser, self.numbers)
        self.policy = self._learning.policy
        self.memory = _memory(configuration, task, program.slots)
        self.blocks = 0  # lived
        self.iterations = 0  # outer iterations made
        self.diverged_at: int | None = None
        self.step_log = StepLog(configuration.training.learning_frequency, configuration.training.environments)
        self._left: set[int] = set()  # environments whose open episodes have been left since the last block
        self.blocks_before_memory = 0  # lived before the memory was as empty as it was new
        self._program = program
        self._block = Block(configuration.training.learning_frequency, task.observations)
        self._spare = 0 if configuration.training.environments == 1 else configuration.training.environments
        self.spend(configuration)

    @property
    def learner(self) -> LearnerState:
        """What has been learnt."""
        return self._learning.state

    def restore(self, learner: LearnerState, normaliser: Normaliser) -> None:
        """Goes on from what was learnt elsewhere."""
        self.normaliser = normaliser
        self._learning.restore(learner, normaliser)

    def learn_by(self, wrap: Callable[[Learning], Learning]) -> None:
        """Has its learning done by what `wrap` makes of what does it now, such as by one who takes notes."""
        self._learning = wrap(self._learning)

    def enter(self, player: Player) -> None:
        """Goes on elsewhere, with new episodes."""
        self.player = player
        self.leave_episodes()

    def leave_episodes(self) -> None:
        """Begins new episodes with the next block; of those left open, no reward is part of the next one's return."""
        assert self.player is not None
        self.player.forget()
        self.begin_anew(range(self.configuration.training.environments))

    def begin_anew(self, seats: Iterable[int]) -> None:
        """The next steps in these environments are the first of new episodes, whatever was open there."""
        left = sorted(seats)
        self._left |= set(left)
        open_return = self.normaliser.open_return
        if left and open_return is not None:
            nothing = jnp.zeros_like(open_return) if open_return.ndim == 0 else open_return.at[np.array(left)].set(0.0)
            self.normaliser = self.normaliser._replace(open_return=nothing)

    def spend(self, configuration: Configuration, *, steps_before: int = 0, to_the_end: bool = False) -> None:
        """Goes on under the budget of a configuration that differs from the present one in that alone; of the steps so
        far, `steps_before` were lived before that budget began. `to_the_end`: a last block that the budget does not
        fill ends in an outer iteration as well.
        """
        self.configuration, self.steps_before = configuration, steps_before
        limits, budget = limits_of(configuration.training), budget_of(configuration.training)
        self._unit, self._amount = budget.unit, np.float32(budget.amount)
        self.first_learning = self.blocks_before_memory + int(limits.first_learning)
        self._last_block = None if to_the_end else int(limits.last_block)
        self._plan = Plan(
            self._program,
            self.key,
            self.numbers,
            limits,
            len(self._block),
            steps_before=steps_before,
            blocks_before=self.blocks_before_memory,
        )

    @property
    def steps(self) -> int:
        """Environment steps lived."""
        return self.blocks * len(self._block)

    @property
    def episodes(self) -> int:
        """Episodes ended."""
        return 0 if self.player is None else self.player.episodes

    @property
    def spent_share(self) -> float:
        """How much of the budget is spent."""
        spent = {
            "steps": self.steps - self.steps_before,
            "outer_iterations": self.iterations,
            "episodes": self.episodes,
        }[self._unit]
        return float(np.float32(spent) / self._amount)

    @property
    def exploration_rate(self) -> float:
        """The present probability of a random action."""
        share = np.array([min(self.spent_share, 1.0)], np.float32)
        return float(self._program.chances(self.numbers, share)[0])

    @property
    def active(self) -> bool:
        """Whether it has neither diverged nor spent its budget."""
        return self.diverged_at is None and self.spent_share < 1

    def compile(self) -> None:
        """Compiles what living and learning will call, by calling it on nothing."""
        slots, picks = self._plan.rows(0)
        if self.configuration.training.kernel == "xla":
            nothing = self.memory.blank(len(slots))
            done = self._program.learn(self.learner, self.normaliser, self.numbers, nothing, picks, np.float32(0))
            jax.block_until_ready(done)

    def live_block(self) -> None:
        """A block of steps, then (where it is time) an outer iteration. What the environment does wrong is raised
        before anything of the block is taken in.
        """
        block, index, lived = self._block, self.blocks, self.steps
        assert self.player is not None
        chances = self._plan.chances(lived + self.player.ahead, len(block) + self._spare)
        ended_before = self.player.episodes
        try:
            self.player.play(block, self.policy, chances, lived)
            check_block(block, self.task.name, lived)
        except EnvironmentFailedError:
            self.leave_episodes()
            self.player.episodes = ended_before
            raise
        stored = as_stored(self.configuration.task, block.reward).astype(np.float32, copy=False)
        self.memory.write(block, stored)
        if self.normaliser.observations is not None or self.normaliser.returns is not None:
            # Copies, as the program may still read them when the next block is being lived.
            seen, ended, seats = block.observation.copy(), block.terminated | block.truncated, block.seat.copy()
            self.normaliser = self._program.observe(self.normaliser, self.numbers, seen, stored.copy(), ended, seats)
            self.policy.update(self.learner.parameters, self.normaliser)
        diagnostics = _NOTHING_LEARNT
        self.blocks += 1
        if self.first_learning <= index and (self._last_block is None or index < self._last_block):
            diagnostics = self._learn(index)
        self.step_log.write(block, diagnostics)
        if self._left:
            self._mark_beginnings()

    def _mark_beginnings(self) -> None:
        """Of new episodes where others were left open."""
        seats, places = np.unique(self._block.seat, return_index=True)
        first = dict(zip(seats.tolist(), places.tolist(), strict=True))
        here = self._left & set(first)
        self.step_log["flags"][-1, [first[seat] for seat in here]] |= ANEW
        self._left -= here

    def _learn(self, index: int) -> list[float]:
        slots, picks = self._plan.rows(index)
        share = np.float32(self.spent_share)
        good, told = self._learning.learn(self.memory, slots, picks, share, self.normaliser)
        self.iterations += 1
        if not good:
            self.diverged_at = self.steps
        return told


def _memory(configuration: Configuration, task: HostTask, slots: int) -> Memory:
    if task.observations.kind == "image":
        return FrameMemory(slots, task.observations.shape, configuration.training.environments)
    return FlatMemory(slots, task.observations.size)
