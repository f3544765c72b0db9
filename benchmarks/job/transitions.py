"""Transitions as columns: of the replay memory, or of a batch drawn from it."""

from __future__ import annotations

from typing import Any, NamedTuple

Column = Any  # an array of NumPy's, JAX's or PyTorch's


class Transitions(NamedTuple):
    """One row per transition in every column."""

    observation: Column
    action: Column
    reward: Column
    next_observation: Column
    terminated: Column
