"""Options that are mere numbers, told apart from those that shape the compiled program.

A *number* (a step size, a discount) enters a compiled program as an argument, one value per lane, so that changing it
never compiles anew and a sweep runs the very program of a single run. Everything else is *shape*: it is part of the
program's identity. A settings class marks its numbers where it declares them; nothing else needs to know which.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

Room = TypeVar("Room")


def number(default: float | int | None) -> Any:
    """Declares a dataclass field as a number (None: the option is off, and its being off is shape)."""
    return dataclasses.field(default=default, metadata={"number": True})


def numbers_of(room: Any) -> dict[str, float]:
    """The numbers of one room's settings that are in use, by option name."""
    return {
        field.name: getattr(room, field.name)
        for field in dataclasses.fields(room)
        if field.metadata.get("number") and getattr(room, field.name) is not None
    }


def shape_of(room: Room) -> Room:
    """The same settings with every number set to 0: equal for two settings exactly if one program serves both."""
    return dataclasses.replace(room, **dict.fromkeys(numbers_of(room), 0.0))  # type: ignore[type-var]


def with_numbers(room: Room, numbers: Mapping[str, Any]) -> Room:
    """The settings with their numbers taken from `numbers` (floats, or the traced scalars of one lane)."""
    mine = {name: numbers[name] for name in numbers_of(room)}
    return dataclasses.replace(room, **mine)  # type: ignore[type-var]
