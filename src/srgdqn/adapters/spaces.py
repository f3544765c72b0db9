"""Spaces: observations as a network reads them, the actions that its outputs stand for, checks of what a step gives.

Gymnasium's `FlattenObservation` and `TransformAction` do not check that values belong to their space, and leave nothing
in a saved run by which its policy could read observations and name actions later.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from srgdqn.errors import InputError, shown
from srgdqn.runs.provenance import NUMBER_TYPES, is_count

Kind = Literal["vector", "one-hot", "image"]

# The Nature network's three convolutions leave nothing of a smaller image.
_SMALLEST_IMAGE = 36
_MOST_DIMENSIONS = 4
_MOST_ACTIONS = 1_000  # that several dimensions are made into
_MOST_CHANNELS = 16
_UNBOUNDED = 1e6  # bounds of this size say that there is none


class OddValueError(ValueError):
    """An environment gave a value that its space does not have; the message says which."""


class Part(NamedTuple):
    """Where one array of numbers stands in an observation made of several, and how it becomes numbers of a vector."""

    path: tuple[str | int, ...]  # keys of dicts and places in tuples, from outside; () where it is all there is
    given: tuple[int, ...]  # its shape, as the environment gives it
    choices: tuple[int, ...] = ()  # of whole numbers that are made one-hot: how many values each may have
    starts: tuple[int, ...] = ()  # of such: the least value of each

    @property
    def size(self) -> int:
        """The numbers that it becomes."""
        return sum(self.choices) if self.choices else math.prod(self.given)

    @property
    def words(self) -> str:
        """A description for messages.

        >>> Part(("goal", "cell"), (2,), (4, 4), (0, 0)).words
        'goal.cell: one-hot of 4 and 4'
        """
        numbers = f"one-hot of {' and '.join(map(str, self.choices))}" if self.choices else f"{self.size}"
        name = ".".join(map(str, self.path))
        return f"{name}: {numbers}" if name else numbers

    @classmethod
    def from_metadata(cls, about: Any) -> Part:
        """The part that a run's metadata describe; a `TypeError` where that cannot be one."""
        part = cls(*map(tuple, about))
        sizes = (*part.given, *part.choices, *part.starts)
        names_fit = all(type(key) in (str, int) for key in part.path)
        numbers_fit = all(type(size) is int and abs(size) < 2**63 for size in sizes)
        if not (names_fit and numbers_fit and all(is_count(side, 1) for side in (*part.given, *part.choices))):
            raise TypeError("a part is none")
        if part.choices and not len(part.choices) == len(part.starts) == math.prod(part.given):
            raise TypeError("a part has another number of choices than of numbers")
        return part

    def within(self, observation: Any) -> Any:
        """The part of an observation; an `OddValueError` where it has none there."""
        for key in self.path:
            try:
                observation = observation[key]
            except (TypeError, KeyError, IndexError) as error:
                name = ".".join(map(str, self.path))
                raise OddValueError(f"an observation without {name!r}, which its space has") from error
        return observation

    def rows(self, given: Any, *, single: bool) -> np.ndarray:
        """What is given of this part, or rows of it, as rows of the numbers that it becomes."""
        array = np.asarray(given)[None] if single else np.asarray(given)
        name = ".".join(map(str, self.path)) or "the observation"
        if array.shape[1:] != self.given or not array.ndim:
            shape = array.shape[1:] if array.ndim else ()
            raise OddValueError(f"{name} of shape {shape} where its space has {self.given}")
        if array.dtype.kind not in ("iub" if self.choices else "fiub"):
            raise OddValueError(f"{name} of type {array.dtype}, where its space has numbers")
        flat = array.reshape(len(array), math.prod(self.given))
        if not self.choices:
            return flat.astype(np.float32)
        places = flat.astype(np.int64) - np.array(self.starts)
        if ((places < 0) | (places >= np.array(self.choices))).any():
            raise OddValueError(f"{name} {array.tolist()}, which its space does not have")
        hot = np.zeros((len(array), self.size), np.float32)
        first = np.cumsum((0, *self.choices[:-1]))
        hot[np.arange(len(array))[:, None], first + places] = 1
        return hot


