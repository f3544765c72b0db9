"""How far a round is: its budget in its own unit, and when learning happens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from srgdqn.settings import TrainingSettings

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

    amount: Float[Array, ""]
    first_learning: Int[Array, ""]
    last_block: Int[Array, ""]


def budget_of(settings: TrainingSettings) -> Budget:
    """The one budget that the settings give."""
    given: dict[Unit, int | None] = {unit: getattr(settings, unit) for unit in get_args(Unit)}
    [budget] = [Budget(unit, amount) for unit, amount in given.items() if amount is not None]
    return budget


def total_blocks(settings: TrainingSettings) -> int | None:
    """The blocks that a round takes; None if that is only known once its episodes have ended."""
    budget = budget_of(settings)
    if budget.unit == "steps":
        return -(-budget.amount // settings.learning_frequency)
    if budget.unit == "outer_iterations":
        return settings.first_learning_block + budget.amount
    return None


def limits_of(settings: TrainingSettings) -> Limits:
    """The limits of a budget. A last block that the budget does not fill has no outer iteration."""
    budget = budget_of(settings)
    last = {"steps": budget.amount // settings.learning_frequency}.get(budget.unit, jnp.iinfo(jnp.int32).max)
    return Limits(
        jnp.asarray(budget.amount, jnp.float32),
        jnp.asarray(settings.first_learning_block, jnp.int32),
        jnp.asarray(last, jnp.int32),
    )
