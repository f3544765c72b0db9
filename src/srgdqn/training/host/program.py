"""What is compiled of a round on the host: its beginning, the random numbers of many blocks at once, an outer
iteration, and the greedy policy of networks that NumPy does not know. The learner is the compiled rounds' own.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from srgdqn.adapters.players import ExplorationDraws
from srgdqn.config import Configuration
from srgdqn.learner.exploration import best_actions, epsilon
from srgdqn.learner.gradients import Transitions
from srgdqn.learner.networks import Network, NetworkFactory, Parameters, make_network
from srgdqn.learner.normalisation import Moments, Normaliser, init_normaliser, merge, normalise_observation, observe
from srgdqn.learner.outer_iteration import LearnerState, batch_rows, init_learner
from srgdqn.learner.prioritised import Priorities, remember
from srgdqn.learner.replay import ring_length, unpack
from srgdqn.learner.reward_estimation import first_estimate
from srgdqn.training.batches import ChosenRows, OuterBatch, choose_rows
from srgdqn.training.budget import Limits
from srgdqn.training.direction_errors import DirectionProgram, direction_program
from srgdqn.training.draws import BatchDraws, acting_key, draw_block
from srgdqn.training.jax_setup import is_double
from srgdqn.training.lane import learn_on, round_keys
from srgdqn.training.program import Once, shape_of_program
from srgdqn.training.user_code import Identity, code_of, unreadable_parts

PAGE_BLOCKS = 64  # blocks whose random numbers are drawn at once


class DrawnBlocks(NamedTuple):
    """The random numbers of some blocks, as they are used: everything about them that is known beforehand."""

    explore: Float[Array, " steps"]  # uniform in [0, 1)
    action: Int[Array, " steps"]  # uniform over the actions
    epsilon: Float[Array, " steps"]  # the probability of a random action, where the budget is not in episodes
    rows: ChosenRows | None  # of the outer iterations after each block; None where they depend on what is learnt


class HostProgram(NamedTuple):
    """The compiled functions; numbers are a vector in the order of `Configuration.numbers()`."""

    network: Network
    slots: int  # of the memory
    begin: Callable[[Any, Any], tuple[LearnerState, Normaliser, PRNGKeyArray]]
    page: Callable[..., DrawnBlocks]  # of a key, numbers, the first block, limits, and the steps and blocks before
    chances: Callable[[Any, Any], Array]  # from numbers and shares of the budget to ε
    choose: Callable[..., ChosenRows]  # of a key, numbers, a block, an update, the blocks before, and priorities
    remember: Callable[..., Priorities]  # of priorities and the transitions written
    learn: Callable[..., tuple[LearnerState, Float[Array, " columns"]]]
    observe: Callable[..., Normaliser]
    greedy: Callable[..., Array]  # of parameters, statistics, and rows of observations and (or not) of masks
    perturb: Callable[[Parameters, PRNGKeyArray, Any], Parameters] | None  # to act by in a block; None without noise
    uniform_start: bool
    directions: DirectionProgram


_programs: Once[HostProgram] = Once(64)


def host_program(
    configuration: Configuration,
    observation: int | tuple[int, ...],
    actions: int,
    user_network: eqx.Module | NetworkFactory | None = None,
) -> tuple[HostProgram, bool]:
    """The program of a configuration, and whether it is new; those that differ in numbers or budget only share one."""
    code = code_of(configuration, user_network)
    parts = (Identity(user_network), code, unreadable_parts(configuration))
    key = (_shape(configuration), observation, actions, parts, is_double())
    return _programs.get(key, lambda: _make(configuration, observation, actions, user_network))


def _shape(configuration: Configuration) -> Configuration:
    """What is compiled anew when it changes: which environment it is, and how it is evaluated, is not."""
    shape, default = shape_of_program(configuration), Configuration()
    task = dataclasses.replace(default.task, reward_clip=shape.task.reward_clip, reward_scale=shape.task.reward_scale)
    evaluation = ("evaluation_episodes", "evaluation_limit", "lanes")
    training = dataclasses.replace(shape.training, **{name: getattr(default.training, name) for name in evaluation})
    return dataclasses.replace(shape, task=task, training=training)


def numbers_of(configuration: Configuration) -> np.ndarray:
    """The configuration's numbers as the program takes them."""
    return np.array(list(configuration.numbers().values()), jnp.result_type(float))


