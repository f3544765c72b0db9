"""What an environment is learned with where nobody says otherwise."""

from __future__ import annotations

from typing import Any

from srgdqn.host.environments import Source, close
from srgdqn.host.spaces import is_image, space_of
from srgdqn.presets import host_preset


def defaults_for(source: Source, environments: Any = None) -> dict[str, Any]:
    """The options of an environment: its preset if it has one, and else what suits what it shows. Of so many
    `environments` side by side, a block has as many steps as the preset's, or the next number that they can share.
    """
    environment = source.given if source.given is not None else source.fresh()
    try:
        preset = host_preset(source.name, images=is_image(space_of(environment, "observation")))
    finally:
        if source.given is None:
            close(environment, source.name)
    if isinstance(environments, int) and environments > 0:
        preset["learning_frequency"] = -(-preset["learning_frequency"] // environments) * environments
    return preset
