"""Options of the replay memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ReplaySettings:
    """The first-in-first-out memory and how the batch D is drawn from it."""

    replay_capacity: int = 3_000
    """Transitions kept."""
    batch_size: int = 64
    """N, the transitions in one batch D."""
    sampling: Literal["with-replacement", "without-replacement", "newest"] = "with-replacement"
    """How D is drawn: uniformly with or without replacement, or the N newest transitions."""
