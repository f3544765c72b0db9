"""What a network is called: a built-in one by its name, the user's own by its module's."""

from __future__ import annotations

from typing import Any

from srgdqn.config.options import BUILT_IN_NETWORKS
from srgdqn.errors import InputError


def named(network: Any) -> tuple[dict[str, str], Any]:
    """The option that a network's name is (none if none was given), and the user's own network, if it is one."""
    if network is None:
        return {}, None
    if isinstance(network, str) and network in BUILT_IN_NETWORKS:
        return {"network": network}, None
    if not callable(network):
        raise InputError(
            f"network is {network!r}, which is neither an equinox module, nor a function from a random key to one, nor "
            f"one of {', '.join(BUILT_IN_NETWORKS)}. Give such a thing, or leave it out."
        )
    its = network if hasattr(network, "__qualname__") else type(network)
    return {"network": f"{its.__module__}.{its.__qualname__}"}, network
