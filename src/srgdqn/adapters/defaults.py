"""The options that an environment is trained with where the user gives no others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from srgdqn.config.presets import host_preset, known_defaults

if TYPE_CHECKING:
    from srgdqn.adapters.environments import Source


def defaults_of(task: str) -> dict[str, Any]:
    """The options that a task's name stands for. Help on a known one needs neither Gymnasium nor an extra."""
    known = known_defaults(task)
    if known is not None:
        return known
    from srgdqn.adapters.environments import source_of

    return defaults_for(source_of(task))


def defaults_for(source: Source) -> dict[str, Any]:
    """The options of an environment: its preset if it has one, or those that suit its observations."""
    from srgdqn.adapters.environments import close
    from srgdqn.adapters.spaces import is_image, space_of

    environment = source.given if source.given is not None else source.fresh()
    try:
        return host_preset(source.name, images=is_image(space_of(environment, "observation")))
    finally:
        if source.given is None:
            close(environment, source.name)
