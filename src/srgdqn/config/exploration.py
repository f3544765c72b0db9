"""Options of the behaviour policy."""

from __future__ import annotations

from dataclasses import dataclass

from srgdqn.config.numbers import number


@dataclass(frozen=True)
class ActingSettings:
    """The ε-greedy policy: ε falls linearly over a share of the budget, measured in the budget's own unit."""

    epsilon_start: float = number(0.1)
    """Probability of a uniformly random action at the start."""
    epsilon_end: float = number(0.001)
    """Probability of a uniformly random action once the decline is over."""
    epsilon_fraction: float = number(1.0)
    """Share of the budget over which the probability declines."""
