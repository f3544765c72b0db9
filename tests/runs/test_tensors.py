"""Arrays with digests: what was put in comes out to the bit, and every damaged bit is noticed."""

from __future__ import annotations

import hashlib
import json
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from srgdqn.errors import InputError
from srgdqn.runs.snapshots import AGENT, Snapshot, Stream, decode_agent, encode_agent
from srgdqn.runs.tensors import Form, decode_parameters, digest_of, encode_parameters, seal, unseal
from tiny import bits

FORM = Form("letter", "test-letter", 2)
CONTENT = {"to": "Zürich", "pages": [1, 2.5, None, True], "within": {"deep": -(2**100)}}
TENSORS = {
    "numbers": np.arange(6, dtype=np.float32).reshape(2, 3),
    "none": np.zeros((2, 0), np.uint16),
    "flags": np.array([True, False]),
}
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda name: name != "__metadata__")
DTYPES = st.sampled_from([np.bool_, np.int16, np.uint32, np.int64, np.float16, np.float32, np.float64])
ARRAYS = hnp.arrays(DTYPES, hnp.array_shapes(max_dims=2, min_side=0, max_side=4).map(lambda shape: (3, *shape)))


@given(st.dictionaries(NAMES, ARRAYS, max_size=4))
def test_arrays_of_any_kind_come_back_to_the_bit(tensors: dict[str, np.ndarray]) -> None:
    data, digest = seal(FORM, CONTENT, tensors)
    opened = unseal(FORM, data)
    assert opened.content == {"kind": "test-letter", "version": 2, **CONTENT}
    assert opened.digest == digest
    for found in (opened.tensors, decode_parameters(encode_parameters(tensors))):
        assert {name: bits(array) for name, array in found.items()} == {n: bits(a) for n, a in tensors.items()}


def test_strides_and_byte_order_do_not_matter() -> None:
    array = np.arange(24, dtype=">f4").reshape(4, 3, 2).transpose(1, 2, 0)[:, ::-1]
    assert encode_parameters({"a": array}) == encode_parameters({"a": np.ascontiguousarray(array, "<f4")})
    plain = array.astype("<f4")
    assert seal(FORM, {}, {"a": plain})[1] == seal(FORM, {}, {"a": np.ascontiguousarray(plain)})[1]
    assert unseal(FORM, seal(FORM, {}, {"a": plain})[0]).tensors["a"].tolist() == plain.tolist()


@pytest.mark.parametrize(
    ("data", "decode"),
    [
        (seal(FORM, CONTENT, TENSORS)[0], lambda data: unseal(FORM, data).tensors),
        (encode_parameters(TENSORS), decode_parameters),
        (encode_agent("", Snapshot({}, TENSORS, {})), lambda data: decode_agent(data).tensors),
    ],
    ids=["sealed", "parameters", "agent"],
)
def test_every_byte_counts(data: bytes, decode: Callable[[bytes], dict[str, np.ndarray]]) -> None:
    """A flipped bit is noticed, but in a blank of the header that is no content; so is a file cut short."""
    header = 8 + int.from_bytes(data[:8], "little")
    for place in range(len(data)):
        for mask in (0x01, 0x80, 0x29):
            flipped = bytearray(data)
            flipped[place] ^= mask
            try:
                found = decode(bytes(flipped))
            except InputError:
                continue
            assert place < header
            assert bits(found) == bits(TENSORS)
        with pytest.raises(InputError):
            decode(data[:place])


