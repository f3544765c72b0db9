"""Arrays as safetensors with a digest, as the format alone would load a flipped byte silently.

A run's parameters are such a file. Checkpoints and agents are *sealed* files: arrays with JSON beside them, and one
digest over all of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy

from srgdqn.errors import InputError
from srgdqn.runs.untrusted import parse_json, read_tensors

Tensors = dict[str, np.ndarray]

_DTYPES = frozenset({"bool", *(f"{kind}{bits}" for kind in ("int", "uint", "float") for bits in (16, 32, 64))})


def digest_of(tensors: Mapping[str, np.ndarray]) -> str:
    """SHA-256 over names, types, shapes and values, in the order of names."""
    total = hashlib.sha256()
    for name, array in sorted(tensors.items()):
        header = json.dumps([name, array.dtype.str, array.shape, array.nbytes]).encode()
        total.update(len(header).to_bytes(8, "little") + header)
        # The bytes themselves, not a copy of them.
        total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def encode_parameters(parameters: Mapping[str, Any]) -> bytes:
    """The bytes of the file of a run's parameters. Every array has the round axis first."""
    tensors = {name: _plain(name, array) for name, array in parameters.items()}
    rounds = {name: array.shape[0] for name, array in tensors.items()}
    if len(set(rounds.values())) > 1:
        raise InputError(
            f"parameters differ in their number of rounds, {rounds}. Give all of them the same first axis."
        )
    data: bytes = safetensors.numpy.save(tensors, metadata={"sha256": digest_of(tensors)})
    return data


def decode_parameters(data: bytes) -> Tensors:
    """The parameters in the bytes that `encode_parameters` gave."""
    tensors, metadata = read_tensors(data, "file of parameters")
    if "sha256" not in metadata:
        raise InputError("not a file of parameters (it has no digest)")
    if metadata["sha256"] != digest_of(tensors):
        raise InputError("its digest is not that of its tensors")
    for name, array in tensors.items():
        if array.dtype.name not in _DTYPES or array.ndim == 0:
            raise InputError(f"its parameter {name!r} is {array.dtype.name} of shape {array.shape}, as no parameter is")
    if len({len(array) for array in tensors.values()}) > 1:
        raise InputError("its parameters differ in their number of rounds")
    return tensors


def _plain(name: str, array: Any) -> np.ndarray:
    """The array in C order and little-endian, as safetensors writes bytes without a look at strides."""
    array = np.asarray(array)
    if array.dtype.name not in _DTYPES:
        raise InputError(f"parameter {name!r} has type {array.dtype.name}. Give one of: {', '.join(sorted(_DTYPES))}.")
    if array.ndim == 0:
        raise InputError(f"parameter {name!r} is a scalar. Give it a first axis for rounds.")
    return np.array(array, dtype=array.dtype.newbyteorder("<"), order="C")


class Form(NamedTuple):
    """What a kind of sealed file says it is; its version is raised when an older release could no longer read it."""

    name: str  # what its content is called in the file
    kind: str
    version: int
    oldest: int = 1  # version that is still read


class Opened(NamedTuple):
    """What is in a sealed file."""

    content: dict[str, Any]
    tensors: Tensors
    digest: str  # of all of it


def seal(form: Form, content: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> tuple[bytes, str]:
    """The bytes of a sealed file, and its digest. `content` is made of JSON values."""
    plain = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    text = json.dumps({"kind": form.kind, "version": form.version, **content}, sort_keys=True)
    digest = _digest(text, plain)
    data: bytes = safetensors.numpy.save(plain, metadata={form.name: text, "sha256": digest})
    return data, digest


def unseal(form: Form, data: bytes) -> Opened:
    """What is in the bytes that `seal` gave, if not a bit of them differs."""
    tensors, metadata = read_tensors(data)
    if form.name not in metadata:
        raise InputError(f"it holds tensors, but no {form.name}")
    digest = _digest(metadata[form.name], tensors)
    if metadata.get("sha256") != digest:
        raise InputError("it is damaged, as its digest is not that of its content")
    content = parse_json(metadata[form.name], finite=False)
    if not isinstance(content, dict):
        raise InputError(f"its {form.name} cannot be read (it is no object)")
    kind, version = content.get("kind"), content.get("version")
    if kind != form.kind:
        raise InputError(f"it is of kind {kind!r}, not {form.kind!r}")
    if type(version) is not int or not form.oldest <= version <= form.version:
        older = type(version) is int and version < form.oldest
        reads = f"from version {form.oldest} on" if older else f"up to version {form.version}"
        raise InputError(
            f"{'an older' if older else 'a newer'} srgdqn wrote it: it has version {version} of the format, and this "
            f"one reads {reads}"
        )
    return Opened(content, tensors, digest)


def _digest(text: str, tensors: Tensors) -> str:
    return hashlib.sha256(f"{text}\0{digest_of(tensors)}".encode()).hexdigest()