class Observations(NamedTuple):
    """How observations become what a network reads: rows of numbers, or images with their channels first."""

    kind: Kind
    shape: tuple[int, ...]  # of one observation as the network reads it
    given: tuple[int, ...]  # of one as the environment gives it
    start: int = 0  # of a Discrete space
    channels_last: bool = False
    parts: tuple[Part, ...] = ()  # of one made of several arrays, in the order of `gymnasium.spaces.flatten`

    @classmethod
    def from_metadata(cls, about: dict[str, Any]) -> Observations:
        """The observations that a run's metadata describe; an `InputError` where they are inconsistent."""
        try:
            fields: dict[str, Any] = {
                n: tuple(value) if isinstance(value, list) else value for n, value in about.items()
            }
            fields["parts"] = tuple(map(Part.from_metadata, fields.get("parts", ())))
            if (read := cls(**fields))._is_consistent():
                return read
        except (TypeError, AttributeError):
            pass
        raise InputError(f"its description of observations, {shown(about)}, is inconsistent.")

    def metadata(self) -> dict[str, Any]:
        """The same as JSON values."""
        fields = {name: list(each) if isinstance(each, tuple) else each for name, each in self._asdict().items()}
        parts = [[list(field) for field in part] for part in fields.pop("parts")]
        return {**fields, "parts": parts} if parts else fields

    def _is_consistent(self) -> bool:
        """Whether each field has a possible value that fits the others."""
        shapes = all(isinstance(sizes, tuple) and all(is_count(side, 1) for side in sizes) for sizes in self[1:3])
        if not shapes or not (type(self.start) is int and abs(self.start) < 2**63):
            return False
        if not is_count(self.size, 1) or type(self.channels_last) is not bool:
            return False
        if self.parts:
            whole = sum(part.size for part in self.parts) == self.size
            return self.kind == "vector" and len(self.shape) == 1 and self.given == () and whole
        if self.kind == "one-hot":
            return len(self.shape) == 1 and self.given == ()
        if math.prod(self.given) != self.size:
            return False
        if self.kind == "vector":
            return len(self.shape) == 1
        frames, *sides = self.shape
        alike = self.given in (self.shape, (*sides, frames)) or (frames == 1 and self.given == tuple(sides))
        return self.kind == "image" and len(sides) == 2 and alike

    @property
    def size(self) -> int:
        """The numbers in one observation."""
        return math.prod(self.shape)

    @property
    def words(self) -> str:
        """A description for messages.

        >>> Observations("vector", (6,), (2, 3)).words
        'vectors of 6 numbers (given as 2 × 3)'
        """
        if self.kind == "one-hot":
            return f"whole numbers from {self.start} to {self.start + self.size - 1}"
        if self.parts:
            return f"vectors of {self.size} numbers ({', '.join(part.words for part in self.parts)})"
        given = " × ".join(map(str, self.given))
        if self.kind == "image":
            return f"images of {' × '.join(map(str, self.shape))} (given as {given})"
        return f"vectors of {self.size} numbers" + (f" (given as {given})" if len(self.given) != 1 else "")

    @property
    def dtype(self) -> type:
        """The type that one is stored as."""
        return np.uint8 if self.kind == "image" else np.float32

    def encode(self, observation: Any) -> np.ndarray:
        """One observation as the network reads it; an `OddValueError` where it is none of the space's."""
        if self.parts:
            return self._joined(observation, single=True)[0]
        if self.kind == "one-hot":
            return self._one_hot(observation)
        array = np.asarray(observation)
        self._check(array, array.shape)
        if self.kind == "image":
            return np.moveaxis(array, -1, 0) if self.channels_last else array.reshape(self.shape)
        return array.reshape(-1).astype(np.float32, copy=False)

    def encode_rows(self, observations: Any) -> np.ndarray:
        """Rows of observations from a vector environment; copied, as it may write into the same array again."""
        if self.parts:
            return self._joined(observations, single=False)
        if self.kind == "one-hot":
            return np.stack([self._one_hot(each) for each in np.atleast_1d(observations)])
        array = np.asarray(observations)
        self._check(array, array.shape[1:] if array.ndim else None)
        if self.kind == "image":
            rows = np.moveaxis(array, -1, 1) if self.channels_last else array.reshape(-1, *self.shape)
            return rows.copy()
        return array.reshape(len(array), -1).astype(np.float32)

    def _joined(self, observation: Any, *, single: bool) -> np.ndarray:
        """The parts of an observation, or of rows of them, side by side."""
        rows = [part.rows(part.within(observation), single=single) for part in self.parts]
        if len({len(each) for each in rows}) != 1:
            raise OddValueError(f"an observation whose parts have {sorted({len(each) for each in rows})} rows")
        return np.concatenate(rows, axis=1)

    def first_array(self, observation: Any) -> tuple[np.ndarray, tuple[int, ...]]:
        """The first array in an observation, or in rows of them, and its shape in one."""
        if self.parts:
            return np.asarray(self.parts[0].within(observation)), self.parts[0].given
        return np.asarray(observation), self.given

    def _check(self, array: np.ndarray, shape: tuple[int, ...] | None) -> None:
        if shape != self.given:
            raise OddValueError(f"an observation of shape {shape or ()} where its space has {self.given}")
        if array.dtype.kind not in "fiub":
            raise OddValueError(f"an observation of type {array.dtype}, which is no number")
        if self.kind == "image" and array.dtype != np.uint8:
            raise OddValueError(f"an image of type {array.dtype} where its space has uint8")

    def _one_hot(self, observation: Any) -> np.ndarray:
        array = np.asarray(observation)
        if array.ndim or array.dtype.kind not in "iu":
            raise OddValueError(f"the observation {observation!r} where its space has whole numbers")
        place = int(array) - self.start
        if not 0 <= place < self.size:
            last = self.start + self.size - 1
            raise OddValueError(f"the observation {int(array)} where its space has {self.start} to {last}")
        row = np.zeros(self.size, np.float32)
        row[place] = 1
        return row