def filling(configuration: Configuration) -> Callable[[Array], Configuration]:
    """From numbers as the program takes them to the configuration with these."""
    shape, names = configuration.shape(), list(configuration.numbers())
    return lambda numbers: shape.with_numbers({name: numbers[place] for place, name in enumerate(names)})


def _make(
    configuration: Configuration,
    observation: int | tuple[int, ...],
    actions: int,
    user_network: eqx.Module | NetworkFactory | None,
) -> HostProgram:
    shape, filled = configuration.shape(), filling(configuration)
    atoms = configuration.gradients.outputs_per_action
    network = make_network(configuration.network, observation, actions, user_network, atoms=atoms)
    block, updates = configuration.training.learning_frequency, configuration.training.gradient_steps
    slots = ring_length(configuration.replay, block)
    environments = configuration.training.environments
    size = observation if isinstance(observation, int) else int(np.prod(observation))

    def begin(seed: Array, number: Array) -> tuple[LearnerState, Normaliser, PRNGKeyArray]:
        network_key, _, key, _ = round_keys(seed, number)
        learner = init_learner(shape, network.init(network_key), first_estimate(shape, network, network_key))
        normaliser = init_normaliser(shape.normalisation, size)
        if normaliser.open_return is not None and environments > 1:
            normaliser = normaliser._replace(open_return=jnp.zeros(environments))
        return learner, normaliser, key

    def page(
        key: PRNGKeyArray, numbers: Array, first: Array, limits: Limits, steps_before: Array, blocks_before: Array
    ) -> DrawnBlocks:
        settings = filled(numbers)

        def one(index: Array) -> tuple[Any, ...]:
            draws = draw_block(settings, key, index, actions=actions, rows=batch_rows(settings))
            spent = limits.spent(
                steps=index * block + jnp.arange(block) - steps_before,
                outer_iterations=jnp.full(block, updates * jnp.maximum(index - limits.first_learning, 0)),
                episodes=jnp.zeros(block, jnp.int32),
            )
            chance = epsilon(settings.acting, spent / limits.amount, index > limits.first_learning)
            chosen = None
            if settings.replay.sampling != "prioritised":
                chosen = jax.vmap(lambda each: choose_rows(settings, slots, index, each, blocks_before))(draws.batches)
            return draws.explore, draws.action, chance, chosen

        explore, action, chance, rows = jax.lax.map(one, first + jnp.arange(PAGE_BLOCKS))
        return DrawnBlocks(explore.ravel(), action.ravel(), chance.ravel(), rows)

    def choose(
        key: PRNGKeyArray, numbers: Array, index: Array, update: Array, blocks_before: Array, priorities: Priorities
    ) -> ChosenRows:
        settings = filled(numbers)
        draws = draw_block(settings, key, index, actions=actions, rows=batch_rows(settings))
        one: BatchDraws = jax.tree.map(lambda leaf: leaf[update], draws.batches)
        return choose_rows(settings, slots, index, one, blocks_before, priorities)

    def chances(numbers: Array, shares: Array) -> Array:
        return epsilon(filled(numbers).acting, shares)

    def learn(
        learner: LearnerState,
        normaliser: Normaliser,
        numbers: Array,
        batch: Array | Transitions,
        rows: ChosenRows,
        beyond: Array | Transitions | None,
        progress: Array,
    ) -> tuple[LearnerState, Array]:
        served = OuterBatch(
            unpack(batch),
            rows.picks,
            rows.origin,
            weights=rows.weights,
            beyond=None if beyond is None else lambda: unpack(beyond),
            coins=rows.coins,
            renewed=rows.renewed,
            noise=rows.noise,
        )
        return learn_on(filled(numbers), network, learner, normaliser, served, progress)[:2]

    def watch(
        normaliser: Normaliser, numbers: Array, seen: Array, rewards: Array, ended: Array, environment: Array
    ) -> Normaliser:
        gamma = filled(numbers).gradients.gamma
        if normaliser.returns is None or environments == 1:
            return observe(normaliser, seen, rewards, ended, gamma)
        return _observe_several(normaliser, seen, rewards, ended, environment, gamma)

    def greedy(parameters: Parameters, normaliser: Normaliser, rows: Array, masks: Array | None = None) -> Array:
        return best_actions(network.q_values(parameters, normalise_observation(normaliser, rows)), masks)

    def perturb(parameters: Parameters, key: PRNGKeyArray, index: Array) -> Parameters:
        return network.perturbed(parameters, acting_key(key, index))

    return HostProgram(
        network,
        slots,
        jax.jit(begin),
        jax.jit(page),
        jax.jit(chances),
        jax.jit(choose),
        jax.jit(functools.partial(remember, shape)),
        jax.jit(learn),
        jax.jit(watch),
        jax.jit(greedy),
        jax.jit(perturb) if configuration.network.noisy else None,
        configuration.acting.uniform_start,
        direction_program(shape, network, slots),
    )


