"""Options of running normalisation."""

from __future__ import annotations

from dataclasses import dataclass

VARIANCE_FLOOR = 1e-8
"""Added to variances, so that a feature that never varies is divided by something."""


@dataclass(frozen=True)
class NormalisationSettings:
    """Running statistics that observations and rewards are divided by; both are off by default."""

    normalise_observations: bool = False
    """Give the network observations with running mean 0 and standard deviation 1."""
    normalise_rewards: bool = False
    """Divide rewards in D by the running standard deviation of the discounted return."""