@dataclass(frozen=True)
class Actions:
    """What each action's index stands for."""

    table: tuple[Any, ...]

    @classmethod
    def from_metadata(cls, table: list[Any], kind: str | None) -> Actions:
        """The actions that a run's metadata describe: numbers of a Discrete space, or arrays of that type; an
        `InputError` where they are neither.
        """
        try:
            if kind is None and table and all(type(action) is int and abs(action) < 2**63 for action in table):
                return cls(tuple(table))
            if kind in NUMBER_TYPES:
                actions = tuple(np.array(action, kind) for action in table)
                if len({action.shape for action in actions}) == 1:
                    return cls(actions)
        except (TypeError, ValueError, OverflowError):
            pass
        raise InputError(f"its actions, {shown(table)} of type {shown(kind)}, are neither numbers nor arrays.")

    @property
    def kind(self) -> str | None:
        """The type of an action's numbers; None where an action is one whole number."""
        first = self.table[0]
        return first.dtype.name if isinstance(first, np.ndarray) else None

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.table)


def space_of(environment: gym.Env | VectorEnv, what: Literal["observation", "action"]) -> spaces.Space:
    """The space of one environment's observations or actions, also of one among a vector's."""
    prefix = "single_" if isinstance(environment, VectorEnv) else ""
    space: spaces.Space = getattr(environment, f"{prefix}{what}_space")
    return space


def read_observations(space: spaces.Space, name: str, *, as_image: bool) -> Observations:
    """How the observations of a space are read: as images if they can be and the network reads images."""
    if isinstance(space, spaces.Discrete):
        return Observations("one-hot", (int(space.n),), (), start=int(space.start))
    if not isinstance(space, spaces.Box):
        parts = tuple(_part(path, leaf, space, name) for path, leaf in _leaves(space))
        size = sum(part.size for part in parts)
        if size == 0:
            raise InputError(
                f"the observation space of {name} is {space}, which has no numbers in it. Give it at least one."
            )
        return Observations("vector", (size,), (), parts=parts)
    if 0 in space.shape:
        raise InputError(
            f"the observation space of {name} is {space}, which has no numbers in it. Give it at least one."
        )
    if as_image and is_image(space):
        if len(space.shape) == 2:
            return Observations("image", (1, *space.shape), space.shape)
        height, width, channels = space.shape
        if channels <= _MOST_CHANNELS and channels < height:
            return Observations("image", (channels, height, width), space.shape, channels_last=True)
        return Observations("image", space.shape, space.shape)
    return Observations("vector", (int(np.prod(space.shape, dtype=int)),), space.shape)


