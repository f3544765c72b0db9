"""A compiled round rerun by the program that trained it, alone or beside copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from srgdqn.inspection.trace import IterationInputs
from srgdqn.learner.networks import make_network
from srgdqn.learner.outer_iteration import batch_rows
from srgdqn.learner.replay import made_at
from srgdqn.tasks import Task
from srgdqn.training.batches import Occasion, Served, from_replay
from srgdqn.training.clock import limits_of, next_stop
from srgdqn.training.draws import draw_block
from srgdqn.training.interaction import action_count, observation_size
from srgdqn.training.lane import TERMINATED, TRUNCATED, BlockLog, Lane
from srgdqn.training.lanes import LaneRounds
from srgdqn.training.program import lane_numbers

if TYPE_CHECKING:
    from srgdqn.inspection.saved_run import SavedRun

_DIAGNOSTICS = ("loss", "max_q", "delta_norm", "theta_norm")


class CompiledRerun:
    """A round of a saved run, and copies of it."""

    def __init__(self, saved: SavedRun, number: int, start: tuple[int, Lane] | None = None) -> None:
        """From its first step, or from a number of blocks and the state after them (leading axis: one round)."""
        assert isinstance(saved.task, Task)
        configuration, self._programs = saved.configuration, saved.programs
        self._configuration, self._number, self._task = configuration, number, saved.task
        self._limits = limits_of(configuration.training, configuration.task.time_limit)
        self.ends: list[np.ndarray] = []  # environment steps at which episodes of the first copy ended
        self._rounds = LaneRounds(configuration, self._programs, [number])
        if start is None:
            self._rounds.begin()
        else:
            self._rounds.resume(*start)
        self._network = make_network(
            configuration.network,
            observation_size(saved.task.environment),
            action_count(saved.task.environment),
            saved.network,
        )
        self._draw = jax.jit(self._drawn)

    @property
    def blocks(self) -> int:
        """Blocks done."""
        return self._rounds.blocks

    @property
    def steps(self) -> int:
        """Environment steps made."""
        return self.blocks * self._configuration.training.learning_frequency

    @property
    def active(self) -> bool:
        """Whether the round has not ended."""
        return self._rounds.active

    @property
    def network(self) -> Any:
        """The Q-network."""
        return self._network

    def beside_copies(self, count: int, change: Callable[[np.ndarray], np.ndarray]) -> None:
        """Adds copies of the round, with `change` applied to every array of their state."""
        lanes = self._rounds.on_host()
        others = [jax.tree.map(lambda leaf: change(np.asarray(leaf)), lanes) for _ in range(count)]
        together: Lane = jax.tree.map(lambda *leaves: np.concatenate(leaves), lanes, *others)
        copies = LaneRounds(self._configuration, self._programs, [self._number] * (1 + count))
        copies.resume(self.blocks, together)
        self._rounds = copies

    def policies(self) -> list[dict[str, np.ndarray]]:
        """The arrays of the policy of every copy, by path; the first is the round's own."""
        stored, copies = self._rounds.policies(), range(len(self._rounds.divergence))
        return [{path: array[copy] for path, array in stored.items()} for copy in copies]

    def state(self) -> Lane:
        """The round's own state."""
        return jax.tree.map(lambda leaf: leaf[0], self._rounds.on_host())

    def advance(self, block: int) -> None:
        """Runs until that many blocks are done, or the round ends."""
        while self.blocks < block and self.active:
            self._run(next_stop(self._configuration.training, self.blocks, block - self.blocks))

    def next_iteration(self) -> IterationInputs | None:
        """Runs one block, and returns the outer iteration at its end; None where there was none."""
        block, before = self.blocks, self.state()
        log, after = self._run(block + 1), self.state()
        due = int(self._limits.first_learning) <= block < int(self._limits.last_block)
        if not (before.active and due):
            return None
        numbers = {name: values[0] for name, values in lane_numbers(self._configuration, 1).items()}
        given = (before.learner, after.ring, before.key, np.int32(block), numbers)
        served = jax.tree.map(np.asarray, self._draw(*given))
        spent = self._limits.spent(
            steps=jnp.asarray(self.steps, jnp.int32),
            outer_iterations=before.learner.iterations,
            episodes=after.episodes,
        )
        logged = np.array([np.asarray(getattr(log, name))[0, 0] for name in _DIAGNOSTICS])
        return IterationInputs(
            block=block,
            step=self.steps,
            before=before.learner,
            after=after.learner,
            normaliser=after.normaliser,
            transitions=served.transitions,
            made_at=made_at(served.slots, len(after.ring), self.steps),
            picks=served.picks,
            progress=np.asarray(spent / self._limits.amount),
            numbers=numbers,
            logged=logged,
            discarded=bool(after.diverged_at >= 0),
        )

    def _drawn(self, learner: Any, ring: Any, key: Any, block: Any, numbers: dict[str, Any]) -> Served:
        configuration = self._configuration.shape().with_numbers(numbers)
        key = jax.random.wrap_key_data(key, impl="threefry2x32")
        actions, rows = action_count(self._task.environment), batch_rows(configuration)
        draws = draw_block(configuration, key, block, actions=actions, rows=rows)
        return from_replay(Occasion(configuration, self._network, learner, ring, block, draws, None))

    def _run(self, stop: int) -> BlockLog:
        steps = self.steps
        self._rounds.advance(stop)
        log = self._rounds.log
        ended = np.flatnonzero(np.asarray(log.flags[0]).ravel() & (TERMINATED | TRUNCATED))
        self.ends.append(steps + ended + 1)
        return log
