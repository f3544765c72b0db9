"""The file of an agent: every bit of it counts, and reading it runs nothing."""

from __future__ import annotations

import hashlib
import json
import pickle
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from srgdqn.errors import InputError
from srgdqn.runs import parameters
from srgdqn.runs.agent_file import AGENT as FORM
from srgdqn.runs.agent_file import SavedAgent, decode, encode
from srgdqn.runs.snapshots import Snapshot, Stream

AGENT = SavedAgent(
    {"b.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.array(7, np.int32), "none": np.zeros((0, 2))},
    'task = "CartPole-v1"\n',
    {"observations": {"shape": [2]}, "word": "ε"},
)
ROWS = np.arange(20.0).reshape(10, 2)


def encoded(agent: SavedAgent, streams: dict[str, Stream] | None = None) -> bytes:
    return encode(agent.configuration, Snapshot(agent.about, agent.tensors, streams or {}))


DATA = encoded(AGENT)


def test_what_is_written_is_read() -> None:
    found = decode(DATA)
    assert found.configuration == AGENT.configuration
    assert found.about == AGENT.about
    assert found.tensors.keys() == AGENT.tensors.keys()
    for name, array in AGENT.tensors.items():
        assert (found.tensors[name].dtype, found.tensors[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found.tensors[name], array)


def test_the_rows_that_are_needed_are_written_and_read() -> None:
    data = encoded(AGENT, {"memory.replay": Stream(4, 10, lambda start, stop: {"row": ROWS[start:stop]})})
    [(name, first, rows)] = decode(data).rows()
    assert (name, first) == ("memory.replay", 4)
    np.testing.assert_array_equal(rows["row"], ROWS[4:])


def test_views_and_columns_are_written_as_they_look() -> None:
    table = np.arange(12.0).reshape(3, 4)
    found = decode(encoded(AGENT._replace(tensors={"t": table.T, "s": table[::2, 1:3]})))
    np.testing.assert_array_equal(found.tensors["t"], table.T)
    np.testing.assert_array_equal(found.tensors["s"], table[::2, 1:3])


@settings(max_examples=300)
@given(st.integers(0, len(DATA) - 1), st.integers(1, 255))
def test_any_other_byte_is_noticed(place: int, change: int) -> None:
    changed = bytearray(DATA)
    changed[place] ^= change
    with pytest.raises(InputError):
        decode(bytes(changed))


@given(st.integers(0, len(DATA) - 1))
def test_a_file_cut_short_is_noticed(length: int) -> None:
    with pytest.raises(InputError):
        decode(DATA[:length])


@given(st.binary(max_size=64))
def test_bytes_of_anything_are_none_of_an_agent(data: bytes) -> None:
    for each in (data, DATA + data if data else b""):
        with pytest.raises(InputError):
            decode(each)


def _signed(content: Any) -> bytes:
    """A file whose digest is right, whatever it holds."""
    tensors = AGENT.tensors
    text = json.dumps(content)
    digest = hashlib.sha256(f"{text}\0{parameters.digest(tensors)}".encode()).hexdigest()
    data: bytes = safetensors.numpy.save(tensors, metadata={"agent": text, "sha256": digest})
    return data


def test_other_kinds_and_newer_versions_are_told() -> None:
    content = {"kind": FORM.kind, "version": FORM.version, "configuration": "", "about": {}, "streams": {}}
    assert decode(_signed(content)).about == {}
    with pytest.raises(InputError, match="of kind 'cake'"):
        decode(_signed({**content, "kind": "cake"}))
    with pytest.raises(InputError, match=f"a newer srgdqn wrote it: it has version {FORM.version + 1} of the format"):
        decode(_signed({**content, "version": FORM.version + 1}))
    with pytest.raises(InputError, match="an older srgdqn wrote it: it has version 1 of the format"):
        decode(_signed({**content, "version": 1}))
    for streams in (None, [], {"memory.replay": 3}, {"memory.replay": [3, 1]}, {"memory.replay": [-1, 1]}):
        with pytest.raises(InputError, match="not that of an agent"):
            decode(_signed({**content, "streams": streams}))
    with pytest.raises(InputError, match="are not where they belong"):
        list(decode(_signed({**content, "streams": {"memory.replay": [0, 3]}})).rows())
    with pytest.raises(InputError, match="it holds tensors, but no agent"):
        decode(parameters.encode({"a": np.zeros(2)}))
    with pytest.raises(InputError, match="it holds tensors, but no agent"):
        decode(safetensors.numpy.save(AGENT.tensors))


def test_nothing_is_unpickled() -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return pytest.fail, ("code was run",)

    with pytest.raises(InputError, match="not a safetensors file"):
        decode(pickle.dumps(Trap()))
