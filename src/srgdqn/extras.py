"""Packages that only some need: asked for before any long work, and told how to get."""

from __future__ import annotations

from importlib.util import find_spec

from srgdqn.errors import InputError


def require(package: str, extra: str, purpose: str) -> None:
    """An `InputError` if a package is not installed that an extra of ours brings."""
    found = find_spec(package)
    if found is None or found.origin is None:  # a mere folder of that name has no origin
        raise InputError(f"{purpose} needs {package}, which is not installed. Run: pip install 'srgdqn[{extra}]'.")
