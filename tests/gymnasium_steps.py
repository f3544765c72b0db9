"""Single steps of Gymnasium's environments from given states, beside which other implementations are held."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

Outcome = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Next states, their observations, rewards, whether terminated: one row per case."""


def by_gymnasium(
    identifier: str, states: np.ndarray, actions: np.ndarray, as_action: Callable[[Any], Any] = int, **options: Any
) -> Outcome:
    """Gymnasium's own step from each state. Next states are read off the environment: observations are only float32."""
    environment: Any = gymnasium.make(identifier, disable_env_checker=True, **options).unwrapped
    environment.reset(seed=0)
    rows = []
    for state, action in zip(states.astype(np.float64), actions, strict=True):
        environment.state = state
        environment.steps_beyond_terminated = None  # CartPole's: every case is a first step beyond
        observation, reward, terminated, truncated, _ = environment.step(as_action(action))
        assert observation.dtype == np.float32
        assert not truncated
        rows.append((np.array(environment.state), observation, float(reward), terminated))
    reached, observations, rewards, ends = (np.array(column) for column in zip(*rows, strict=True))
    return reached, observations, rewards, ends
