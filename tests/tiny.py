"""Runs so small that the tests can afford many of them, sharing compiled programs; and answers that need none.

A shape of configuration costs seconds to compile and nothing to run, so what only changes numbers starts from `tiny`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.experimental.functional import FuncEnv
from gymnasium.spaces import Box, Discrete

from srgdqn import tasks
from srgdqn.config import Configuration
from srgdqn.config.configure import configure
from srgdqn.results.result import Result
from srgdqn.tasks import Task
from srgdqn.training.evaluation import Evaluation
from srgdqn.training.lane import BlockLog, Lane
from srgdqn.training.lanes import LaneRounds
from srgdqn.training.loop import segments
from srgdqn.training.program import SEGMENT_BLOCKS, Programs

BLOCK, LANES, HIDDEN, TIME_LIMIT = 16, 4, 4, 12

# A time limit of 12 steps cuts some episodes of CartPole; the pole falls in others after 8 or more.
TINY: dict[str, Any] = dict(
    hidden=(HIDDEN,),
    lanes=LANES,
    batch_size=4,
    inner_iterations=2,
    replay_capacity=40,
    learning_frequency=BLOCK,
    learning_starts=40,
    time_limit=TIME_LIMIT,
    window=50,
    evaluation_interval=None,
    evaluation_episodes=3,
    steps=200,
)


def tiny(algorithm: str = "srg-dqn", **options: Any) -> tuple[Configuration, Task]:
    """A small run of CartPole; other budgets than `steps` replace it."""
    budgets = {"outer_iterations", "episodes"} & set(options)
    usual = {name: value for name, value in TINY.items() if name != "steps" or not budgets}
    configuration = configure("CartPole", algorithm, **{**usual, **options})
    return configuration, tasks.make(configuration.task)


class LaneSegment(NamedTuple):
    """What a segment gave, and the lanes after it."""

    blocks_done: int
    log: BlockLog
    lanes: Lane  # valid until the next segment
    evaluation: Evaluation | None
    last: bool


def lane_segments(
    configuration: Configuration,
    programs: Programs,
    rounds: Sequence[int],
    *,
    segment_blocks: int = SEGMENT_BLOCKS,
    resumed: tuple[int, Lane] | None = None,
) -> Iterator[LaneSegment]:
    """Rounds as lanes, from their first block or from the state after so many, segment by segment."""
    trained = LaneRounds(configuration, programs, rounds)
    if resumed is None:
        trained.begin()
    else:
        trained.resume(*resumed)
    for segment in segments(trained, most=segment_blocks):
        yield LaneSegment(segment.blocks_done, segment.log, trained.lanes, segment.evaluation, segment.last)


# The levers: a task whose reward shows the action, and an agent that never learns


class Levers(FuncEnv):
    """Eight levers. Pulling number n is rewarded with n; number 7 ends the episode. The steps made are observed."""

    observation_space = Box(0.0, np.inf, (1,), np.float32)
    action_space = Discrete(8)

    def initial(self, rng: Any, params: None = None) -> jax.Array:
        return jnp.zeros(2)

    def transition(self, state: jax.Array, action: jax.Array, rng: Any, params: None = None) -> jax.Array:
        return jnp.stack([state[0] + 1, action.astype(state.dtype)])

    def observation(self, state: jax.Array, rng: Any, params: None = None) -> jax.Array:
        return state[:1]

    def reward(self, state: Any, action: Any, next_state: jax.Array, rng: Any, params: None = None) -> jax.Array:
        return next_state[1]

    def terminal(self, state: jax.Array, rng: Any, params: None = None) -> jax.Array:
        return state[1] == 7


class Stubborn(eqx.Module):
    """Always the same Q-values, with the highest for lever 0, as long as it is not allowed to learn."""

    values: jax.Array

    def __call__(self, observation: jax.Array) -> jax.Array:
        return self.values


LEVERS = Levers()
STUBBORN = Stubborn(jnp.linspace(1.0, 0.0, 8))


def levers(time_limit: int | None = None, **options: Any) -> tuple[Configuration, Task]:
    """A run in which every reward that is not 0 shows that a random action was taken."""
    usual = {name: value for name, value in TINY.items() if name not in ("steps", "hidden", "time_limit")}
    still = dict(network="Stubborn", eta=0.0, alpha=0.0, epsilon_start=1.0, epsilon_end=0.0, window=1)
    chosen: dict[str, Any] = {**usual, **still, **options, "time_limit": time_limit}
    configuration = configure("Levers", "dqn-sgd", defaults={}, **chosen)
    return configuration, tasks.adopt(LEVERS, time_limit=time_limit, evaluation_limit=10)


# Independent answers


def q_values(policies: Mapping[str, np.ndarray], row: int, observations: np.ndarray) -> np.ndarray:
    """The Q-values of one round's stored perceptron (relu), in NumPy and double precision."""
    x = np.asarray(observations, np.float64)
    if "normaliser.mean" in policies:
        variance = policies["normaliser.variance"][row].astype(np.float64)
        x = (x - policies["normaliser.mean"][row]) / np.sqrt(variance + 1e-8)
    for layer in itertools.count():
        x = x @ policies[f"network.layers.{layer}.weight"][row].astype(np.float64)
        x = x + policies[f"network.layers.{layer}.bias"][row]
        if f"network.layers.{layer + 1}.weight" not in policies:
            return x
        x = np.maximum(x, 0.0)
    raise AssertionError


# Comparing to the bit


def bits(tree: Any) -> list[tuple[Any, ...]]:
    """Every array in a tree as its type, shape and bytes; masked entries have no bits."""
    return [
        _array_bits(leaf) for leaf in jax.tree.leaves(tree, is_leaf=lambda leaf: isinstance(leaf, np.ma.MaskedArray))
    ]


def outcome(result: Result) -> tuple[Any, ...]:
    """All that must be the same of runs that are to be the same: everything but timings."""
    tables = {name: table.rows() for name, table in result.run.tables.items() if name != "timings"}
    return tables, sorted(result.run.parameters), bits(dict(result.run.parameters)), result.configuration


def _array_bits(leaf: Any) -> tuple[Any, ...]:
    if isinstance(leaf, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(leaf)
        data = np.where(mask, np.zeros((), leaf.dtype), leaf.data)
        return leaf.dtype.name, leaf.shape, mask.tobytes(), data.tobytes()
    if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    array = np.asarray(leaf)
    return array.dtype.name, array.shape, array.tobytes()


def reproducible(
    tables: Mapping[str, Mapping[str, Any]], rounds: int | None = None
) -> dict[str, list[tuple[Any, ...]]]:
    """The bits of all tables but the timings, of the first rounds only if so asked."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for name, columns in tables.items():
        if name == "timings":
            continue
        rows = np.asarray(columns["round"]) < (np.inf if rounds is None else rounds) if columns else None
        found[name] = bits({column: np.ma.asarray(values)[rows] for column, values in columns.items()})
    return found
