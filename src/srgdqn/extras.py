"""Optional packages: checked before any long work, with how to install them."""

from __future__ import annotations

from importlib.util import find_spec

from srgdqn.errors import InputError


def require(package: str, extra: str, purpose: str) -> None:
    """An `InputError` if a package is not installed that one of our extras brings."""
    found = find_spec(package)
    if found is None or found.origin is None:  # a mere folder of that name has no origin
        raise InputError(f"{purpose} needs {package}, which is not installed. Run: pip install 'srgdqn[{extra}]'.")
