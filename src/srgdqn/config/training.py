"""Options of the training loop: how much, how often, how many at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class TrainingSettings:
    """The budget of a round, how many rounds, and what is recorded on the way."""

    steps: int | None = None
    """Budget in environment steps."""
    outer_iterations: int | None = None
    """Budget in outer iterations."""
    episodes: int | None = None
    """Budget in episodes."""
    episode_cap: int | None = 2_000
    """Under an episode budget, steps after which an episode without a time limit is cut and counted as censored."""
    rounds: int = 1
    """Independent repetitions, each with a seed of its own."""
    environments: int = 1
    """Copies of a Gymnasium environment that a round steps side by side; compiled tasks have one."""
    seed: int = 0
    """Seed that every round's own seed is derived from."""
    learning_frequency: int = 16
    """Environment steps per outer iteration."""
    learning_starts: int = 1_000
    """Environment steps before the first outer iteration."""
    lanes: int = 25
    """Rounds that one program compiled by XLA runs side by side; part of a round's identity there, as other widths may
    round differently. 1 is fastest for a single round."""
    kernel: Literal["auto", "native", "xla"] = "auto"
    """What runs the loop: the fused C kernel (native; the paper's tasks and perceptrons with ReLU), a program compiled
    by XLA (anything), or native where it can. A run's own configuration tells which it was; they round differently."""
    window: int = 1_000
    """Environment steps averaged into one row of the curves."""
    evaluation_interval: int | None = 10_000
    """Environment steps between two greedy evaluations on the raw reward (none: only one, at the end)."""
    evaluation_episodes: int = 5
    """Episodes in one greedy evaluation, from the same starts for every round and algorithm."""
    evaluation_limit: int | None = None
    """Steps after which an episode of evaluation is cut (none: Gymnasium's own limit of the paper's tasks; the time
    limit of a task of your own, or else 1,000)."""

    @property
    def first_learning_block(self) -> int:
        """The blocks of `learning_frequency` steps before the first that ends with an outer iteration: the first whose
        end is not before `learning_starts`.
        """
        return -(-self.learning_starts // self.learning_frequency) - 1
