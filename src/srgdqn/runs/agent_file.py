"""A saved agent: one sealed file with everything that it is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from srgdqn.errors import InputError
from srgdqn.runs.digest_file import Form, seal, unseal

AGENT = Form("agent", "srgdqn-agent", 1)


class SavedAgent(NamedTuple):
    """What is in the file."""

    tensors: dict[str, np.ndarray]
    configuration: str  # as TOML
    about: dict[str, Any]  # JSON values: the task, the provenance, where the agent stands


def encode(agent: SavedAgent) -> bytes:
    """The bytes of the file."""
    data, _ = seal(AGENT, {"configuration": agent.configuration, "about": agent.about}, agent.tensors)
    return data


def decode(data: bytes) -> SavedAgent:
    """What is in the bytes of a file that `encode` wrote, if not a bit of it is another one. Runs no code from it."""
    content, tensors, _ = unseal(AGENT, data)
    configuration, about = content.get("configuration"), content.get("about")
    if not isinstance(configuration, str) or not isinstance(about, dict):
        raise InputError("its content is not that of an agent")
    return SavedAgent(tensors, configuration, about)
