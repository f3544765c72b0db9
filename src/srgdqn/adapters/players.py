"""Blocks of transitions from one environment, from copies of it, or from a vector environment.

Whatever the source, a transition's next observation is the one that its action led to, also where that ended the
episode; a new episode's first observation is never anybody's next one. An *index* is that of one copy, or of one
environment of a vector.

Gymnasium's `SyncVectorEnv` would step copies too, but cannot replay the open episode of one alone, and a single
environment, the usual case, takes three times as long in it (CartPole: 50 against 15 microseconds a step).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from srgdqn.adapters.action_masks import random_allowed, read_mask, read_masks
from srgdqn.adapters.failures import RAISED, described, failed, shortened
from srgdqn.adapters.policy import GreedyPolicy
from srgdqn.adapters.replay_memory import Block
from srgdqn.adapters.spaces import Actions, Observations, OddValueError, flag_of, reward_of
from srgdqn.errors import InputError

Seeds = Callable[[int, int], int]
"""From an environment's index and the number of its episode to the seed of its reset."""


class ExplorationDraws(NamedTuple):
    """The random numbers of coming steps: whether to explore, and by what action."""

    explore: Sequence[float]
    action: Sequence[int]
    epsilon: Sequence[float] | None  # of each step; None if it depends on the episodes ended
    by_episodes: Sequence[float] = ()  # then ε by their number, the last one for all beyond
    uniform: int = 0  # then how many of the steps come first and are random whatever ε is

    def probability(self, step: int, episodes: int) -> float:
        """Of a random action at a step, once so many episodes have ended."""
        if self.epsilon is not None:
            return self.epsilon[step]
        if step < self.uniform:
            return 1.0
        return self.by_episodes[min(episodes, len(self.by_episodes) - 1)]

    def random_action(self, step: int, episodes: int, mask: np.ndarray | None = None) -> int | None:
        """The random action of a step, among those that a mask allows; None where the best is taken."""
        explore, probability = self.explore[step], self.probability(step, episodes)
        if not explore < probability:
            return None
        drawn = self.action[step]
        return drawn if mask is None else random_allowed(drawn, explore / probability, mask)


class EnvironmentInfo(NamedTuple):
    """What a player needs to know of its environment."""

    name: str
    observations: Observations
    actions: Actions
    seeds: Seeds
    begun: Sequence[int] = ()  # episodes of each environment that were begun before
    masked: bool = False  # whether its info says which actions are allowed