def _leaves(space: spaces.Space, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], spaces.Space]]:
    """The spaces within Dict and Tuple spaces, and where, in the order of `gymnasium.spaces.flatten`."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        within = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for key, inner in within:
            yield from _leaves(inner, (*path, key))
    else:
        yield path, space


def _part(path: tuple[Any, ...], leaf: spaces.Space, space: spaces.Space, name: str) -> Part:
    """How one of the spaces within an observation's is read; an `InputError` where it cannot be."""
    where = f"the observation space of {name} is {space}"
    if not all(type(key) in (str, int) for key in path):
        raise InputError(f"{where}, whose keys {path} are not all strings. Name the parts of the Dict by strings.")
    inside = f"with {leaf} at {'.'.join(map(str, path))!r}, " if path else ""
    if is_image(leaf):
        raise InputError(
            f"{where}, {inside}an image, but images are read only where they are the whole observation. Wrap the "
            "environment in gymnasium.wrappers.TransformObservation so that it gives the image alone, or in "
            "gymnasium.wrappers.FilterObservation so that it leaves it out."
        )
    if isinstance(leaf, spaces.Discrete):
        return Part(path, (), (int(leaf.n),), (int(leaf.start),))
    if isinstance(leaf, spaces.MultiDiscrete):
        choices, starts = (tuple(map(int, np.ravel(each))) for each in (leaf.nvec, leaf.start))
        return Part(path, tuple(leaf.shape), choices, starts)
    if isinstance(leaf, spaces.Box | spaces.MultiBinary) and 0 not in leaf.shape:
        return Part(path, tuple(leaf.shape))
    raise InputError(
        f"{where}, {inside}but a Q-network reads Box, Discrete, MultiDiscrete and MultiBinary spaces with at least one "
        "number, and Dict and Tuple spaces of such. Wrap the environment in gymnasium.wrappers.TransformObservation "
        "with a Box of numbers."
    )


