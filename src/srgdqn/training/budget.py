"""How far a round is: its budget in its own unit, and when learning happens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from srgdqn.config import TrainingSettings

Unit = Literal["steps", "outer_iterations", "episodes"]


@dataclass(frozen=True)
class Budget:
    """What a round may spend."""

    unit: Unit
    amount: int


class Limits(NamedTuple):
    """The numbers of a budget as a compiled program receives them, the same for every lane.

    A *block* is the environment steps between two outer iterations. Blocks from `first_learning` on, and before
    `last_block`, end in an outer iteration.
    """

    unit: Int[Array, ""] | np.ndarray  # the place of the budget's unit among all units
    amount: Float[Array, ""] | np.ndarray
    first_learning: Int[Array, ""] | np.ndarray
    last_block: Int[Array, ""] | np.ndarray
    time_limit: Int[Array, ""] | np.ndarray  # steps after which an episode is cut

    def spent(self, **by_unit: Array) -> Array:
        """What is spent of the budget, given what is spent in each unit."""
        return jnp.stack([by_unit[unit] for unit in get_args(Unit)])[self.unit]

    @property
    def counts_episodes(self) -> Array:
        """Whether the budget is in episodes."""
        return self.unit == get_args(Unit).index("episodes")


def budget_of(settings: TrainingSettings) -> Budget:
    """The one budget that the settings give."""
    given: dict[Unit, int | None] = {unit: getattr(settings, unit) for unit in get_args(Unit)}
    [budget] = [Budget(unit, amount) for unit, amount in given.items() if amount is not None]
    return budget


def steps_within(budget: Budget, ended: np.ndarray, *, steps: int = 0, episodes: int = 0) -> int:
    """How many of a round's next steps, of which it is known whether each ended an episode, are within its budget: so
    many steps and episodes are behind it.
    """
    if budget.unit == "steps":
        return min(len(ended), budget.amount - steps)
    if budget.unit == "episodes":
        ends = np.flatnonzero(ended)
        left = budget.amount - episodes
        return 0 if left == 0 else int(ends[left - 1]) + 1 if len(ends) >= left else len(ended)
    return len(ended)


def total_blocks(settings: TrainingSettings) -> int | None:
    """The blocks that a round takes; None if that is only known once its episodes have ended."""
    budget = budget_of(settings)
    if budget.unit == "steps":
        return -(-budget.amount // settings.learning_frequency)
    if budget.unit == "outer_iterations":
        return settings.first_learning_block + budget.amount // settings.gradient_steps
    return None


_NEVER = int(jnp.iinfo(jnp.int32).max)


def limits_of(settings: TrainingSettings, time_limit: int | None = None) -> Limits:
    """The limits of a budget, of a task with a time limit or none. A last block that the budget does not fill has no
    outer iteration; under a budget of episodes, one without a time limit is cut at `episode_cap`.
    """
    budget = budget_of(settings)
    last = {"steps": budget.amount // settings.learning_frequency}.get(budget.unit, _NEVER)
    if time_limit is None and budget.unit == "episodes":
        time_limit = settings.episode_cap
    return Limits(
        np.asarray(get_args(Unit).index(budget.unit), np.int32),
        np.asarray(budget.amount, np.float32),
        np.asarray(settings.first_learning_block, np.int32),
        np.asarray(last, np.int32),
        np.asarray(_NEVER if time_limit is None else time_limit, np.int32),
    )


def evaluation_due(settings: TrainingSettings, done: int) -> bool:
    """Whether a greedy evaluation is due after so many blocks."""
    interval = settings.evaluation_interval
    if interval is None:
        return False
    count = done * settings.learning_frequency // interval
    return count > 0 and _evaluation_blocks(settings, count) == done


def next_stop(settings: TrainingSettings, done: int, most: int) -> int:
    """Where the next segment ends: never beyond an evaluation or the budget, so that neither depends on segments."""
    stops = [done + most]
    last_block = total_blocks(settings)
    if last_block is not None:
        stops.append(last_block)
    if settings.evaluation_interval is not None:
        count = done * settings.learning_frequency // settings.evaluation_interval + 1
        stops.append(_evaluation_blocks(settings, count))
    return min(stop for stop in stops if stop > done)


def _evaluation_blocks(settings: TrainingSettings, count: int) -> int:
    """The blocks after which the evaluation number `count` is due: the first not before count × interval steps."""
    assert settings.evaluation_interval is not None
    return -(-count * settings.evaluation_interval // settings.learning_frequency)
