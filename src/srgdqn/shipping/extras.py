"""Packages that only some exports need: asked for before any long work, and told how to get."""

from __future__ import annotations

from importlib.util import find_spec

from srgdqn.errors import InputError


def require(package: str, *, extra: str) -> None:
    """An `InputError` if a package is not installed that an extra of ours brings."""
    if find_spec(package) is None:
        raise InputError(f"this needs the package {package}, which is not installed: pip install 'srgdqn[{extra}]'.")
