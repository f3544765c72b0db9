"""A block of transitions from an environment, and the first-in-first-out memories of them, in NumPy.

`FlatMemory` has packed rows, as the compiled replay does. `FrameMemory` is for images, and stores every frame once: an
observation is a stack of frames, and most often the next one is the same stack moved on by a frame. The frames of each
environment lie in a sequence, to which only what is new is appended; a transition knows where in it its two stacks end.
What is new is found by comparing bytes, so that the memory is exact for any images, whether an environment stacks them
or not. A sequence is cut into chunks that are only ever appended to and are dropped as wholes. No stack reaches from
one into the next: where one is full, the stack is begun anew in the next.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from srgdqn.adapters.episode_links import EpisodeLinks
from srgdqn.adapters.spaces import Observations
from srgdqn.errors import InputError
from srgdqn.learner.gradients import Transitions
from srgdqn.learner.n_step import joined
from srgdqn.learner.replay import BACK, SCALARS, column_of, pack_into, row_width, scalar_of, unpack
from srgdqn.runs.snapshots import Stream

REPLAY = "replay"
"""The name of the stream of transitions in a checkpoint."""
_FRAMES = "frames."


class Block:
    """The transitions between two outer iterations, in the order in which they were made."""

    def __init__(self, length: int, observations: Observations, masked: int = 0) -> None:
        """Room for so many; `masked` is the number of actions, where not all of them are always allowed."""
        shape = (length, *observations.shape)
        self.observation: np.ndarray = np.zeros(shape, observations.dtype)
        self.next_observation: np.ndarray = np.zeros(shape, observations.dtype)
        self.action = np.zeros(length, np.int32)
        self.reward = np.zeros(length, np.float32)
        self.terminated = np.zeros(length, bool)
        self.truncated = np.zeros(length, bool)
        self.next_mask = np.ones((length, masked), bool) if masked else None
        self.environment = np.zeros(length, np.int32)  # which of several made each
        self.columns = (
            self.observation,
            self.action,
            self.reward,
            self.next_observation,
            self.terminated,
            self.truncated,
            *([] if self.next_mask is None else [self.next_mask]),
            self.environment,
        )

    def __len__(self) -> int:
        return len(self.action)

    def transitions(self, stored_reward: Any) -> Transitions:
        """What the replay takes in, with rewards as they are to be learned from."""
        given: dict[str, Any] = {"observation": self.observation, "action": self.action, "reward": stored_reward}
        given |= {"next_observation": self.next_observation, "terminated": self.terminated}
        return Transitions(**given, next_mask=self.next_mask)  # type: ignore[arg-type]


def _are_actions(values: np.ndarray, count: int) -> bool:
    """Whether all of them are indices of so many actions."""
    return bool(((values >= 0) & (values < count) & (values == np.floor(values))).all())


class FlatMemory:
    """A ring of packed rows: transition number t lies in slot t modulo its length."""

    def __init__(
        self,
        slots: int,
        size: int,
        actions: int,
        *,
        environments: int = 1,
        n_step: int = 1,
        masked: bool = False,
    ) -> None:
        """Room for `slots` transitions between observations of `size` numbers, by one of so many actions; `masked`:
        beside each lies which of them are allowed in S'.
        """
        self.rows = np.zeros((slots, row_width(size, n_step)), np.float32)
        self._masks = np.ones((slots, actions), bool) if masked else None
        self.slots, self._actions, self._n_step = slots, actions, n_step
        self._links = EpisodeLinks(slots, environments) if n_step > 1 else None
        self.written = 0  # transitions ever

    def write(self, transitions: Transitions, environments: np.ndarray, ended: np.ndarray | None = None) -> None:
        """Takes in a block, each transition made in one of several environments; the memory's length is a multiple of
        the block's. For n-step returns it is told which transitions ended their episodes.
        """
        start, count = self.written % len(self.rows), len(environments)
        back = _linked(self._links, self.written, environments, ended)
        pack_into(self.rows[start : start + count], transitions, back)
        if self._masks is not None:
            self._masks[start : start + count] = transitions.next_mask
        self.written += count

    def begin_anew(self, environments: Iterable[int]) -> None:
        """The next transitions in these environments are the first of new episodes."""
        if self._links is not None:
            self._links.leave(environments)

    def gather(self, slots: np.ndarray, out: np.ndarray | None = None) -> np.ndarray | Transitions:
        """The rows at these slots, in an array that is there already where one is given; with masks unpacked, and for
        n-step returns as transitions of up to n steps from there on.
        """
        if self._links is not None:
            path, steps = self._links.follow(slots, self._n_step)
            rewards = self.rows[path, column_of(self.rows, "reward")]
            rows = self.rows[np.stack([path[:, 0], path[:, -1]])]
            first, last = map(_on_host, rows)
            return self._with_masks(joined(first, last, _of_steps(rewards, steps), steps), path[:, -1])
        rows = self.rows.take(slots, axis=0, out=out, mode="clip")  # which never clips, and spares a check
        return rows if self._masks is None else self._with_masks(_on_host(rows), slots)

    def _with_masks(self, transitions: Transitions, slots: np.ndarray) -> Transitions:
        """The transitions with what is allowed in S', which lies beside these slots."""
        if self._masks is None:
            return transitions
        masks: Any = self._masks[slots]
        return transitions._replace(next_mask=masks)

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Stream]]:
        """How many were ever written, and the rows by the numbers of their transitions."""
        stream = Stream(max(0, self.written - self.slots), self.written, self._numbered, REPLAY)
        links = {} if self._links is None else self._links.state()
        return {"written": np.array(self.written, np.int64), **links}, {REPLAY: stream}

    def _numbered(self, start: int, stop: int) -> dict[str, np.ndarray]:
        slots = np.arange(start, stop) % self.slots
        return {"row": self.rows[slots]} | ({} if self._masks is None else {"next_mask": self._masks[slots]})

    def take(self, name: str, first: int, rows: dict[str, np.ndarray]) -> None:
        """Takes in rows that `state` gave."""
        given = rows["row"]
        if name != REPLAY or given.shape[1:] != self.rows.shape[1:] or given.dtype != self.rows.dtype:
            raise ValueError(f"{name} is {given.dtype} of shape {given.shape}")
        slots = np.arange(first, first + len(given)) % self.slots
        self.rows[slots] = given
        if self._masks is not None:
            _check("next_mask", rows["next_mask"], (len(given), self._actions), bool)
            self._masks[slots] = rows["next_mask"]
        self.written = first + len(given)

    def restore(self, tensors: dict[str, np.ndarray]) -> None:
        """Checks that all rows are there, and that their actions are such: whoever learns looks values up by them."""
        written, used = tensors.get("written"), self.rows[: min(self.written, self.slots)]
        whole = written is not None and written.shape == () and int(written) == self.written
        if not whole or not _are_actions(scalar_of(used, "action"), self._actions):
            raise InputError("its replay is none of this configuration's")
        if self._links is not None:
            self._links.restore(tensors, self.written, self.rows[:, -1])

    def blank(self, rows: int) -> np.ndarray | Transitions:
        """Rows of zeros; with masks or for n-step returns, unpacked."""
        zeros = np.zeros((rows, self.rows.shape[1]), np.float32)
        if self._links is None and self._masks is None:
            return zeros
        blank = _on_host(zeros) if self._links is None else _blank_steps(_on_host(zeros), self._n_step)
        masks: Any = None if self._masks is None else np.ones((rows, self._actions), bool)
        return blank._replace(next_mask=masks)

    @property
    def nbytes(self) -> int:
        """The bytes that it takes."""
        return self.rows.nbytes + (0 if self._masks is None else self._masks.nbytes)