class CopiesPlayer:
    """Steps one environment, or copies of it that take turns, with the ε-greedy policy."""

    ahead = 0  # steps made that no block has had room for: none, as every step has its place in a block

    def __init__(self, environments: Sequence[gym.Env], info: EnvironmentInfo) -> None:
        self._environments = environments
        self._name, self._observations, actions, self._seeds, begun, self._masked = info
        self._table = actions.table
        self._spaces = [(each.observation_space, each.action_space) for each in environments]
        self.begun = list(begun) or [0] * len(environments)  # of each: episodes begun by our resetting it
        self._present: list[np.ndarray | None] = [None] * len(environments)
        self._masks: list[np.ndarray | None] = [None] * len(environments)  # of what is allowed there, where masked
        self._steps_of_block = 0  # begun, the one under way included
        self.episodes = 0  # ended so far

    def play(self, block: Block, policy: GreedyPolicy, chances: ExplorationDraws, steps: int) -> None:
        """Fills a block with transitions, the copies taking turns. `steps` were in the blocks before; `chances` begin
        with the first step that has not been made.
        """
        count, self._steps_of_block = len(self._environments), 0
        try:
            for index in range(count):
                if self._present[index] is None:
                    self._present[index] = self._reset(index)
            if count == 1 and not self._masked:
                self._play_one(block, policy, chances)
            else:
                self._play_several(block, policy, chances)
        except _Misbehaviour as error:
            raise failed(self._name, f"at step {steps + self._steps_of_block}", str(error)) from error.__cause__

    def _play_several(self, block: Block, policy: GreedyPolicy, chances: ExplorationDraws) -> None:
        count = len(self._environments)
        for first in range(0, len(block), count):
            seen = np.stack(self._present)  # type: ignore[arg-type]
            masks: Any = (np.stack(self._masks),) if self._masked else ()  # type: ignore[arg-type]
            greedy = policy.rows(seen, *masks).tolist()
            for index in range(count):
                step = first + index
                explored = chances.random_action(step, self.episodes, *(each[index] for each in masks))
                self._step(block, step, index, seen[index], greedy[index] if explored is None else explored)

    def _play_one(self, block: Block, policy: GreedyPolicy, chances: ExplorationDraws) -> None:
        """The same for a single environment, without what only several need."""
        explore, random_action, epsilon, greedy = chances.explore, chances.action, chances.epsilon, policy.one
        for step in range(len(block)):
            present = self._present[0]
            probability = epsilon[step] if epsilon is not None else chances.probability(step, self.episodes)
            chosen = random_action[step] if explore[step] < probability else greedy(present)  # type: ignore[arg-type]
            self._step(block, step, 0, present, chosen)

    def _step(self, block: Block, step: int, index: int, present: Any, chosen: int) -> None:
        self._steps_of_block = step + 1
        block.observation[step] = present  # before the step, as an environment may write into what it gave
        try:
            outcome = self._environments[index].step(self._table[chosen])
        except RAISED as error:
            raise _raised(error) from error
        try:
            given, reward, terminated, truncated, info = outcome
            after = self._observations.encode(given)
            block.reward[step] = reward_of(reward)
            block.terminated[step] = terminated = flag_of(terminated, "terminated")
            block.truncated[step] = truncated = flag_of(truncated, "truncated")
            if block.next_mask is not None:
                block.next_mask[step] = self._masks[index] = self._mask_of(info, needed=not terminated)
        except RAISED as error:
            raise _gave(error, outcome) from error
        block.next_observation[step] = after
        block.action[step] = chosen
        block.environment[step] = index
        if terminated or truncated:
            self.episodes += 1
            after = self._reset(index)
        self._present[index] = after

    def _reset(self, index: int) -> np.ndarray:
        seed = self._seeds(index, self.begun[index])
        try:
            outcome = self._environments[index].reset(seed=seed)
        except RAISED as error:
            raise _raised(error, _RESET) from error
        self.begun[index] += 1
        try:
            given, info = outcome
            if self._masked:
                self._masks[index] = self._mask_of(info)
            return self._observations.encode(given)
        except RAISED as error:
            raise _gave(error, outcome, _RESET) from error

    def _mask_of(self, info: Any, *, needed: bool = True) -> np.ndarray:
        """What is allowed next: anything where no action follows and none is looked at."""
        return read_mask(info, len(self._table)) if needed else np.ones(len(self._table), bool)

    @property
    def present(self) -> np.ndarray | None:
        """The present observation of each copy; None before the first block and after open episodes were left."""
        seen = [each for each in self._present if each is not None]
        return np.stack(seen) if len(seen) == len(self._present) else None

    def replay_episode(self, index: int, actions: np.ndarray, rewards: np.ndarray, seen: np.ndarray) -> str | None:
        """Resets a copy to the start of its newest episode and takes the same actions.

        None if it gave the same rewards and came to the observation `seen`; otherwise what it did differently, in
        words, and its next episode is a new one.
        """
        self.begun[index] -= 1
        try:
            self._present[index] = after = self._reset(index)
            for chosen, reward in zip(actions.tolist(), rewards, strict=True):
                self._present[index] = after = self._same_step(index, chosen, reward)
            if not np.array_equal(after, seen):
                raise _Misbehaviour("gave other observations than before")
        except _Misbehaviour as error:
            self._present[index] = None
            return str(error)
        return None

    def _same_step(self, index: int, chosen: int, expected: np.float32) -> np.ndarray:
        try:
            given, reward, terminated, truncated, info = self._environments[index].step(self._table[chosen])
            ended = flag_of(terminated, "terminated") or flag_of(truncated, "truncated")
            same = np.float32(reward_of(reward)) == expected
            after = self._observations.encode(given)
            if self._masked and not ended:
                self._masks[index] = self._mask_of(info)
        except RAISED as error:
            raise _raised(error) from error
        if ended or not same:
            raise _Misbehaviour("ended its episode earlier than before" if ended else "gave other rewards than before")
        return after

    def forget(self) -> None:
        """The next block begins with new episodes."""
        self._present = [None] * len(self._environments)

    def check_spaces(self, steps: int) -> None:
        """Raises if a copy's spaces are no longer what they were; `steps` were made."""
        for environment, spaces in zip(self._environments, self._spaces, strict=True):
            _check_same(self._name, steps, spaces, (environment.observation_space, environment.action_space))


