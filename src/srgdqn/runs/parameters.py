"""Parameters as safetensors, with a digest of their own: the format itself would load a flipped byte silently."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors.numpy

from srgdqn.errors import InputError
from srgdqn.runs import strict_json

Parameters = dict[str, np.ndarray]

_DTYPES = frozenset({"bool", *(f"{kind}{bits}" for kind in ("int", "uint", "float") for bits in (16, 32, 64))})


def encode(parameters: Mapping[str, Any]) -> bytes:
    """The bytes of a safetensors file. Every array has the round axis first."""
    tensors = {name: _plain(name, array) for name, array in parameters.items()}
    rounds = {name: array.shape[0] for name, array in tensors.items()}
    if len(set(rounds.values())) > 1:
        raise InputError(
            f"parameters differ in their number of rounds, {rounds}. Give all of them the same first axis."
        )
    data: bytes = safetensors.numpy.save(tensors, metadata={"sha256": digest(tensors)})
    return data


def decode(data: bytes) -> Parameters:
    """The parameters in the bytes of a safetensors file that `encode` wrote."""
    tensors, metadata = read_tensors(data, "file of parameters")
    if "sha256" not in metadata:
        raise InputError("not a file of parameters (it has no digest)")
    if metadata["sha256"] != digest(tensors):
        raise InputError("its digest is not that of its tensors")
    for name, array in tensors.items():
        if array.dtype.name not in _DTYPES or array.ndim == 0:
            raise InputError(f"the parameter {name!r} is {array.dtype.name} of shape {array.shape}, which none is")
    if len({len(array) for array in tensors.values()}) > 1:
        raise InputError("its parameters differ in their number of rounds")
    return tensors


def read_tensors(data: bytes, what: str = "safetensors file") -> tuple[Parameters, dict[str, str]]:
    """The arrays in the bytes of a safetensors file, which are no more than its bytes, and the texts beside them."""
    try:
        size = int.from_bytes(data[:8], "little")
        header = strict_json.parse(data[8 : 8 + size])
        tensors: Parameters = safetensors.numpy.load(data)
        metadata = header.get("__metadata__") or {}
    except Exception as error:  # whatever the parser stumbles over, it is the file that is wrong
        raise InputError(f"not a {what} ({error})") from error
    for name, array in tensors.items():
        if array.dtype.kind not in "biuf":
            raise InputError(f"{name!r} is {array.dtype.name}, which no array of ours is")
    return tensors, metadata


def digest(tensors: Parameters) -> str:
    """SHA-256 over names, types, shapes and values, in the order of names."""
    total = hashlib.sha256()
    for name, array in sorted(tensors.items()):
        header = json.dumps([name, array.dtype.str, array.shape, array.nbytes]).encode()
        total.update(len(header).to_bytes(8, "little") + header)
        # The bytes themselves, not a copy of them.
        total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def _plain(name: str, array: Any) -> np.ndarray:
    """The array in C order and little-endian, as safetensors writes bytes without a look at strides."""
    array = np.asarray(array)
    if array.dtype.name not in _DTYPES:
        raise InputError(f"parameter {name!r} has type {array.dtype.name}. Give one of: {', '.join(sorted(_DTYPES))}.")
    if array.ndim == 0:
        raise InputError(f"parameter {name!r} is a scalar. Give it a first axis for rounds.")
    return np.array(array, dtype=array.dtype.newbyteorder("<"), order="C")