class _Place(NamedTuple):
    """Where a stack lies: in which chunk, and after which of its frames it ends."""

    chunk: int
    end: int


class FrameMemory:
    """The same of images, in chunks of frames."""

    def __init__(
        self,
        slots: int,
        shape: tuple[int, ...],
        environments: int,
        actions: int,
        *,
        masked: bool = False,
        chunk_frames: int = 1024,
        n_step: int = 1,
    ) -> None:
        """Room for `slots` transitions between images of the given shape (frames, …), by one of so many actions."""
        self.slots, self._actions, self._n_step = slots, actions, n_step
        self._links = EpisodeLinks(slots, environments) if n_step > 1 else None
        self._depth, *frame = shape
        self._chunk_shape = (max(chunk_frames, self._depth), *frame)
        self._chunks: dict[int, np.ndarray] = {}
        self._references: dict[int, int] = {}  # of each chunk: stacks of stored transitions in it
        self._filled: dict[int, int] = {}  # of each chunk: its frames so far
        self._made = 0
        self._tails: list[_Place | None] = [None] * environments  # of each: the stack it had last
        self.written = 0
        self._scalars: dict[str, np.ndarray] = {name: np.empty(slots, kind) for name, kind in SCALARS.items()}
        if masked:
            self._scalars["next_mask"] = np.empty((slots, actions), bool)
        self._places = np.empty((slots, 4), np.int64)  # of S and of S': chunk and end
        self._ring: dict[str, np.ndarray] = {**self._scalars, "places": self._places}
        if n_step > 1:
            self._ring["back"] = np.zeros(slots, BACK)

    @property
    def nbytes(self) -> int:
        """Bytes of the chunks and of the ring."""
        return sum(array.nbytes for array in [*self._ring.values(), *self._chunks.values()])

    def write(self, transitions: Transitions, environments: np.ndarray, ended: np.ndarray | None = None) -> None:
        """Takes in transitions, each over the oldest of all; for n-step returns with which of them ended episodes."""
        back = _linked(self._links, self.written, environments, ended)
        for row, environment in enumerate(environments.tolist()):
            slot = self.written % self.slots
            stacks: Any = transitions.observation[row], transitions.next_observation[row]
            places = [self._put(environment, stack) for stack in stacks]
            if self.written >= self.slots:
                for chunk in self._places[slot, ::2].tolist():
                    self._release(chunk)
            self._places[slot] = [*places[0], *places[1]]
            for name, column in self._scalars.items():
                column[slot] = getattr(transitions, name)[row]
            if back is not None:
                self._ring["back"][slot] = back[row]
            self.written += 1

    def begin_anew(self, environments: Iterable[int]) -> None:
        """The next transitions in these environments are the first of new episodes."""
        if self._links is not None:
            self._links.leave(environments)

    def gather(self, slots: np.ndarray, out: np.ndarray | None = None) -> Transitions:
        """The transitions in these slots, with images of shape (rows, frames, …); for n-step returns those of up to n
        steps from there on.
        """
        assert out is None  # images are no rows
        chunks, depth = self._chunks, self._depth
        path, steps = (slots[:, None], None) if self._links is None else self._links.follow(slots, self._n_step)
        last = path[:, -1]
        stacks = np.empty((2, len(slots), depth, *self._chunk_shape[1:]), np.uint8)
        ends = np.concatenate([self._places[slots, :2], self._places[last, 2:]], axis=1)
        for row, (chunk, end, next_chunk, next_end) in enumerate(ends.tolist()):
            stacks[0, row] = chunks[chunk][end - depth : end]
            stacks[1, row] = chunks[next_chunk][next_end - depth : next_end]
        scalars: dict[str, Any] = {name: column[slots] for name, column in self._scalars.items()}
        if steps is not None:
            scalars["reward"] = _of_steps(self._scalars["reward"][path], steps)
            at_end = ("terminated", "next_mask")
            scalars |= {name: self._scalars[name][last] for name in at_end if name in scalars} | {"steps": steps}
        return Transitions(observation=stacks[0], next_observation=stacks[1], **scalars)

    def blank(self, rows: int) -> Transitions:
        """Black images."""
        images: Any = np.zeros((rows, self._depth, *self._chunk_shape[1:]), np.uint8)
        scalars: dict[str, Any] = {
            name: np.zeros((rows, *column.shape[1:]), column.dtype) for name, column in self._scalars.items()
        }
        blank = Transitions(observation=images, next_observation=images, **scalars)
        return blank if self._links is None else _blank_steps(blank, self._n_step)

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Stream]]:
        """Where each environment writes; the ring by the numbers of its transitions, and the frames of every chunk."""
        streams = {REPLAY: Stream(max(0, self.written - self.slots), self.written, self._numbered, REPLAY)}
        for number, chunk in self._chunks.items():
            streams[f"{_FRAMES}{number}"] = Stream(0, self._filled[number], functools.partial(_frames, chunk), REPLAY)
        tails = [(-1, -1) if tail is None else tail for tail in self._tails]
        counts = np.array([self.written, self._made], np.int64)
        links = {} if self._links is None else self._links.state()
        return {"tails": np.array(tails, np.int64), "counts": counts, **links}, streams

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
        """Takes in where each environment writes, once all rows are there, and counts what is referred to."""
        try:
            self._restore(tensors)
            if not _are_actions(self._scalars["action"][: min(self.written, self.slots)], self._actions):
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
        self.written, self._made = written, made
        self._tails = [None if chunk < 0 else _Place(chunk, end) for chunk, end in tails.tolist()]
        self._references = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
        self._filled = dict(zip(numbers.tolist(), filled.tolist(), strict=True))
        if self._links is not None:
            self._links.restore(tensors, written, self._ring["back"])

    def _put(self, environment: int, stack: np.ndarray) -> _Place:
        """Where the stack lies once what is new of it is appended to the sequence; it counts as referred to."""
        place = self._tails[environment]
        if place is None or not self._holds(place, stack):
            place = self._next_place(place, stack)
            self._move_tail(environment, place)
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

    def _move_tail(self, environment: int, place: _Place) -> None:
        """A tail refers to its chunk too, so that the chunk that an environment writes to is there."""
        previous = self._tails[environment]
        self._tails[environment] = place
        self._filled[place.chunk] = place.end
        self._references[place.chunk] += 1
        if previous is not None:
            self._release(previous.chunk)

    def _release(self, chunk: int) -> None:
        self._references[chunk] -= 1
        if self._references[chunk] == 0:
            del self._chunks[chunk], self._references[chunk], self._filled[chunk]


Memory: TypeAlias = FlatMemory | FrameMemory


def _linked(
    links: EpisodeLinks | None, written: int, environments: np.ndarray, ended: np.ndarray | None
) -> np.ndarray | None:
    if links is None:
        return None
    assert ended is not None
    return links.write(written, environments, ended)


def _of_steps(rewards: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Rewards of n transitions from each on, of which those beyond its steps count nothing."""
    return np.where(np.arange(rewards.shape[1]) < steps[:, None], rewards, np.float32(0))


def _on_host(rows: np.ndarray) -> Transitions:
    transitions = unpack(rows)  # type: ignore[arg-type]
    return transitions


def _blank_steps(one: Transitions, n: int) -> Transitions:
    steps = np.ones(len(one.reward), np.int32)
    return joined(one, one, np.zeros((len(steps), n), np.float32), steps)


def _frames(chunk: np.ndarray, start: int, stop: int) -> dict[str, np.ndarray]:
    return {"frame": chunk[start:stop]}


def _check(name: str, array: np.ndarray, shape: tuple[int, ...], kind: Any) -> None:
    if array.shape != shape or array.dtype != kind:
        raise ValueError(f"{name} is {array.dtype} of shape {array.shape}")
