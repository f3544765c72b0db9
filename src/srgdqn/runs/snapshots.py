"""What a checkpoint and an agent's file hold: small arrays, and streams of rows that only grow; an agent's file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from srgdqn.errors import InputError
from srgdqn.runs.tensors import Form, Tensors, seal, unseal

Rows = dict[str, np.ndarray]
Spans = dict[str, tuple[int, int]]  # rows of each stream, from the first to before the last

_BETWEEN = "|"  # a stream's name and a column's, where rows are stored among other arrays


class Stream(NamedTuple):
    """Rows numbered from 0 on, of which those from `first` on are still needed."""

    first: int
    stop: int  # rows so far
    read: Callable[[int, int], Rows]  # from two numbers to the arrays of the rows between, each with rows first
    group: str = "rows"  # those that are needed for about as long share pieces


class Snapshot(NamedTuple):
    """What is to be stored at some moment."""

    about: dict[str, Any]  # JSON values
    tensors: Tensors
    streams: dict[str, Stream]

    @property
    def spans(self) -> Spans:
        """The rows that are needed of each stream."""
        return {name: (stream.first, stream.stop) for name, stream in self.streams.items()}


class Saved(Protocol):
    """A snapshot that was read back."""

    @property
    def tensors(self) -> Tensors:
        """The small arrays."""

    def rows(self) -> Iterable[tuple[str, int, Rows]]:
        """The rows of all streams: a stream's name, the number of the first row, the rows."""


class Saveable(Protocol):
    """Something whose state can be stored and restored."""

    def state(self) -> tuple[Tensors, dict[str, Stream]]:
        """Small arrays, stored whole every time, and streams, of which only new rows are."""

    def take(self, name: str, first: int, rows: Rows) -> None:
        """Takes in some rows of a stream, in their order; a ValueError or KeyError where they do not fit."""

    def restore(self, tensors: Tensors) -> None:
        """Takes in the arrays once all rows are there; an InputError, ValueError or KeyError where they do not fit."""


def snapshot_of(about: dict[str, Any], states: Mapping[str, Saveable]) -> Snapshot:
    """The snapshot of several objects by name. Names have no dot."""
    snapshot = Snapshot(about, {}, {})
    for name, each in states.items():
        tensors, streams = each.state()
        snapshot.tensors.update({f"{name}.{key}": array for key, array in tensors.items()})
        snapshot.streams.update({f"{name}.{key}": stream for key, stream in streams.items()})
    return snapshot


def restore_from(saved: Saved, states: Mapping[str, Saveable]) -> None:
    """Restores objects, as new as when they were made, from their snapshot; an `InputError` if it is not theirs."""
    try:
        for stream, first, rows in saved.rows():
            name, _, key = stream.partition(".")
            states[name].take(key, first, rows)
        for name, each in states.items():
            each.restore(tensors_below(name, saved.tensors))
    except InputError:  # which says what is wrong: it is damaged, say
        raise
    except (KeyError, ValueError, IndexError, TypeError, OverflowError) as error:
        raise InputError(f"it is none of this configuration's ({error})") from error


def tensors_below(name: str, tensors: Mapping[str, np.ndarray]) -> Tensors:
    """The arrays of one of the objects that a snapshot is of."""
    start = f"{name}."
    return {key.removeprefix(start): array for key, array in tensors.items() if key.startswith(start)}


def rows_as_tensors(streams: Mapping[str, Stream], spans: Mapping[str, tuple[int, int]]) -> Tensors:
    """Rows of streams as arrays by stream and column."""
    return {
        f"{name}{_BETWEEN}{column}": array
        for name, span in spans.items()
        for column, array in streams[name].read(*span).items()
    }


def rows_among(tensors: Mapping[str, np.ndarray], spans: Spans) -> Iterator[tuple[str, int, Rows]]:
    """The rows that `rows_as_tensors` gave; an `InputError` where there are not as many as the spans say."""
    found: dict[str, Rows] = {}
    for key, array in tensors.items():
        name, between, column = key.partition(_BETWEEN)
        if between:
            found.setdefault(name, {})[column] = array
    for name, (first, stop) in spans.items():
        rows = found.get(name, {})
        if not rows or not all(array.shape[:1] == (stop - first,) for array in rows.values()):
            raise InputError(f"the rows {first} to {stop} of {name} are not where they belong")
        yield name, first, rows


def spans_of(stored: Any) -> Spans:
    """The spans in JSON values; a ValueError, TypeError or AttributeError for others."""
    spans = {str(name): (int(first), int(stop)) for name, (first, stop) in stored.items()}
    if not all(0 <= first <= stop for first, stop in spans.values()):
        raise ValueError("rows that there cannot be")
    return spans


# Trees of arrays by the paths of their leaves, as they are stored


def by_path(tree: Any) -> dict[str, np.ndarray]:
    """The arrays of a tree, by path.

    >>> by_path({"network": [np.ones(2)]})
    {'network.0': array([1., 1.])}
    """
    import jax

    return {_name_of(path): np.asarray(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def _name_of(path: Any) -> str:
    """The name of a leaf's path."""
    import jax

    return jax.tree_util.keystr(path, simple=True, separator=".")


def filled(tree: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """A tree of the same form with the arrays that `by_path` gave of another; an `InputError` where one has none."""
    import jax

    def leaf(path: Any, like: Any) -> np.ndarray:
        found = arrays.get(_name_of(path))
        if found is None or found.shape != like.shape or found.dtype != like.dtype:
            got = "nothing" if found is None else f"{found.dtype} of shape {found.shape}"
            raise InputError(
                f"it holds {got} for {_name_of(path)}, where {like.dtype} of shape {like.shape} is expected."
            )
        return found

    return jax.tree_util.tree_map_with_path(leaf, tree)


# A saved agent: one sealed file with everything that it is

AGENT = Form("agent", "srgdqn-agent", 2, oldest=2)


class SavedAgent(NamedTuple):
    """What is in an agent's file."""

    tensors: Tensors
    configuration: str  # as TOML
    about: dict[str, Any]  # JSON values: the task and the provenance
    spans: Spans = {}  # noqa: RUF012  # of the rows that stand among the tensors

    def rows(self) -> Iterator[tuple[str, int, Rows]]:
        """The rows of all streams: a stream's name, the number of the first row, the rows."""
        return rows_among(self.tensors, self.spans)


def encode_agent(configuration: str, snapshot: Snapshot) -> bytes:
    """The bytes of an agent's file."""
    content = {"configuration": configuration, "about": snapshot.about, "streams": snapshot.spans}
    data, _ = seal(AGENT, content, snapshot.tensors | rows_as_tensors(snapshot.streams, snapshot.spans))
    return data


def decode_agent(data: bytes) -> SavedAgent:
    """What is in the bytes that `encode_agent` gave, if not a bit of them differs. Runs no code from it."""
    content, tensors, _ = unseal(AGENT, data)
    configuration, about = content.get("configuration"), content.get("about")
    if not isinstance(configuration, str) or not isinstance(about, dict):
        raise InputError("it is not the file of an agent")
    try:
        spans = spans_of(content["streams"])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(f"it is not the file of an agent ({error})") from error
    return SavedAgent(tensors, configuration, about, spans)
