"""What an environment is learned with where nobody says otherwise."""

from __future__ import annotations

from typing import Any

from srgdqn.adapters.environments import Source, close
from srgdqn.adapters.spaces import is_image, space_of
from srgdqn.config.presets import host_preset


def defaults_for(source: Source) -> dict[str, Any]:
    """The options of an environment: its preset if it has one, and else what suits what it shows."""
    environment = source.given if source.given is not None else source.fresh()
    try:
        return host_preset(source.name, images=is_image(space_of(environment, "observation")))
    finally:
        if source.given is None:
            close(environment, source.name)
