"""Sealed files: what was put in comes out, and not a bit of it can be another one."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from srgdqn.errors import InputError
from srgdqn.runs.parameters import digest as digest_of_tensors
from srgdqn.runs.digest_file import Form, seal, unseal
from tiny import bits

FORM = Form("letter", "test-letter", 2)
CONTENT = {"to": "Zürich", "pages": [1, 2.5, None, True], "within": {"deep": -(2**100)}}
TENSORS = {
    "numbers": np.arange(6, dtype=np.float32).reshape(2, 3),
    "one": np.array(7, np.int64),
    "none": np.zeros((0, 3), np.uint8),
    "flags": np.array([True, False]),
}
DTYPES = st.sampled_from([np.bool_, np.int8, np.uint32, np.int64, np.float16, np.float32, np.float64])
ARRAYS = hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), ARRAYS, max_size=4))
def test_arrays_of_any_kind_come_back_to_the_bit(tensors: dict[str, np.ndarray]) -> None:
    tensors.pop("__metadata__", None)  # which safetensors keeps for itself
    data, digest = seal(FORM, CONTENT, tensors)
    opened = unseal(FORM, data)
    assert opened.content == {"kind": "test-letter", "version": 2, **CONTENT}
    assert opened.digest == digest
    assert {name: bits(array) for name, array in opened.tensors.items()} == {n: bits(a) for n, a in tensors.items()}


def test_the_layout_in_memory_does_not_matter() -> None:
    table = np.arange(12, dtype=np.float64).reshape(3, 4)
    data, digest = seal(FORM, {}, {"a": table[::-1].T})
    assert digest == seal(FORM, {}, {"a": np.ascontiguousarray(table[::-1].T)})[1]
    assert unseal(FORM, data).tensors["a"].tolist() == table[::-1].T.tolist()


def test_what_is_not_finite_may_be_told_of() -> None:
    content = unseal(FORM, seal(FORM, {"best": -math.inf, "mean": math.nan}, {})[0]).content
    assert content["best"] == -math.inf
    assert math.isnan(content["mean"])


def test_every_byte_counts() -> None:
    """A byte that is another one is noticed, but where it is a blank that is no content."""
    data, digest = seal(FORM, CONTENT, TENSORS)
    header = 8 + int.from_bytes(data[:8], "little")
    ignored = []
    for place in range(len(data)):
        for mask in (0x01, 0x80, 0x29):
            flipped = bytearray(data)
            flipped[place] ^= mask
            try:
                opened = unseal(FORM, bytes(flipped))
            except InputError:
                continue
            assert opened.digest == digest
            assert opened.content == {"kind": "test-letter", "version": 2, **CONTENT}
            assert bits(opened.tensors) == bits(TENSORS)
            ignored.append(place)
    assert all(place < header for place in ignored)
    for length in range(len(data)):
        with pytest.raises(InputError):
            unseal(FORM, data[:length])


def test_files_with_as_much_in_other_places_have_other_digests() -> None:
    assert seal(FORM, {"a": 1}, {})[1] != seal(FORM, {"a": 2}, {})[1]
    assert seal(FORM, {}, {"a": np.zeros(4)})[1] != seal(FORM, {}, {"a": np.zeros((2, 2))})[1]
    assert seal(FORM, {}, {"a": np.zeros(4)})[1] != seal(FORM, {}, {"b": np.zeros(4)})[1]
    assert seal(FORM, {}, {"a": np.zeros(4, np.int64)})[1] != seal(FORM, {}, {"a": np.zeros(4)})[1]
    assert seal(FORM, {}, {})[1] != seal(FORM._replace(kind="other"), {}, {})[1]


def handmade(told: str, tensors: dict[str, np.ndarray], **metadata: str) -> bytes:
    """A file with the right digest over any text."""
    digest = hashlib.sha256(f"{told}\0{digest_of_tensors(tensors)}".encode()).hexdigest()
    data: bytes = safetensors.numpy.save(tensors, metadata={"letter": told, "sha256": digest, **metadata})
    return data


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"kind": "test-post"}, "it is of kind 'test-post', not 'test-letter'"),
        ({"kind": None}, "it is of kind None"),
        ({"kind": "test-letter", "version": 3}, "a newer srgdqn wrote it: it has version 3 of the format.*up to"),
        ({"kind": "test-letter", "version": "1"}, "version"),
        ({"kind": "test-letter", "version": True}, "version"),
        ({"kind": "test-letter"}, "version None"),
        ([1], "it is no object"),
        ('{"kind": "test-letter", "kind": "test-letter", "version": 1}', "a name stands twice"),
        ("{", "not JSON"),
        ("[" * 200_000, "not JSON"),
        ('{"kind": "test-letter", "version": ' + "9" * 5000 + "}", "too many digits"),
    ],
)
def test_what_a_stranger_sealed_is_refused_in_words(told: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        unseal(FORM, handmade(told if isinstance(told, str) else json.dumps(told), {}))


def test_an_older_version_is_read() -> None:
    assert unseal(FORM, seal(FORM._replace(version=1), CONTENT, {})[0]).content["version"] == 1


def test_what_is_no_sealed_file_is_refused() -> None:
    with pytest.raises(InputError, match="no letter"):
        unseal(FORM, safetensors.numpy.save({"a": np.zeros(3)}))
    with pytest.raises(InputError, match="its digest is not that of its content"):
        unseal(FORM, safetensors.numpy.save({"a": np.zeros(3)}, metadata={"letter": "{}"}))
    with pytest.raises(InputError, match="its digest is not that of its content"):
        unseal(FORM, handmade("{}", {}, sha256="0" * 64))
    for data in (b"", b"\0" * 8, b"PK\x03\x04" + b"\0" * 100, (2**63).to_bytes(8, "little") + b"{}"):
        with pytest.raises(InputError, match="not a safetensors file"):
            unseal(FORM, data)
