"""First-in-first-out memory of transitions between images, which keeps every frame once.

An observation is a stack of frames, and most often the next one is the same stack moved on by a frame. Of each *seat*
(one of several environments) the frames lie in a sequence, to which only what is new is appended; a transition knows
where in it its two stacks end. What is new is found by comparing bytes, so that the memory is exact for any images,
whether an environment stacks them or not.

A sequence is cut into chunks that are only ever appended to and are dropped as wholes. No stack reaches from one into
the next: where one is full, the stack is begun anew in the next.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from srgdqn.adapters.flat_replay import REPLAY, Block, are_actions
from srgdqn.errors import InputError
from srgdqn.learner.gradients import Transitions
from srgdqn.runs.snapshots import Stream

_RING = ("action", "reward", "terminated", "places")
_FRAMES = "frames."


class _Place(NamedTuple):
    """Where a stack lies: in which chunk, and after which of its frames it ends."""

    chunk: int
    end: int


class FrameMemory:
    """A ring of `slots` transitions, of which number t lies in slot t % slots."""

    def __init__(
        self, slots: int, shape: tuple[int, ...], seats: int, actions: int, *, chunk_frames: int = 1024
    ) -> None:
        """Room for `slots` transitions between images of the given shape (frames, …), by one of so many actions."""
        self.slots, self._action_count = slots, actions
        self._depth, *frame = shape
        self._chunk_shape = (max(chunk_frames, self._depth), *frame)
        self._chunks: dict[int, np.ndarray] = {}
        self._references: dict[int, int] = {}  # of each chunk: stacks of live transitions in it
        self._filled: dict[int, int] = {}  # of each chunk: its frames so far
        self._made = 0
        self._tails: list[_Place | None] = [None] * seats  # of each seat: the stack it had last
        self._written = 0
        self._actions = np.empty(slots, np.int32)
        self._rewards = np.empty(slots, np.float32)
        self._terminated = np.empty(slots, np.float32)
        self._places = np.empty((slots, 4), np.int64)  # of S and of S': chunk and end

    @property
    def _ring(self) -> dict[str, np.ndarray]:
        return dict(zip(_RING, (self._actions, self._rewards, self._terminated, self._places), strict=True))

    @property
    def written(self) -> int:
        """Transitions written so far, those since overwritten included."""
        return self._written

    @property
    def nbytes(self) -> int:
        """Bytes of the chunks and of the ring."""
        return sum(array.nbytes for array in [*self._ring.values(), *self._chunks.values()])

    def append(
        self,
        seat: int,
        observation: np.ndarray,
        action: int,
        reward: float,
        next_observation: np.ndarray,
        terminated: bool,
    ) -> None:
        """Writes one transition of a seat over the oldest of all."""
        slot = self._written % len(self._actions)
        places = [self._put(seat, stack) for stack in (observation, next_observation)]
        if self._written >= len(self._actions):
            for chunk in self._places[slot, ::2].tolist():
                self._release(chunk)
        self._places[slot] = [*places[0], *places[1]]
        self._actions[slot] = action
        self._rewards[slot] = reward
        self._terminated[slot] = terminated
        self._written += 1

    def write(self, block: Block, stored_reward: np.ndarray) -> None:
        """Takes in a block, with its rewards as they are to be learned from."""
        for step in range(len(block)):
            self.append(
                int(block.seat[step]),
                block.observation[step],
                int(block.action[step]),
                float(stored_reward[step]),
                block.next_observation[step],
                bool(block.terminated[step]),
            )

    def gather(self, slots: np.ndarray, out: np.ndarray | None = None) -> Transitions:
        """The transitions in these slots, with images of shape (rows, frames, …)."""
        assert out is None  # images are no rows
        chunks, depth = self._chunks, self._depth
        stacks = np.empty((2, len(slots), depth, *self._chunk_shape[1:]), np.uint8)
        for row, (chunk, end, next_chunk, next_end) in enumerate(self._places[slots].tolist()):
            stacks[0, row] = chunks[chunk][end - depth : end]
            stacks[1, row] = chunks[next_chunk][next_end - depth : next_end]
        return Transitions(stacks[0], self._actions[slots], self._rewards[slots], stacks[1], self._terminated[slots])

    def blank(self, rows: int) -> Transitions:
        """Black images."""
        images: Any = np.zeros((rows, self._depth, *self._chunk_shape[1:]), np.uint8)
        actions: Any = np.zeros(rows, np.int32)
        numbers: Any = np.zeros(rows, np.float32)
        return Transitions(images, actions, numbers, images, numbers)

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Stream]]:
        """Where each seat writes; the ring by the numbers of its transitions, and the frames of every chunk."""
        streams = {REPLAY: Stream(max(0, self._written - self.slots), self._written, self._numbered, REPLAY)}
        for number, chunk in self._chunks.items():
            streams[f"{_FRAMES}{number}"] = Stream(0, self._filled[number], functools.partial(_frames, chunk), REPLAY)
        tails = [(-1, -1) if tail is None else tail for tail in self._tails]
        counts = np.array([self._written, self._made], np.int64)
        return {"tails": np.array(tails, np.int64), "counts": counts}, streams

    def _numbered(self, start: int, stop: int) -> dict[str, np.ndarray]:
        slots = np.arange(start, stop) % self.slots
        return {name: ring[slots] for name, ring in self._ring.items()}

    def take(self, name: str, first: int, rows: dict[str, np.ndarray]) -> None:
        """Takes in rows that `state` gave."""
        if name == REPLAY:
            slots = np.arange(first, first + len(rows["action"])) % self.slots
            for column, ring in self._ring.items():
                _check(column, rows[column], (len(slots), *ring.shape[1:]), ring.dtype)
                ring[slots] = rows[column]
            return
        if not name.startswith(_FRAMES):
            raise ValueError(f"{name} is nothing of a replay's")
        number, frames = int(name.removeprefix(_FRAMES)), rows["frame"]
        stop = first + len(frames)
        if stop > self._chunk_shape[0]:
            raise ValueError(f"chunk {number} has {stop} frames")
        _check(name, frames, (len(frames), *self._chunk_shape[1:]), np.uint8)
        if number not in self._chunks:
            self._chunks[number] = np.empty(self._chunk_shape, np.uint8)
        self._chunks[number][first:stop] = frames
        self._filled[number] = stop

    def restore(self, tensors: dict[str, np.ndarray]) -> None:
        """Takes in where each seat writes, once all rows are there, and counts what is referred to."""
        try:
            self._restore(tensors)
            if not are_actions(self._actions[: min(self._written, self.slots)], self._action_count):
                raise ValueError("an action is none")
        except (KeyError, ValueError, IndexError, TypeError, OverflowError) as error:
            raise InputError(f"its replay is none of this configuration's ({error})") from error

    def _restore(self, tensors: dict[str, np.ndarray]) -> None:
        tails = tensors["tails"]
        _check("tails", tails, (len(self._tails), 2), np.int64)
        written, made = (int(number) for number in tensors["counts"])
        places = self._places[: min(written, self.slots)].reshape(-1, 2)
        referred = np.concatenate([places, tails[tails[:, 0] >= 0]])
        numbers, place, counts = np.unique(referred[:, 0], return_inverse=True, return_counts=True)
        if set(numbers.tolist()) != set(self._chunks) or not all(0 <= number < made for number in self._chunks):
            raise ValueError("its chunks are not those that are referred to")
        filled = np.zeros(len(numbers), np.int64)
        np.maximum.at(filled, place, referred[:, 1])
        if (referred[:, 1] < self._depth).any() or (filled > [self._filled[number] for number in numbers]).any():
            raise ValueError("a stack ends outside of its chunk")
        self._written, self._made = written, made
        self._tails = [None if chunk < 0 else _Place(chunk, end) for chunk, end in tails.tolist()]
        self._references = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
        self._filled = dict(zip(numbers.tolist(), filled.tolist(), strict=True))

    def _put(self, seat: int, stack: np.ndarray) -> _Place:
        """Where the stack lies once what is new of it is appended to its seat's sequence; it counts as referred to."""
        place = self._tails[seat]
        if place is None or not self._holds(place, stack):
            place = self._next_place(place, stack)
            self._move_tail(seat, place)
        self._references[place.chunk] += 1
        return place

    def _holds(self, place: _Place, stack: np.ndarray) -> bool:
        return np.array_equal(self._chunks[place.chunk][place.end - self._depth : place.end], stack)

    def _next_place(self, tail: _Place | None, stack: np.ndarray) -> _Place:
        """Appends what of the stack is new after `tail`, to its chunk or to another."""
        depth, full = self._depth, self._chunk_shape[0]
        if tail is not None:
            chunk = self._chunks[tail.chunk]
            if tail.end < full and np.array_equal(chunk[tail.end - depth + 1 : tail.end], stack[:-1]):
                chunk[tail.end] = stack[-1]
                return _Place(tail.chunk, tail.end + 1)
            if tail.end + depth <= full:
                chunk[tail.end : tail.end + depth] = stack
                return _Place(tail.chunk, tail.end + depth)
        number = self._made
        self._made += 1
        self._chunks[number] = np.empty(self._chunk_shape, np.uint8)
        self._chunks[number][:depth] = stack
        self._references[number] = 0
        return _Place(number, depth)

    def _move_tail(self, seat: int, place: _Place) -> None:
        """A tail refers to its chunk too, so that the chunk that a seat writes to is there."""
        previous = self._tails[seat]
        self._tails[seat] = place
        self._filled[place.chunk] = place.end
        self._references[place.chunk] += 1
        if previous is not None:
            self._release(previous.chunk)

    def _release(self, chunk: int) -> None:
        self._references[chunk] -= 1
        if self._references[chunk] == 0:
            del self._chunks[chunk], self._references[chunk], self._filled[chunk]


def _frames(chunk: np.ndarray, start: int, stop: int) -> dict[str, np.ndarray]:
    return {"frame": chunk[start:stop]}


def _check(name: str, array: np.ndarray, shape: tuple[int, ...], kind: Any) -> None:
    if array.shape != shape or array.dtype != kind:
        raise ValueError(f"{name} is {array.dtype} of shape {array.shape}")