class VectorPlayer:
    """Steps a vector environment, whichever its autoreset mode, with the ε-greedy policy."""

    def __init__(self, environment: VectorEnv, info: EnvironmentInfo) -> None:
        self._environment = environment
        self._name, self._observations, actions, self._seeds, begun, self._masked = info
        self._table = np.array(actions.table)
        self._mode = autoreset_mode(environment)
        self._spaces = (environment.single_observation_space, environment.single_action_space)
        self._present: np.ndarray | None = None
        self._masks = np.ones((environment.num_envs, len(self._table)), bool)  # of what is allowed there, where masked
        self._resetting = np.zeros(environment.num_envs, bool)  # whose next step only begins an episode
        self.begun = list(begun) or [0] * environment.num_envs
        self._waiting: list[tuple] = []  # transitions that no block has had room for
        self._in_step = False
        self.episodes = 0

    @property
    def ahead(self) -> int:
        """Steps made that no block has had room for yet."""
        return len(self._waiting)

    def play(self, block: Block, policy: GreedyPolicy, chances: ExplorationDraws, steps: int) -> None:
        """Fills a block; what a step gave beyond its end is the next one's beginning."""
        used, self._in_step = 0, False
        try:
            if self._present is None:
                self._present = self._reset(np.ones(self._environment.num_envs, bool))
                self._resetting[:] = False
            while len(self._waiting) < len(block):
                used += self._step(policy, chances, used)
        except _Misbehaviour as error:
            made = steps + len(self._waiting) + self._in_step
            raise failed(self._name, f"at step {made}", str(error)) from error.__cause__
        taken, self._waiting = self._waiting[: len(block)], self._waiting[len(block) :]
        for step, transition in enumerate(taken):
            for column, value in zip(block.columns, transition, strict=True):
                column[step] = value

    def _step(self, policy: GreedyPolicy, chances: ExplorationDraws, used: int) -> int:
        """One step of all; the number of transitions, which are fewer where some only began an episode."""
        assert self._present is not None
        acting = np.flatnonzero(~self._resetting)
        chosen = np.zeros(len(self._resetting), int)
        masks: Any = (self._masks[acting],) if self._masked else ()
        if len(acting):  # else all begin an episode
            chosen[acting] = policy.rows(self._present[acting], *masks)
        for place, index in enumerate(acting):
            explored = chances.random_action(used + place, self.episodes, *(each[place] for each in masks))
            if explored is not None:
                chosen[index] = explored
        self._in_step = True
        try:
            outcome = self._environment.step(self._table[chosen])
        except RAISED as error:
            raise _raised(error) from error
        try:
            given, reward, terminated, truncated, info = outcome
            rewards = self._per_environment(reward, "fiub", "rewards")
            terminated = self._per_environment(terminated, "biu", "terminated").astype(bool)
            truncated = self._per_environment(truncated, "biu", "truncated").astype(bool)
            after = self._encoded(given)
            ended = (terminated | truncated) & ~self._resetting
            reached = after
            if self._mode is AutoresetMode.SAME_STEP and ended.any():
                if "final_obs" not in info:
                    raise OddValueError("no info['final_obs'], though its autoreset mode is SAME_STEP")
                reached = after.copy()
                for index in np.flatnonzero(ended):
                    reached[index] = self._observations.encode(info["final_obs"][index])
            allowed = self._read_masks(info, ended, terminated) if self._masked else ()
        except RAISED as error:
            raise _gave(error, outcome) from error
        columns = (self._present, chosen, rewards, reached, terminated, truncated, *allowed)
        self._waiting += [(*(column[index] for column in columns), index) for index in acting]
        self._in_step = False
        self.episodes += int(ended.sum())
        if self._mode is AutoresetMode.NEXT_STEP:
            self._resetting = ended
        elif self._mode is AutoresetMode.DISABLED and ended.any():
            after = np.where(ended.reshape(-1, *[1] * (after.ndim - 1)), self._reset(ended), after)
        self._present = after
        return len(acting)

    def _read_masks(self, info: Any, ended: np.ndarray, terminated: np.ndarray) -> tuple[np.ndarray]:
        """Takes in what is allowed now, and returns what is where the step led to: anything at an episode's end by
        termination, from which nothing is looked up.
        """
        count = len(self._table)
        if self._mode is not AutoresetMode.SAME_STEP:
            self._masks = read_masks(info, ~(terminated & ~self._resetting), count)
            return (self._masks,)
        self._masks = read_masks(info, np.ones_like(ended), count)
        final = info.get("final_info", {}) if ended.any() else {}
        there = read_masks(final, ended & ~terminated, count)
        return (np.where(ended[:, None], there, self._masks),)

    def _reset(self, which: np.ndarray) -> np.ndarray:
        seeds: Any = [self._seeds(index, begun) for index, begun in enumerate(self.begun)]
        options = None if which.all() else {"reset_mask": which}
        try:
            try:
                outcome = self._environment.reset(seed=seeds, options=options)
            except gym.error.Error:  # some vectors, such as Gymnasium's own of CartPole, take one seed for all
                together = self._seeds(0, sum(self.begun))  # which no reset has had before
                outcome = self._environment.reset(seed=together, options=options)
        except RAISED as error:
            raise _raised(error, _RESET) from error
        self.begun = [begun + int(reset) for begun, reset in zip(self.begun, which, strict=True)]
        try:
            given, info = outcome
            if self._masked:
                self._masks = np.where(which[:, None], read_masks(info, which, len(self._table)), self._masks)
            return self._encoded(given)
        except RAISED as error:
            raise _gave(error, outcome, _RESET) from error

    def _encoded(self, given: Any) -> np.ndarray:
        rows = self._observations.encode_rows(given)
        if len(rows) != len(self._resetting):
            raise OddValueError(f"{len(rows)} observations where there are {len(self._resetting)} environments")
        return rows

    def _per_environment(self, given: Any, kinds: str, what: str) -> np.ndarray:
        array = np.asarray(given)
        if array.shape != self._resetting.shape or array.dtype.kind not in kinds:
            raise OddValueError(f"{what} {shortened(given)} where there are {len(self._resetting)} environments")
        return array

    def forget(self) -> None:
        """The next block begins with new episodes, and steps that no block had room for are left out."""
        self._present, self._waiting = None, []

    def check_spaces(self, steps: int) -> None:
        """Raises if the spaces are no longer what they were; `steps` were made."""
        now = (self._environment.single_observation_space, self._environment.single_action_space)
        _check_same(self._name, steps, self._spaces, now)


