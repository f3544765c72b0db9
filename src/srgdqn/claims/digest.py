"""The hash of what decides: the claims' statistics, the rules, and the margins that the pilot has set."""

from __future__ import annotations

import functools
import hashlib
from importlib import resources

_DECIDES = {
    "srgdqn.claims": ("contrasts.py", "judgement.py", "rules.py", "statements.py"),
    "srgdqn": ("statistics.py",),
    "srgdqn.studies": ("scores.py",),
    "srgdqn.evidence": ("pilot.json",),
}


@functools.cache
def claims_digest() -> str:
    """A digest of the files that decide."""
    digest = hashlib.sha256()
    for package, names in _DECIDES.items():
        for name in names:
            digest.update(f"{package}/{name}".encode() + b"\0")
            digest.update(resources.files(package).joinpath(name).read_bytes() + b"\0")
    return digest.hexdigest()[:16]
