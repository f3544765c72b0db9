"""A sealed file: arrays as safetensors with JSON beside them, and one digest over all of it.

Safetensors alone would load a flipped byte silently. Opening a sealed file runs no code from it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy

from srgdqn.errors import InputError
from srgdqn.runs import strict_json
from srgdqn.runs.parameters import digest as digest_of_tensors
from srgdqn.runs.parameters import read_tensors

Tensors = dict[str, np.ndarray]


class Form(NamedTuple):
    """What a kind of file says it is; its version is raised when an older release could no longer read it."""

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
    """The bytes of the file, and its digest. `content` is made of JSON values."""
    plain = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    told = json.dumps({"kind": form.kind, "version": form.version, **content}, sort_keys=True)
    digest = _digest(told, plain)
    data: bytes = safetensors.numpy.save(plain, metadata={form.name: told, "sha256": digest})
    return data, digest


def unseal(form: Form, data: bytes) -> Opened:
    """What is in the bytes of a file that `seal` made, if not a bit of it is another one."""
    tensors, metadata = read_tensors(data)
    if form.name not in metadata:
        raise InputError(f"it holds tensors, but no {form.name}")
    digest = _digest(metadata[form.name], tensors)
    if metadata.get("sha256") != digest:
        raise InputError("it is damaged, as its digest is not that of its content")
    content = strict_json.parse(metadata[form.name], finite=False)
    if not isinstance(content, dict):
        raise InputError(f"its {form.name} cannot be read (it is no object)")
    kind, version = content.get("kind"), content.get("version")
    if kind != form.kind:
        raise InputError(f"it is of kind {kind!r}, not {form.kind!r}")
    if type(version) is not int or version > form.version:
        raise InputError(
            f"a newer srgdqn wrote it: it has version {version} of the format, and this one reads up to version "
            f"{form.version}"
        )
    if version < form.oldest:
        raise InputError(
            f"an older srgdqn wrote it: it has version {version} of the format, and this one reads from version "
            f"{form.oldest} on"
        )
    return Opened(content, tensors, digest)


def _digest(told: str, tensors: Tensors) -> str:
    return hashlib.sha256(f"{told}\0{digest_of_tensors(tensors)}".encode()).hexdigest()
