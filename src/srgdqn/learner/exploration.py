"""The behaviour policy: ε-greedy, with ε declining linearly over the budget."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from srgdqn.config import ActingSettings


def epsilon(
    settings: ActingSettings, progress: Float[Array, ""] | float, learns: Bool[Array, ""] | bool = True
) -> Array:
    """The probability of a random action once the share `progress` of the budget is spent, where the first outer
    iteration is made (`learns`) or not: NumPy's if `progress` is (for which jax would compile first), else jax's.
    """
    share = progress / settings.epsilon_fraction
    share = share.clip(0.0, 1.0) if isinstance(share, np.floating) else jnp.clip(share, 0.0, 1.0)
    chance: Array = settings.epsilon_start + share * (settings.epsilon_end - settings.epsilon_start)
    if not settings.uniform_start:
        return chance
    return np.where(learns, chance, 1.0) if isinstance(share, np.floating) else jnp.where(learns, chance, 1.0)


def epsilon_greedy(
    q_values: Float[Array, " actions"],
    probability: Float[Array, ""],
    draw: Float[Array, ""],
    random_action: Int[Array, ""],
) -> Int[Array, ""]:
    """`random_action` where `draw`, uniform in [0, 1), falls below `probability`; else the (first) best action."""
    return jnp.where(draw < probability, random_action, jnp.argmax(q_values).astype(random_action.dtype))


def best_actions(
    q_values: Float[Array, "rows actions"], masks: Bool[Array, "rows actions"] | None = None
) -> Int[Array, " rows"]:
    """The (first) best action of each row, among those that masks allow."""
    return (q_values if masks is None else jnp.where(masks, q_values, -jnp.inf)).argmax(-1)
