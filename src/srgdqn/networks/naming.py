"""What a network of the user's is called."""

from __future__ import annotations

from typing import Any

from srgdqn.errors import InputError


def name_of(network: Any) -> str:
    """What the user's own network is called in a configuration; never `mlp`, the built-in one's name."""
    if not callable(network):
        raise InputError(
            f"network is {network!r}, which is neither an equinox module nor a function from a random key to one. Give "
            "such a thing, or leave it out for a perceptron with the widths in hidden."
        )
    named = network if hasattr(network, "__qualname__") else type(network)
    return f"{named.__module__}.{named.__qualname__}"
