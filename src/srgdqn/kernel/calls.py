"""The kernel's functions, called with arrays. The interpreter's lock is released while they run."""

from __future__ import annotations

import ctypes
import functools
import weakref
from typing import Any

import numpy as np

from srgdqn.kernel.build import library
from srgdqn.kernel.structures import (
    STRUCTURES,
    Lanes,
    LearnerState,
    Limits,
    Log,
    Shape,
    Tree,
    pointer,
)


def run_segment(
    shape: Shape, numbers: np.ndarray, limits: Limits, lanes: Lanes, log: Log, *, first: int, blocks: int
) -> None:
    """Runs blocks of every active lane, in place."""
    given = (ctypes.byref(shape), pointer(numbers, np.float32), *map(ctypes.byref, (limits, lanes, log)))
    _require_memory(_functions().run_segment(*given, len(numbers), first, blocks))


def run_evaluation(
    shape: Shape, parameters: Tree, scale: tuple[int | None, int | None], starts: np.ndarray, limit: int, lanes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Greedy episodes from the starts that random keys give: total rewards, lengths, and whether they terminated.
    `scale` has the addresses of the means and deviations that observations are scaled with, or None.
    """
    size = (lanes, len(starts))
    rewards, lengths, terminated = np.zeros(size, np.float32), np.zeros(size, np.int32), np.zeros(size, bool)
    outputs = (pointer(rewards, np.float32), pointer(lengths, np.int32), pointer(terminated, bool))
    given = (ctypes.byref(shape), ctypes.byref(parameters), *scale, pointer(starts, np.uint32))
    _require_memory(_functions().run_evaluation(*given, lanes, len(starts), limit, *outputs))
    return rewards, lengths, terminated


class HostLearner:
    """The learner of one round whose environment runs in Python. `batch`, `picks` and `observation` are written to in
    place before `learn` and `act`.
    """

    def __init__(self, shape: Shape, numbers: np.ndarray) -> None:
        kernel = _functions()
        self._learner = kernel.open_host_learner(ctypes.byref(shape), pointer(numbers, np.float32))
        if not self._learner:
            raise MemoryError("there is not enough memory for a batch of that size")
        weakref.finalize(self, kernel.close_host_learner, self._learner)
        rows, size, inner = shape.rows, shape.widths[0], shape.inner_iterations * shape.inner_batch
        self.batch = np.zeros((rows, 2 * size + 3), np.float32)
        self.picks = np.zeros(max(inner, 1), np.int32)
        self.observation = np.zeros(size, np.float32)
        self._diagnostics = np.zeros(4, np.float32)
        self._learn, self._act, self._move = kernel.host_learn, kernel.host_act, kernel.move_host_learner
        self._work = pointer(self.batch, np.float32), pointer(self.picks, np.int32)
        self._diagnostics_at = pointer(self._diagnostics, np.float32)
        self._observation_at = pointer(self.observation, np.float32)

    def learn(self, progress: float, *, renewed: bool = False) -> tuple[bool, list[float]]:
        """One outer iteration on `batch` and `picks`, before which a hard target network may be copied (`renewed`):
        whether its numbers are finite (otherwise it is undone), and the mean loss, mean max_a Q, and norms of Δ_M and
        θ.
        """
        good = self._learn(self._learner, *self._work, progress, renewed, self._diagnostics_at)
        return bool(good), self._diagnostics.tolist()

    def act(self) -> int:
        """The best action for `observation`."""
        action: int = self._act(self._learner, self._observation_at)
        return action

    def move(self, state: LearnerState, *, into: bool) -> None:
        """Copies the arrays of a state into the learner, or the learner's into them."""
        self._move(self._learner, ctypes.byref(state), into)


def _require_memory(code: int) -> None:
    if code:
        raise MemoryError("there is not enough memory for a batch of that size")


@functools.cache
def _functions() -> Any:
    kernel = library()
    sizes = tuple((ctypes.c_int32 * len(STRUCTURES)).in_dll(kernel, "structure_sizes"))
    mirrored = tuple(map(ctypes.sizeof, STRUCTURES))
    if sizes != mirrored:
        raise RuntimeError(f"the kernel's structures have sizes {sizes}, those of structures.py {mirrored}")
    pointers, count = ctypes.c_void_p, ctypes.c_int32
    kernel.run_segment.argtypes = [*[pointers] * 5, *[count] * 3]
    kernel.run_evaluation.argtypes = [*[pointers] * 5, *[count] * 3, *[pointers] * 3]
    kernel.open_host_learner.argtypes, kernel.open_host_learner.restype = [pointers] * 2, pointers
    kernel.close_host_learner.argtypes, kernel.close_host_learner.restype = [pointers], None
    kernel.move_host_learner.argtypes, kernel.move_host_learner.restype = [pointers, pointers, ctypes.c_int], None
    kernel.host_learn.argtypes = [*[pointers] * 3, ctypes.c_float, ctypes.c_int, pointers]
    kernel.host_act.argtypes = [pointers] * 2
    return kernel
