"""n-step returns (Sutton 1988; in deep Q-learning: Hessel et al. 2018): several transitions of an episode as one.

A drawn transition is the first of K ≤ n consecutive ones of its episode, and

    y = R_1 + γ R_2 + … + γ^(K-1) R_K + γ^K (1 - terminated) max_a Q(S_K, a)

K is less than n where the episode ends before, terminated or truncated, and where the newest stored transition comes
before: y bootstraps from the observation that was reached. What is gathered has all K rewards, as γ is a number of the
round's own; `learner.gradients.bellman` adds them up.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from srgdqn.learner.gradients import Transitions
from srgdqn.learner.replay import Ring, column_of, unpack


def gather(ring: Ring, slots: Any, written: Any, n: int) -> Any:
    """The rows at some slots of a ring into which so many transitions were written: packed, or as transitions of up to
    n steps.
    """
    if n == 1:
        return ring[slots]
    ring, length = jnp.asarray(ring), ring.shape[0]
    window = (slots[:, None] + jnp.arange(n)) % length
    newer = (written - 1 - slots) % length  # how many transitions are
    goes_on = (ring[window[:, 1:], -1] > 0) & (jnp.arange(1, n) <= newer[:, None])
    steps = 1 + jnp.cumprod(goes_on, axis=1, dtype=jnp.int32).sum(1)
    last = jnp.take_along_axis(window, steps[:, None] - 1, axis=1)[:, 0]
    rewards = jnp.where(jnp.arange(n) < steps[:, None], ring[window, column_of(ring, "reward")], 0.0)
    return joined(unpack(ring[slots]), unpack(ring[last]), rewards, steps)


def joined(first: Transitions, last: Transitions, rewards: Any, steps: Any) -> Transitions:
    """From the first of several steps to the last, with the rewards of all."""
    return first._replace(
        reward=rewards, next_observation=last.next_observation, terminated=last.terminated, steps=steps
    )