def signed(text: str, name: str = "letter", **metadata: str) -> bytes:
    """A file with the right digest over any text."""
    digest = hashlib.sha256(f"{text}\0{digest_of({})}".encode()).hexdigest()
    data: bytes = safetensors.numpy.save({}, metadata={name: text, "sha256": digest, **metadata})
    return data


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({"kind": "test-post"}, "it is of kind 'test-post', not 'test-letter'"),
        ({"kind": "test-letter", "version": 3}, "a newer srgdqn wrote it: it has version 3 of the format.*up to"),
        ({"kind": "test-letter", "version": 0}, "an older srgdqn wrote it: it has version 0 of the format"),
        ({"kind": "test-letter", "version": True}, "version"),
        ([1], "it is no object"),
        ('{"kind": "test-letter", "kind": "test-letter", "version": 1}', "a name stands twice"),
    ],
)
def test_what_a_stranger_sealed_is_refused_in_words(content: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        unseal(FORM, signed(content if isinstance(content, str) else json.dumps(content)))


class Trap:
    def __reduce__(self) -> Any:
        return pytest.fail, ("code was run",)


def test_what_is_no_sealed_file_is_refused() -> None:
    for data in (safetensors.numpy.save({"a": np.zeros(3)}), encode_parameters({"a": np.zeros(2)})):
        with pytest.raises(InputError, match="it holds tensors, but no letter"):
            unseal(FORM, data)
    with pytest.raises(InputError, match="its digest is not that of its content"):
        unseal(FORM, signed("{}", sha256="0" * 64))
    for data in (b"", b"PK\x03\x04" + b"\0" * 100, (2**63).to_bytes(8, "little") + b"{}", pickle.dumps(Trap())):
        with pytest.raises(InputError, match="not a safetensors file"):
            unseal(FORM, data)


def test_an_older_version_and_numbers_that_are_not_finite_are_read() -> None:
    older = FORM._replace(version=1)
    content = unseal(FORM, seal(older, {"best": -math.inf, "mean": math.nan}, {})[0]).content
    assert (content["version"], content["best"], str(content["mean"])) == (1, -math.inf, "nan")


# Parameters


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"w": np.float32(3)}, "parameter 'w' is a scalar. Give it a first axis for rounds."),
        ({"w": np.array([object()])}, "parameter 'w' has type object. Give one of: bool, "),
        ({"w": np.ones(2), "b": np.ones(3)}, "parameters differ in their number of rounds"),
    ],
)
def test_what_is_no_parameter_is_refused(parameters: dict[str, np.ndarray], said: str) -> None:
    with pytest.raises(InputError) as caught:
        encode_parameters(parameters)
    assert said in str(caught.value)


def test_parameters_of_strangers() -> None:
    data = encode_parameters({"weight": np.ones((2, 3), np.float32)})
    np.testing.assert_array_equal(safetensors.numpy.load(data)["weight"], np.ones((2, 3)))  # others can read it
    with pytest.raises(InputError, match="not a file of parameters"):
        decode_parameters(safetensors.numpy.save({"w": np.ones((2, 3))}))
    with pytest.raises(InputError, match="its digest is not that of its tensors"):
        decode_parameters(data.replace(b"weight", b"height"))


# Agents


def test_an_agent_with_its_rows_is_read_as_it_was_written() -> None:
    rows = np.arange(20.0).reshape(10, 2)
    stream = Stream(4, 10, lambda start, stop: {"row": rows[start:stop]})
    found = decode_agent(encode_agent('task = "x"\n', Snapshot({"word": "ε"}, TENSORS, {"memory.replay": stream})))
    assert (found.configuration, found.about) == ('task = "x"\n', {"word": "ε"})
    assert bits({name: found.tensors[name] for name in TENSORS}) == bits(TENSORS)
    [(name, first, read)] = found.rows()
    assert (name, first, read["row"].tolist()) == ("memory.replay", 4, rows[4:].tolist())


def test_an_agent_whose_rows_make_no_sense_is_refused() -> None:
    content = {"kind": AGENT.kind, "version": AGENT.version, "configuration": "", "about": {}}
    for streams in (None, [], {"memory.replay": 3}, {"memory.replay": [3, 1]}, {"memory.replay": [-1, 1]}):
        with pytest.raises(InputError, match="not the file of an agent"):
            decode_agent(signed(json.dumps({**content, "streams": streams}), "agent"))
    with pytest.raises(InputError, match="are not where they belong"):
        list(decode_agent(signed(json.dumps({**content, "streams": {"memory.replay": [0, 3]}}), "agent")).rows())