def scale_of(space: spaces.Space, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The mean and the deviation of a flat observation that make its bounds -1 and 1; an `InputError` where it has no
    bounds. Numbers without bounds, or with bounds too large to be anybody's choice, are left as they are.
    """
    boxes = [leaf for _, leaf in _leaves(space) if isinstance(leaf, spaces.Box)]
    if not boxes:
        raise InputError(
            f"scale_observations is on, but the observation space of {name} is {space}, which has no bounds: a network "
            "reads a 1 among zeros. Switch it off."
        )
    low, high = np.concatenate([_bounds(leaf, path, space, name) for path, leaf in _leaves(space)], axis=1)
    bounded = (np.abs(low) < _UNBOUNDED) & (np.abs(high) < _UNBOUNDED) & (low < high)
    if not bounded.any():
        raise InputError(
            f"scale_observations is on, but no number of an observation of {name} has bounds below a million: "
            f"{shown(space)}. Switch it off; normalise_observations takes running statistics instead."
        )
    low, high = np.where(bounded, [low, high], [[-1.0], [1.0]])
    return (low + high) / 2, (high - low) / 2


def _bounds(leaf: spaces.Space, path: tuple[Any, ...], space: spaces.Space, name: str) -> np.ndarray:
    """The least and the largest values of the numbers that a part becomes; none (zeros) of ones among zeros."""
    if isinstance(leaf, spaces.Box):
        return np.array([leaf.low.ravel(), leaf.high.ravel()], np.float64)
    return np.zeros((2, _part(path, leaf, space, name).size))


def is_image(space: spaces.Space) -> bool:
    """Whether observations are images that the convolutional network can read: bytes, and not too small."""
    if not isinstance(space, spaces.Box) or space.dtype != np.uint8 or len(space.shape) not in (2, 3):
        return False
    return sum(side >= _SMALLEST_IMAGE for side in space.shape) >= 2


def read_actions(space: spaces.Space, name: str, bins: int | None) -> Actions:
    """The actions of a space: its own where they are discrete, or else so many bins per dimension."""
    if isinstance(space, spaces.Discrete):
        if bins is not None:
            raise InputError(
                f"action_bins is {bins}, but the actions of {name} are discrete already: {space}. Leave it out."
            )
        return Actions(tuple(range(int(space.start), int(space.start + space.n))))
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        return _combinations(space, name, bins)
    if not isinstance(space, spaces.Box):
        raise InputError(
            f"the action space of {name} is {space}, but Q-learning needs Discrete actions. Wrap the environment in "
            "gymnasium.wrappers.TransformAction with a Discrete space of the combinations that matter."
        )
    size = int(np.prod(space.shape, dtype=int))
    if size > _MOST_DIMENSIONS or size == 0:
        raise InputError(
            f"the action space of {name} is {space}, with {size} dimensions, but Q-learning needs Discrete actions and "
            f"only one to {_MOST_DIMENSIONS} dimensions can be cut into bins. Wrap the environment in "
            "gymnasium.wrappers.TransformAction with a Discrete space of the actions that matter."
        )
    most = max(each for each in range(1, _MOST_ACTIONS + 1) if each**size <= _MOST_ACTIONS)
    if bins is None:
        raise InputError(
            f"the action space of {name} is {space}, which is continuous, but Q-learning needs discrete actions. Give "
            f"action_bins (--action-bins {min(12, most)}) to cut each dimension into so many, or wrap the environment "
            "in gymnasium.wrappers.TransformAction."
        )
    if bins > most:
        raise InputError(
            f"action_bins is {bins}, which makes {bins**size:,} actions of the {size} dimensions of {name}, but there "
            f"may be {_MOST_ACTIONS:,}. Give action_bins = {most} or less."
        )
    low, high = space.low.ravel().astype(np.float64), space.high.ravel().astype(np.float64)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise InputError(
            f"the action space of {name} is {space}, whose bounds are not all finite, so that it cannot be cut into "
            "bins. Wrap the environment in gymnasium.wrappers.RescaleAction or TransformAction with finite bounds."
        )
    axes = [np.linspace(least, most, bins) for least, most in zip(low, high, strict=True)]
    dtype = space.dtype
    return Actions(tuple(np.array(point, dtype).reshape(space.shape) for point in itertools.product(*axes)))


def _combinations(space: spaces.MultiDiscrete | spaces.MultiBinary, name: str, bins: int | None) -> Actions:
    """Every combination of whole numbers as one action, the last number changing fastest."""
    if bins is not None:
        raise InputError(
            f"action_bins is {bins}, but the actions of {name} are discrete already: {space}. Leave it out."
        )
    if isinstance(space, spaces.MultiDiscrete):
        counts, starts = np.ravel(space.nvec), np.ravel(space.start)
    else:
        counts, starts = np.full(math.prod(space.shape), 2), np.zeros(math.prod(space.shape), int)
    product = math.prod(map(int, counts))
    if product > _MOST_ACTIONS:
        raise InputError(
            f"the action space of {name} is {space}, which has {product:,} combinations, but Q-learning needs a value "
            f"for each, and there may be {_MOST_ACTIONS:,}. Wrap the environment in "
            "gymnasium.wrappers.TransformAction with a Discrete space of the combinations that matter."
        )
    ranges = [range(int(start), int(start + count)) for start, count in zip(starts, counts, strict=True)]
    return Actions(tuple(np.array(point, space.dtype).reshape(space.shape) for point in itertools.product(*ranges)))


def as_rows(reading: Observations, observation: Any) -> tuple[np.ndarray, bool]:
    """Observations as a network reads them, in rows, and whether there was only one."""
    try:
        array, expected = reading.first_array(observation)
        if array.ndim == len(expected):
            return reading.encode(observation)[None], True
        if array.ndim == len(expected) + 1:
            return reading.encode_rows(observation), False
    except ValueError as error:
        raise InputError(f"the policy was given {error}. Give what the environment gives.") from error
    raise InputError(
        f"the observation has shape {array.shape}; the policy expects {expected}, or rows of such. Give what the "
        "environment gives."
    )


# Looked up by type, as the usual value comes at every step.
_NUMBERS = frozenset({float, int, np.float64, np.float32, np.int64})
_FLAGS = frozenset({bool, np.bool_})


def reward_of(given: Any) -> float:
    """A step's reward; an `OddValueError` if it is no number. NumPy would make one of None and of some strings."""
    if type(given) in _NUMBERS:
        return given
    return float(_scalar(given, "fiub", "the reward"))


def flag_of(given: Any, what: str) -> bool:
    """Whether a step ended the episode in the way that is called `what`; an `OddValueError` if it is no truth value."""
    if type(given) in _FLAGS:
        return given
    return bool(_scalar(given, "biu", what))


def _scalar(given: Any, kinds: str, what: str) -> Any:
    array = np.asarray(given)
    if array.size != 1 or array.dtype.kind not in kinds:
        raise OddValueError(f"{what} {given!r}")
    return array.reshape(())
