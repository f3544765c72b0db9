"""A round of a saved run, rerun by the program that trained it, alone or beside copies."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from srgdqn.adapters.environments import close
from srgdqn.adapters.failures import EnvironmentFailedError
from srgdqn.errors import InputError
from srgdqn.inspection.saved_run import RoundCheckpoint, SavedRun, warn_unusable
from srgdqn.inspection.trace import IterationInputs
from srgdqn.learner.gradients import Transitions
from srgdqn.learner.n_step import gather
from srgdqn.learner.normalisation import Normaliser
from srgdqn.learner.outer_iteration import LearnerState, batch_rows
from srgdqn.learner.replay import ring_length, unpack
from srgdqn.tasks import Task
from srgdqn.training.batches import choose_rows
from srgdqn.training.budget import limits_of, next_stop
from srgdqn.training.draws import draw_block
from srgdqn.training.host.program import host_program
from srgdqn.training.host.round import HostRound
from srgdqn.training.host.rounds import evaluation_environment, restored_round
from srgdqn.training.host.task import make_player
from srgdqn.training.lane import TERMINATED, TRUNCATED, Lane, remembering
from srgdqn.training.lanes import LaneRounds
from srgdqn.training.loop import played_by, train
from srgdqn.training.program import lane_numbers
from srgdqn.training.recorder import Recorder
from srgdqn.training.reports import Listener, ProgressReporter
from srgdqn.training.tables import Tables, endings_of

Change = Callable[[np.ndarray], np.ndarray]


@contextlib.contextmanager
def rerun(saved: SavedRun, number: int, *starts: RoundCheckpoint) -> Iterator[Rerun]:
    """A round of a run, from the last undamaged one of these checkpoints, or else from its first step."""
    with contextlib.ExitStack() as ending:
        round_ = None
        for start in reversed(starts):
            try:
                round_ = Rerun(saved, number, start, ending)
                break
            except InputError as error:
                warn_unusable(start.name, error)
        yield Rerun(saved, number, None, ending) if round_ is None else round_


class Rerun:
    """A round of a saved run, and copies of it."""

    def __init__(
        self, saved: SavedRun, number: int, start: RoundCheckpoint | None, ending: contextlib.ExitStack
    ) -> None:
        """From its first step, or from a checkpoint. `ending` closes the environments that are made."""
        self._saved, self._number, self._start, self._ending = saved, number, start, ending
        self._configuration = saved.configuration
        self._limits = limits_of(self._configuration.training, self._configuration.task.time_limit)
        self._rounds: list[LaneRounds | HostRound] = [self._lanes() if saved.compiled else self._host_round()]
        self._draw = jax.jit(self._drawn)
        self._remember = jax.jit(functools.partial(remembering, self._configuration.shape()))
        self.ends: list[int] = []  # environment steps at which episodes of the first copy ended

    def _lanes(self) -> LaneRounds:
        rounds = LaneRounds(self._configuration, self._saved.programs, [self._number])
        if self._start is None:
            rounds.begin()
        else:
            rounds.resume(self._start.blocks, self._start.lane(self._saved))
        return rounds

    def _host_round(self) -> HostRound:
        configuration, task, number = self._configuration, self._saved.task, self._number
        assert not isinstance(task, Task)
        program, _ = host_program(configuration, task.network_input, task.actions.count, self._saved.network)
        round_: HostRound | None = None
        begun: Sequence[int] = ()
        if self._start is not None:
            round_, _ = restored_round(self._start.checkpoint, configuration, task, program, number)
            begun = round_.begun
        player, environments = make_player(configuration, task, number, begun)
        for environment in environments:
            self._ending.callback(close, environment, task.name)
        if round_ is None:
            return HostRound(configuration, task, program, player, number)
        round_.resume_episodes(player)
        return round_

    @property
    def blocks(self) -> int:
        """Blocks done."""
        return self._rounds[0].blocks

    @property
    def steps(self) -> int:
        """Environment steps made."""
        return self.blocks * self._saved.block

    @property
    def active(self) -> bool:
        """Whether the round has not ended."""
        return self._rounds[0].active

    def add_copies(self, count: int, change: Change) -> None:
        """Adds copies of the round, with `change` applied to every array of their state (on the host: of their
        learner's state, but not to their environments and replays).
        """
        [own] = self._rounds
        if isinstance(own, LaneRounds):
            lanes = own.on_host()
            others = [jax.tree.map(lambda leaf: change(np.asarray(leaf)), lanes) for _ in range(count)]
            copies = LaneRounds(self._configuration, self._saved.programs, [self._number] * (1 + count))
            copies.resume(self.blocks, jax.tree.map(lambda *leaves: np.concatenate(leaves), lanes, *others))
            self._rounds = [copies]
            return
        for _ in range(count):
            copy = self._host_round()
            learner = jax.tree.map(lambda leaf: change(np.asarray(leaf)), copy.learner)
            copy.resume_from(learner, copy.normaliser)
            self._rounds.append(copy)

    def policies(self) -> list[dict[str, np.ndarray]]:
        """The arrays of the policy of every copy, by path; the first is the round's own."""
        stored = [rounds.policies() for rounds in self._rounds]
        return [
            {path: array[place] for path, array in each.items()}
            for each in stored
            for place in range(len(next(iter(each.values()))))
        ]

    def advance(self, block: int) -> None:
        """Runs until that many blocks are done, or the round ends."""
        own, *copies = self._rounds
        while own.blocks < block and own.active:
            self._run(next_stop(self._configuration.training, own.blocks, block - own.blocks))
        for copy in copies:
            while copy.blocks < block and copy.active:
                copy.advance(block)

    def retrain(self, blocks: int, listener: Listener) -> tuple[Tables, str | None]:
        """Trains the round for at least that many blocks: its tables, and what its environment did wrong, if it did."""
        own, configuration, number = self._rounds[0], self._configuration, self._number
        task, failure = self._saved.task, None
        recorder = Recorder(configuration, endings_of(task) if isinstance(task, Task) else task.endings, 1)
        progress = ProgressReporter(recorder, configuration, [number], listener)
        if isinstance(own, HostRound):
            own.evaluation_environment = evaluation_environment(own.task)
            if own.evaluation_environment is not None:
                self._ending.callback(close, own.evaluation_environment, own.task.name)
        try:
            train(
                own,
                recorder,
                lambda segment: progress.report(segment.divergence, whole=segment.last, ended=segment.last),
                halt=lambda: own.blocks >= blocks,
            )
        except EnvironmentFailedError as error:
            failure = str(error)
        given = (slice(0, 1), [number], configuration, own.divergence)
        return recorder.tables(*given, played=played_by(own, slice(0, 1))) if own.blocks else {}, failure

    def best_policy(self) -> dict[str, np.ndarray]:
        """The arrays of the best policy of the round, once it is retrained; none where it is not kept."""
        own = self._rounds[0]
        best = {} if own.best is None else own.best.filled(own.policies())
        return {path: array[0] for path, array in best.items()}

    def _run(self, stop: int) -> None:
        own, steps = self._rounds[0], self.steps
        own.advance(stop)
        ended = np.flatnonzero(np.asarray(own.log.flags[0]).ravel() & (TERMINATED | TRUNCATED))
        self.ends += (steps + ended + 1).tolist()

    def next_iterations(self) -> list[IterationInputs]:
        """Runs one block, and returns the outer iterations after it, up to the one that was discarded. Of several, the
        run's own state between them is not at hand: the others have that before the first, and no state after them.
        """
        own, block, before, active = self._rounds[0], self.blocks, self._state(), self.active
        if before.learner.priorities is not None and self._configuration.training.gradient_steps > 1:
            raise InputError(
                "its batches are drawn by priorities that change between the outer iterations after a block "
                "(sampling = 'prioritised', gradient_steps > 1), which are not at hand, so that none can be traced."
            )
        self._run(block + 1)
        if before.learner.priorities is not None:
            before = before._replace(learner=self._remember(before.learner, np.int32(self.steps)))
        if not (active and int(self._limits.first_learning) <= block < int(self._limits.last_block)):
            return []
        after, discarded = self._state(), bool(own.divergence[0] >= 0)
        made = int(after.learner.iterations) - int(before.learner.iterations)
        numbers = {name: values[0] for name, values in lane_numbers(self._configuration, 1).items()}
        return [
            self._iteration(before, after, block, numbers, update, made, discarded=discarded and update == made)
            for update in range(made + discarded)
        ]

    def _iteration(
        self,
        before: _State,
        after: _State,
        block: int,
        numbers: dict[str, Any],
        update: int,
        made: int,
        *,
        discarded: bool,
    ) -> IterationInputs:
        """One of the outer iterations after a block, of which so many were made."""
        chosen: Any = jax.tree.map(
            np.asarray, self._draw(before.key, np.int32(block), np.int32(update), numbers, before.learner.priorities)
        )
        spent = self._limits.spent(
            steps=jnp.asarray(self.steps, jnp.int32),
            outer_iterations=jnp.asarray(before.learner.iterations) + update,
            episodes=jnp.asarray(after.episodes, jnp.int32),
        )
        return IterationInputs(
            step=self.steps,
            before=before.learner,
            after=after.learner if update >= made - 1 else None,
            normaliser=after.normaliser,
            transitions=jax.tree.map(np.asarray, after.gather(chosen.origin.slots)),
            origin=chosen.origin,
            weights=chosen.weights,
            beyond=None if chosen.beyond is None else jax.tree.map(np.asarray, after.gather(chosen.beyond)),
            coins=chosen.coins,
            renewed=chosen.renewed,
            noise=chosen.noise,
            picks=chosen.picks,
            progress=np.asarray(spent / self._limits.amount),
            numbers=numbers,
            discarded=discarded,
        )

    @property
    def _slots(self) -> int:
        return ring_length(self._configuration.replay, self._saved.block)

    def _drawn(self, key: Any, block: Any, update: Any, numbers: dict[str, Any], priorities: Any) -> Any:
        configuration = self._configuration.shape().with_numbers(numbers)
        key = jax.random.wrap_key_data(key, impl="threefry2x32")
        rows = batch_rows(configuration)
        draws = draw_block(configuration, key, block, actions=self._saved.action_count, rows=rows)
        return choose_rows(configuration, self._slots, block, draws.batch(update), priorities=priorities)

    def _state(self) -> _State:
        own = self._rounds[0]
        if isinstance(own, LaneRounds):
            lane: Lane = jax.tree.map(lambda leaf: leaf[0], own.on_host())
            given = (lane.key, lane.learner, lane.normaliser, lane.episodes)
            ring, written, n = jnp.asarray(lane.ring), self.steps, self._configuration.replay.n_step
            return _State(*given, lambda slots: unpack(gather(ring, slots, written, n)))

        def from_memory(slots: np.ndarray) -> Transitions:
            return unpack(jax.tree.map(jnp.asarray, own.memory.gather(slots)))

        learner = jax.tree.map(np.array, own.learner)
        return _State(jax.random.key_data(own.key), learner, own.normaliser, own.episodes, from_memory)


class _State(NamedTuple):
    """What an outer iteration is made from."""

    key: Any
    learner: LearnerState
    normaliser: Normaliser
    episodes: Any  # ended
    gather: Callable[[np.ndarray], Transitions]  # from slots of the replay
