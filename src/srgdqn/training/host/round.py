"""One round in a Gymnasium environment: a block of steps under the ε-greedy policy, then an outer iteration."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from srgdqn.adapters.failures import EnvironmentFailedError
from srgdqn.adapters.players import CopiesPlayer, Player, check_block
from srgdqn.adapters.policy import GreedyPolicy, greedy_policy
from srgdqn.adapters.replay_memory import Block, FlatMemory, FrameMemory, Memory
from srgdqn.config import Configuration
from srgdqn.engines.executor import never
from srgdqn.errors import InputError
from srgdqn.learner.networks import Network
from srgdqn.learner.normalisation import Normaliser, Scale, is_running
from srgdqn.learner.outer_iteration import LearnerState, evaluated_parameters, evaluates_others, logged_columns
from srgdqn.learner.prioritised import init_priorities
from srgdqn.runs.snapshots import Rows, Saveable, Stream, Tensors, by_path, filled
from srgdqn.training.batches import ChosenRows
from srgdqn.training.best_policies import BestPolicies
from srgdqn.training.budget import budget_of, limits_of
from srgdqn.training.direction_errors import DRAWS, NOT_MEASURED, DirectionErrors, measure
from srgdqn.training.evaluation import FRESH_EVALUATIONS, FRESH_STREAM, Evaluation
from srgdqn.training.host.evaluation import evaluate_policy
from srgdqn.training.host.learner import make_learning
from srgdqn.training.host.program import HostProgram, Plan, numbers_of
from srgdqn.training.host.steps import OpenSteps, StepLog
from srgdqn.training.host.task import HostTask
from srgdqn.training.lane import TERMINATED, TRUNCATED, BlockLog, as_stored
from srgdqn.training.loop import Halt, Owners, configuration_digest, policy_arrays
from srgdqn.training.window_rows import ANEW

SEGMENT_SECONDS = 0.2  # after which a segment ends, so that others hear how it goes
_SEGMENT_BLOCKS = 1_024  # the most blocks of a segment
_MOST = 2**31  # steps that a round may have


class RoundState(NamedTuple):
    """What a round's next block depends on, beside its replay and its environments. This is what is stored of it."""

    key: Any
    learner: Any
    normaliser: Any
    blocks: Any  # done
    iterations: Any  # outer iterations made
    diverged_at: Any  # environment steps; -1 as long as it has not
    steps_before: Any  # of those so far, the steps before the present budget began
    blocks_before_memory: Any  # done before the memory was as empty as it was new
    episodes: Any  # ended in all environments
    begun: Any  # episodes begun in each

    def check(self, block: int) -> None:
        """An `InputError` if its counters cannot be those of a round whose blocks have so many steps."""
        counts = np.array([*self[3:9], *self.begun], np.int64)
        counts[2] += 1
        steps = int(self.blocks) * block
        in_order = self.blocks_before_memory <= self.blocks and self.steps_before <= steps
        if not ((counts >= 0) & (counts < _MOST)).all() or steps >= _MOST or not in_order:
            raise InputError("its step counters are inconsistent")


