"""What a result was computed from, and its hash: the configuration, and the identity of the user's own code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from srgdqn.config import Configuration
from srgdqn.runs import configurations

_LENGTH = 16  # letters of a digest


def inputs_of(configuration: Configuration, user_code: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The inputs of a run, as JSON values: the digest of its configuration, the identity of the user's code by part
    (`runs.user_code`), and the `digest` of both.
    """
    text = configurations.dumps(configuration)
    return hashed({"configuration": digest_of_bytes(text.encode()), "user_code": dict(user_code or {})})


def hashed(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs that are JSON values, with the digest of all of them."""
    return {"digest": digest_of_bytes(json.dumps(inputs, sort_keys=True).encode()), **inputs}


def digest_of_bytes(data: bytes) -> str:
    """The digest by which inputs are told apart."""
    return hashlib.sha256(data).hexdigest()[:_LENGTH]
