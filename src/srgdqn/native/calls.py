"""The kernel's two functions, called with arrays. The interpreter's lock is released while they run."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np

from srgdqn.native.build import library
from srgdqn.native.structures import STRUCTURES, Lanes, Limits, Log, Shape, Tree, pointer


def run_segment(
    shape: Shape, numbers: np.ndarray, limits: Limits, lanes: Lanes, log: Log, *, first: int, blocks: int
) -> None:
    """Runs blocks of every active lane, in place."""
    given = (ctypes.byref(shape), pointer(numbers, np.float32), *map(ctypes.byref, (limits, lanes, log)))
    _require_memory(_functions().run_segment(*given, len(numbers), first, blocks))


def run_evaluation(
    shape: Shape, parameters: Tree, starts: np.ndarray, limit: int, lanes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Greedy episodes from the starts that random keys give: total rewards, lengths, and whether they terminated."""
    size = (lanes, len(starts))
    rewards, lengths, terminated = np.zeros(size, np.float32), np.zeros(size, np.int32), np.zeros(size, bool)
    outputs = (pointer(rewards, np.float32), pointer(lengths, np.int32), pointer(terminated, bool))
    given = (ctypes.byref(shape), ctypes.byref(parameters), pointer(starts, np.uint32))
    _require_memory(_functions().run_evaluation(*given, lanes, len(starts), limit, *outputs))
    return rewards, lengths, terminated


def _require_memory(code: int) -> None:
    if code:
        raise MemoryError("there is not enough memory for a batch of that size")


@functools.cache
def _functions() -> Any:
    kernel = library()
    pointers, count = ctypes.c_void_p, ctypes.c_int32
    kernel.run_segment.argtypes = [*[pointers] * 5, *[count] * 3]
    kernel.run_evaluation.argtypes = [*[pointers] * 3, *[count] * 3, *[pointers] * 3]
    sizes = tuple((ctypes.c_int32 * len(STRUCTURES)).in_dll(kernel, "structure_sizes"))
    mirrored = tuple(map(ctypes.sizeof, STRUCTURES))
    if sizes != mirrored:
        raise RuntimeError(f"the kernel's structures have sizes {sizes}, their mirrors {mirrored}")
    return kernel