def _observe_several(
    normaliser: Normaliser, seen: Array, rewards: Array, ended: Array, environment: Array, gamma: Array | float
) -> Normaliser:
    """`observe` for environments side by side, each of which has an open episode and its return."""
    assert normaliser.returns is not None
    assert normaliser.open_return is not None
    moments = normaliser.observations
    if isinstance(moments, Moments):
        moments = merge(moments, seen)

    def add(totals: Array, step: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        reward, end, place = step
        total = gamma * totals[place] + reward
        return totals.at[place].set(jnp.where(end, 0.0, total)), total

    open_return, totals = jax.lax.scan(add, normaliser.open_return, (rewards, ended, environment))
    return Normaliser(moments, merge(normaliser.returns, totals), open_return)


class _Drawn(NamedTuple):
    explore: list[float]
    action: list[int]
    epsilon: list[float]
    rows: ChosenRows | None


class Plan:
    """The random numbers of a round under a budget, drawn page by page: one call of a compiled program per many blocks.
    They depend on the round's key and the step's number alone.
    """

    def __init__(
        self,
        program: HostProgram,
        key: Any,
        numbers: np.ndarray,
        limits: Limits,
        block: int,
        *,
        steps_before: int = 0,
        blocks_before: int = 0,
    ) -> None:
        """`steps_before` were made before the budget began, and `blocks_before` before the memory did."""
        self._program, self._block = program, block
        self._given: tuple[Any, ...] = (key, numbers)
        self._conditions: tuple[Any, ...] = (limits, np.int32(steps_before), np.int32(blocks_before))
        self._pages: dict[int, _Drawn] = {}
        self._by_episodes: list[float] | None = None
        self._uniform = (int(limits.first_learning) + 1) * block if program.uniform_start else 0
        if bool(limits.counts_episodes):
            ended = np.arange(int(limits.amount) + 1, dtype=np.int32)
            chances = program.chances(numbers, (ended / limits.amount).astype(np.float32))
            self._by_episodes = np.asarray(chances).tolist()

    def chances(self, first: int, count: int) -> ExplorationDraws:
        """Those of `count` steps from step number `first` on."""
        length = PAGE_BLOCKS * self._block
        page, start = divmod(first, length)
        drawn = self._page(page)
        end = start + count
        explore, action, epsilon = drawn.explore[start:end], drawn.action[start:end], drawn.epsilon[start:end]
        if end > length:
            upcoming, beyond = self._page(page + 1), end - length
            explore = explore + upcoming.explore[:beyond]
            action = action + upcoming.action[:beyond]
            epsilon = epsilon + upcoming.epsilon[:beyond]
        if self._by_episodes is None:
            return ExplorationDraws(explore, action, epsilon)
        return ExplorationDraws(explore, action, None, self._by_episodes, max(0, self._uniform - first))

    def rows(self, index: int, update: int = 0, priorities: Priorities | None = None) -> ChosenRows:
        """What one of the outer iterations after block `index` is made on, drawn by the priorities, if there are."""
        if priorities is not None:
            return self._program.choose(
                *self._given, np.int32(index), np.int32(update), self._conditions[2], priorities
            )
        page, place = divmod(index, PAGE_BLOCKS)
        chosen: ChosenRows = jax.tree.map(lambda leaf: leaf[place, update], self._page(page).rows)
        return chosen

    def _page(self, number: int) -> _Drawn:
        if number not in self._pages:
            page = self._program.page(*self._given, np.int32(number * PAGE_BLOCKS), *self._conditions)
            explore, action, epsilon, rows = jax.tree.map(np.asarray, page)
            # Python's numbers, as looking up an element of an array costs more than the comparison it is for.
            self._pages = {known: drawn for known, drawn in self._pages.items() if known == number - 1}
            self._pages[number] = _Drawn(explore.tolist(), action.tolist(), epsilon.tolist(), rows)
        return self._pages[number]
