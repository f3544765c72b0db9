"""A saved agent: one safetensors file with everything that it is, and a digest over all of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy

from srgdqn.errors import InputError
from srgdqn.store.parameters import digest as digest_of_tensors

KIND, VERSION = "srgdqn-agent", 1
"""What the file says it is; the version is raised when an older release could no longer read what is written."""


class SavedAgent(NamedTuple):
    """What is in the file."""

    tensors: dict[str, np.ndarray]
    configuration: str  # as TOML
    about: dict[str, Any]  # JSON values: the task, the provenance, where the agent stands


def encode(agent: SavedAgent) -> bytes:
    """The bytes of the file."""
    tensors = {name: np.array(array, order="C") for name, array in agent.tensors.items()}
    content = json.dumps(
        {"kind": KIND, "version": VERSION, "configuration": agent.configuration, "about": agent.about}, sort_keys=True
    )
    data: bytes = safetensors.numpy.save(tensors, metadata={"agent": content, "sha256": _digest(content, tensors)})
    return data


def decode(data: bytes) -> SavedAgent:
    """What is in the bytes of a file that `encode` wrote, if not a bit of it is another one. Runs no code from it."""
    try:
        tensors: dict[str, np.ndarray] = safetensors.numpy.load(data)
        size = int.from_bytes(data[:8], "little")
        metadata = json.loads(data[8 : 8 + size]).get("__metadata__") or {}
    except Exception as error:  # whatever the parser stumbles over, it is the file that is wrong
        raise InputError(f"not a safetensors file ({error})") from error
    if "agent" not in metadata:
        raise InputError("it holds tensors, but no agent")
    if metadata.get("sha256") != _digest(metadata["agent"], tensors):
        raise InputError("its digest is not that of its content")
    content = json.loads(metadata["agent"])
    if content["kind"] != KIND:
        raise InputError(f"it is of kind {content['kind']!r}, not {KIND!r}")
    if content["version"] > VERSION:
        raise InputError(
            f"a newer srgdqn wrote it: it has version {content['version']} of the format, and this one reads up to "
            f"version {VERSION}"
        )
    return SavedAgent(tensors, content["configuration"], content["about"])


def _digest(content: str, tensors: Mapping[str, np.ndarray]) -> str:
    return hashlib.sha256(f"{content}\0{digest_of_tensors(dict(tensors))}".encode()).hexdigest()
