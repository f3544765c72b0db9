"""What an environment's step told, if it is what a step may tell: a number, and whether the episode ended."""

from __future__ import annotations

from typing import Any

import numpy as np

from srgdqn.adapters.spaces import OddValueError

# Looked up by type, as the usual answer comes at every step.
_NUMBERS = frozenset({float, int, np.float64, np.float32, np.int64})
_FLAGS = frozenset({bool, np.bool_})


def reward_of(told: Any) -> float:
    """The reward; an `OddValueError` if it is no number, which NumPy would make one of None and of some strings."""
    if type(told) in _NUMBERS:
        return told
    return float(_scalar(told, "fiub", "the reward"))


def flag_of(told: Any, what: str) -> bool:
    """Whether an episode ended in the way that is called `what`; an `OddValueError` if that is not told."""
    if type(told) in _FLAGS:
        return told
    return bool(_scalar(told, "biu", what))


def _scalar(told: Any, kinds: str, what: str) -> Any:
    array = np.asarray(told)
    if array.size != 1 or array.dtype.kind not in kinds:
        raise OddValueError(f"{what} {told!r}")
    return array.reshape(())