Player: TypeAlias = CopiesPlayer | VectorPlayer


def autoreset_mode(environment: VectorEnv) -> AutoresetMode:
    """When a vector environment begins a new episode."""
    mode = environment.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
    try:
        return AutoresetMode(mode)
    except ValueError as error:
        raise InputError(
            f"the vector environment has the autoreset mode {mode!r}. Set metadata['autoreset_mode'] to one of "
            f"gymnasium.vector.AutoresetMode: {', '.join(each.name for each in AutoresetMode)}."
        ) from error


def check_block(block: Block, name: str, steps: int) -> None:
    """Raises if an environment gave numbers that are not finite, with the first such step; `steps` were made before."""
    odd = ~np.isfinite(block.reward)
    if block.observation.dtype != np.uint8:
        odd |= ~(_finite_rows(block.observation) & _finite_rows(block.next_observation))
    if not odd.any():
        return
    step = int(odd.argmax())
    # An observation is the next one of the step before, or the first of its episode.
    for what, values, number in (
        ("first observation", block.observation, step),
        ("reward", block.reward, step + 1),
        ("observation", block.next_observation, step + 1),
    ):
        if not np.isfinite(values[step]).all():
            raise failed(name, f"at step {steps + number}", f"gave the {what} {values[step]} (in single precision)")


def _finite_rows(rows: np.ndarray) -> np.ndarray:
    finite: np.ndarray = np.isfinite(rows).all(axis=tuple(range(1, rows.ndim)))
    return finite


def _check_same(name: str, steps: int, before: tuple[gym.Space, ...], now: tuple[gym.Space, ...]) -> None:
    for what, old, new in zip(("observation", "action"), before, now, strict=True):
        if old is not new and old != new:
            raise failed(name, f"at step {steps}", f"has another {what} space, {new} where it had {old},")


class _Misbehaviour(Exception):  # noqa: N818, as it never leaves this file
    """What an environment did, before it is known when."""


_RESET = " when it was reset"


def _raised(error: BaseException, when: str = "") -> _Misbehaviour:
    return _Misbehaviour(f"raised {described(error)}{when}")


def _gave(error: BaseException, outcome: Any, when: str = "") -> _Misbehaviour:
    odd = isinstance(error, OddValueError)
    what = str(error) if odd else f"{shortened(outcome)}, which cannot be used: {described(error)},"
    return _Misbehaviour(f"gave {what}{when}")