def state_form(program: HostProgram, environments: int) -> RoundState:
    """The shapes and types of a round's state."""
    learner, normaliser, _ = jax.eval_shape(program.begin, np.uint32(0), np.uint32(0))
    key, count = jax.ShapeDtypeStruct((2,), np.uint32), jax.ShapeDtypeStruct((), np.int64)
    begun = jax.ShapeDtypeStruct((environments,), np.int64)  # nothing so large is made as a file may ask for
    return RoundState(key, learner, normaliser, count, count, count, count, count, count, begun)


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
        """Without a player it can act and be restored, but not step."""
        self.configuration, self.task, self.number, self.player = configuration, task, number, player
        learner, self.normaliser, self.key = program.begin(np.uint32(configuration.training.seed), np.uint32(number))
        if task.scale is not None:
            self.normaliser = self.normaliser._replace(
                observations=Scale(*(jnp.asarray(each, float) for each in task.scale))
            )
        self.numbers = numbers_of(configuration)
        self._learning = make_learning(configuration, program, learner, self.normaliser, self.numbers)
        self.policy = self._learning.policy
        self._acting: GreedyPolicy | None = (
            None if program.perturb is None else greedy_policy(program.network, program.greedy)
        )
        self._evaluated: tuple[tuple[LearnerState, Normaliser], GreedyPolicy] | None = None
        self._evaluates_others = evaluates_others(configuration)
        self.best = BestPolicies(1, self.policies) if configuration.training.keep_best else None
        self.memory = _memory(configuration, task, program.slots)
        self.blocks = 0  # done
        self.iterations = 0  # outer iterations made
        self.diverged_at: int | None = None
        self._logged = logged_columns(configuration)
        self._nothing_learnt = [np.nan] * (4 + len(self._logged))
        self.step_log = StepLog(configuration.training.learning_frequency, self._logged)
        self.open_steps: OpenSteps | None = None  # of unfinished episodes, where they are to be resumed
        self.evaluation_environment: gym.Env | None = None
        self.blocks_before_memory = 0  # done before the memory was as empty as it was new
        self._left: set[int] = set()  # environments whose open episodes have been left since the last block
        self._begun = [0] * configuration.training.environments  # these two are the player's, where there is one
        self._episodes = 0
        self._program = program
        masked = task.actions.count if task.masked else 0
        self._block = Block(configuration.training.learning_frequency, task.observations, masked)
        self._spare = 0 if configuration.training.environments == 1 else configuration.training.environments
        self.spend(configuration)

    @property
    def owners(self) -> Owners:
        """Whose round it is."""
        return [(configuration_digest(self.configuration), self.number, self.number + 1)]

    @property
    def network(self) -> Network:
        """Its Q-network."""
        return self._program.network

    @property
    def learner(self) -> LearnerState:
        """What has been learnt."""
        return self._learning.state

    @property
    def evaluated_policy(self) -> GreedyPolicy:
        """The policy that is evaluated: the one that acts, unless the estimator has other parameters for it."""
        if not self._evaluates_others:
            return self.policy
        present = self.learner, self.normaliser
        if self._evaluated is None or any(a is not b for a, b in zip(self._evaluated[0], present, strict=True)):
            policy = greedy_policy(self.network, self._program.greedy)
            policy.update(evaluated_parameters(self.configuration, self.learner), self.normaliser)
            self._evaluated = present, policy
        return self._evaluated[1]

    @property
    def acting_policy(self) -> GreedyPolicy:
        """The policy of the present block: the greedy one, which a noisy network follows with the block's noise."""
        if self._acting is None:
            return self.policy
        assert self._program.perturb is not None
        parameters = self._program.perturb(self.learner.parameters, self.key, np.int32(self.blocks))
        self._acting.update(parameters, self.normaliser)
        return self._acting

    def resume_from(self, learner: LearnerState, normaliser: Normaliser) -> None:
        """Replaces what has been learnt."""
        self.normaliser = normaliser
        self._learning.restore(learner, normaliser)

    # Its environments

    def enter(self, player: Player) -> None:
        """Goes on in other environments, with new episodes."""
        self.player, player.episodes = player, self._episodes
        self.leave_episodes()

    def leave(self) -> None:
        """Lets go of its environments, which the caller closes."""
        self._begun, self._episodes, self.player = self.begun, self.episodes, None

    def leave_episodes(self) -> None:
        """Begins new episodes with the next block; of those left open, no reward is part of the next one's return."""
        assert self.player is not None
        self.player.forget()
        self.begin_anew(range(self.configuration.training.environments))

    def begin_anew(self, environments: Iterable[int]) -> None:
        """The next steps in these environments are the first of new episodes, whatever was open there."""
        left = sorted(environments)
        self._left |= set(left)
        self.memory.begin_anew(left)
        open_return = self.normaliser.open_return
        if left and open_return is not None:
            nothing = jnp.zeros_like(open_return) if open_return.ndim == 0 else open_return.at[np.array(left)].set(0.0)
            self.normaliser = self.normaliser._replace(open_return=nothing)

    def resume_episodes(self, player: Player) -> None:
        """Goes on in environments that were made anew, in which unfinished episodes are replayed. Where one comes to
        something else, a new episode begins, and a RuntimeWarning says so.
        """
        steps, everywhere = self.open_steps, range(self.configuration.training.environments)
        assert steps is not None
        self.player, player.episodes = player, self._episodes
        problems: dict[int, str] = {}
        if not isinstance(player, CopiesPlayer):
            problems = dict.fromkeys(everywhere, "is a vector environment, whose parts cannot be replayed one by one")
        elif steps.observed is None:  # nothing was open
            self.begin_anew(everywhere)
        else:
            for place in everywhere:
                problem = player.replay_episode(place, *steps.of(place), steps.observed[place])
                problems |= {} if problem is None else {place: problem}
        self.begin_anew(problems)
        steps.leave(list(problems))
        if problems:
            some = len(everywhere) > len(problems)
            where = f" in {len(problems)} of {len(everywhere)} copies" if some else ""
            warnings.warn(
                f"round {self.number} goes on with new episodes{where}: the environment {self.task.name} "
                f"{next(iter(problems.values()))}, and so is not where it was. Everything learnt, remembered and "
                "recorded is restored; the open episodes are left, so that it is another run from here on than it "
                "would have been without the interruption.",
                RuntimeWarning,
                stacklevel=2,
            )

    # How far it is

    def spend(self, configuration: Configuration, *, steps_before: int = 0, to_the_end: bool = False) -> None:
        """Goes on under the budget of a configuration that differs from the present one in that alone; of the steps so
        far, `steps_before` were made before that budget began. `to_the_end`: a last block that the budget does not
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
        """Environment steps made."""
        return self.blocks * len(self._block)

    @property
    def episodes(self) -> int:
        """Episodes ended."""
        return self._episodes if self.player is None else self.player.episodes

    @property
    def begun(self) -> list[int]:
        """Episodes begun in each environment: no episode's seed is used twice."""
        return self._begun if self.player is None else list(self.player.begun)

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
        if self.configuration.acting.uniform_start and not self.iterations:
            return 1.0
        share = np.array([min(self.spent_share, 1.0)], np.float32)
        return float(self._program.chances(self.numbers, share)[0])

    @property
    def active(self) -> bool:
        """Whether it has neither diverged nor spent its budget."""
        return self.diverged_at is None and self.spent_share < 1

    @property
    def divergence(self) -> np.ndarray:
        """The environment steps at which it diverged; -1 if it did not."""
        return np.array([-1 if self.diverged_at is None else self.diverged_at])

    # Stepping and learning

    def compile(self) -> None:
        """Compiles what stepping and learning will call, by calling it on nothing."""
        rows = self._rows(0)
        if self.configuration.training.kernel == "xla":
            nothing = self.memory.blank(len(rows.origin.slots))
            beyond = None if rows.beyond is None else self.memory.blank(len(rows.beyond))
            given = (self.learner, self.normaliser, self.numbers, nothing, rows, beyond, np.float32(0))
            jax.block_until_ready(self._program.learn(*given))

    def advance(self, stop: int, halt: Halt = never) -> None:
        """Runs blocks until `stop` are done, time is up, or it is to halt, which it asks before each."""
        self.step_log.clear()
        until, stop = time.perf_counter() + SEGMENT_SECONDS, min(stop, self.blocks + _SEGMENT_BLOCKS)
        try:
            while self.blocks < stop and self.active and not halt():
                self.step_block()
                if time.perf_counter() >= until:
                    return
        finally:
            self._note_open_steps()

    def step_block(self) -> None:
        """A block of steps, then (where it is time) an outer iteration. What the environment does wrong is raised
        before anything of the block is taken in.
        """
        block, index, done = self._block, self.blocks, self.steps
        assert self.player is not None
        chances = self._plan.chances(done + self.player.ahead, len(block) + self._spare)
        ended_before = self.player.episodes
        try:
            self.player.play(block, self.acting_policy, chances, done)
            check_block(block, self.task.name, done)
        except EnvironmentFailedError:
            self.leave_episodes()
            self.player.episodes = ended_before
            raise
        stored = as_stored(self.configuration.task, block.reward).astype(np.float32, copy=False)
        self.memory.write(block.transitions(stored), block.environment, block.terminated | block.truncated)
        self._learning.remember(self.memory.written)
        if is_running(self.normaliser):
            # Copies, as the program may still read them when the next block is being filled.
            seen, ended, where = block.observation.copy(), block.terminated | block.truncated, block.environment.copy()
            self.normaliser = self._program.observe(self.normaliser, self.numbers, seen, stored.copy(), ended, where)
            self.policy.update(self.learner.parameters, self.normaliser)
        diagnostics = self._nothing_learnt
        self.blocks += 1
        if self.first_learning <= index and (self._last_block is None or index < self._last_block):
            diagnostics = self._learn(index)
        self.step_log.write(block, diagnostics)
        if self._left:
            self._mark_beginnings()

    def _mark_beginnings(self) -> None:
        """Of new episodes where others were left open."""
        environments, places = np.unique(self._block.environment, return_index=True)
        first = dict(zip(environments.tolist(), places.tolist(), strict=True))
        here = self._left & set(first)
        self.step_log["flags"][-1, [first[each] for each in here]] |= ANEW
        self._left -= here

    def _learn(self, index: int) -> list[float]:
        diagnostics = self._nothing_learnt
        for update in range(self.configuration.training.gradient_steps):
            share = np.float32(self.spent_share)
            rows = self._rows(index, update)
            good, diagnostics = self._learning.learn(self.memory, rows, share, self.normaliser)
            self.iterations += 1
            if not good:
                self.diverged_at = self.steps
                break
        return diagnostics

    def _rows(self, index: int, update: int = 0) -> ChosenRows:
        """What one of the outer iterations after a block is made on."""
        prioritised = self.configuration.replay.sampling == "prioritised"
        return self._plan.rows(index, update, self.learner.priorities if prioritised else None)

    def _note_open_steps(self) -> None:
        if self.open_steps is not None:
            log = self.step_log
            ended = (log["flags"] & (TERMINATED | TRUNCATED)) > 0
            columns = (log["action"], log["reward"], ended, log["environments"])
            self.open_steps.write(*(column.ravel() for column in columns))

    @property
    def log(self) -> BlockLog:
        """What the blocks of the last `advance` left behind."""
        return self.step_log.log()

    @property
    def environments(self) -> np.ndarray | None:
        """Which environment each of those steps was made in, where there are several."""
        return self.step_log["environments"][None] if self.configuration.training.environments > 1 else None

    def evaluate(self, *, everyone: bool = True) -> Evaluation | None:
        """Greedy episodes in the evaluation environment; None where there is none. Raises if the environments stepped
        in have changed their spaces.
        """
        del everyone
        assert self.player is not None
        self.player.check_spaces(self.steps)
        if self.evaluation_environment is None:
            return None
        settings, act = self.configuration.training, self.evaluated_policy.one
        given = (self.evaluation_environment, self.task, act)
        played = evaluate_policy(*given, seed=settings.seed, episodes=settings.evaluation_episodes)
        return jax.tree.map(lambda leaf: leaf[None], played)

    def direction_errors(self, *, everyone: bool = True) -> DirectionErrors:
        """Of its direction, where it has begun to learn and not diverged."""
        del everyone
        errors = NOT_MEASURED
        if self.iterations and self.blocks > self.first_learning and self.diverged_at is None:
            errors = measure(
                self._program.directions,
                np.asarray(jax.random.key_data(self.key)),
                self.blocks - 1,
                self.configuration.numbers(),
                self.learner,
                self.normaliser,
                self.memory.gather,
                self.spent_share,
                before=self.blocks_before_memory,
                together=1 if isinstance(self.memory, FrameMemory) else DRAWS,
            )
        return DirectionErrors(*map(np.atleast_1d, errors))

    def policies(self) -> Tensors:
        """What the greedy policy is made of, by path, with an axis of one round first."""
        arrays = policy_arrays(evaluated_parameters(self.configuration, self.learner), self.normaliser)
        return {path: array[None] for path, array in arrays.items()}

    def acting_policies(self) -> Tensors | None:
        """The same of the parameters that act, where others are evaluated in their place."""
        if not self._evaluates_others:
            return None
        return {path: array[None] for path, array in policy_arrays(self.learner.parameters, self.normaliser).items()}

    def policy_of(self, policies: Tensors) -> GreedyPolicy:
        """The policy that is made of such arrays."""
        like = {"network": self.learner.parameters, "normaliser": self.normaliser.observations}
        made = filled(like, {path: array[0] for path, array in policies.items()})
        policy = greedy_policy(self.network, self._program.greedy)
        policy.update(made["network"], self.normaliser._replace(observations=made["normaliser"]))
        return policy

    def play_afresh(self, policies: Tensors) -> Evaluation | None:
        """Greedy episodes with such a policy in the evaluation environment, from fresh starts; None without one."""
        if self.evaluation_environment is None:
            return None
        settings, act = self.configuration.training, self.policy_of(policies).one
        episodes = FRESH_EVALUATIONS * settings.evaluation_episodes
        given = (self.evaluation_environment, self.task, act)
        played = evaluate_policy(*given, seed=settings.seed, episodes=episodes, stream=FRESH_STREAM)
        return jax.tree.map(lambda leaf: leaf[None], played)

    # What is stored of it

    def states(self, *, last: bool) -> dict[str, Saveable]:
        """What a checkpoint holds of it: after the last block neither its replay nor unfinished episodes."""
        kept: dict[str, Saveable] = {"state": self} if self.best is None else {"state": self, "best": self.best}
        if last:
            return kept
        if self.open_steps is None:
            self.open_steps = OpenSteps(self.configuration.training.environments)
        if isinstance(self.player, CopiesPlayer):
            self.open_steps.observed = self.player.present
        return {"memory": self.memory, "open": self.open_steps, **kept}

    def state(self) -> tuple[Tensors, dict[str, Stream]]:
        """Everything but its replay and its environments."""
        counts = (
            self.blocks,
            self.iterations,
            -1 if self.diverged_at is None else self.diverged_at,
            self.steps_before,
            self.blocks_before_memory,
            self.episodes,
            self.begun,
        )
        given = (jax.random.key_data(self.key), self.learner, self.normaliser)
        return by_path(RoundState(*given, *(np.array(count, np.int64) for count in counts))), {}

    def take(self, name: str, first: int, rows: Rows) -> None:
        """It has no rows."""
        raise ValueError(f"it has rows {first} and on of {name}, {sorted(rows)}")

    def restore(self, tensors: Tensors) -> None:
        """Takes in what `state` gave."""
        stored: RoundState = filled(state_form(self._program, len(self._begun)), tensors)
        stored.check(len(self._block))
        if self.open_steps is not None and self.open_steps.steps != stored.blocks * len(self._block):
            raise ValueError("its open episodes are of another time")
        self.resume_from(*jax.tree.map(jnp.asarray, (stored.learner, stored.normaliser)))
        self.key = jax.random.wrap_key_data(jnp.asarray(stored.key), impl="threefry2x32")
        self.blocks, self.iterations = int(stored.blocks), int(stored.iterations)
        self.diverged_at = None if stored.diverged_at < 0 else int(stored.diverged_at)
        self._episodes, self._begun = int(stored.episodes), stored.begun.tolist()
        self.blocks_before_memory = int(stored.blocks_before_memory)
        self.spend(self.configuration, steps_before=int(stored.steps_before))

    def forget_memory(self) -> None:
        """Goes on with an empty replay, and learns once enough is in it."""
        self.memory = _memory(self.configuration, self.task, self._program.slots)
        self.blocks_before_memory = self.blocks
        if self.learner.priorities is not None:
            empty = self.learner._replace(priorities=init_priorities(self.configuration))
            self.resume_from(empty, self.normaliser)


def _memory(configuration: Configuration, task: HostTask, slots: int) -> Memory:
    settings, actions, shape = configuration.training, task.actions.count, task.observations.shape
    how: dict[str, Any] = {"n_step": configuration.replay.n_step, "masked": task.masked}
    if task.observations.kind == "image":
        return FrameMemory(slots, shape, settings.environments, actions, **how)
    return FlatMemory(slots, task.observations.size, actions, environments=settings.environments, **how)
