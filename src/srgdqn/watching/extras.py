"""Packages that are needed only by those who ask for them."""

from __future__ import annotations

from importlib.util import find_spec

from srgdqn.errors import InputError


def require(package: str, extra: str, purpose: str) -> None:
    """An `InputError` if a package of an extra is not installed."""
    found = find_spec(package)
    if found is None or found.origin is None:  # a mere folder of that name has no origin
        raise InputError(f"{purpose} needs {package}, which is not installed. Run: pip install 'srgdqn[{extra}]'.")
