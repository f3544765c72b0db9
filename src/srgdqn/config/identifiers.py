"""Ids of Gymnasium's environments, with the options that one is made with: `LunarLander-v3,enable_wind=true`.

An environment that was changed in ways that options cannot express has a name that is no id, `CartPole-v1 (as given)`,
as no other process could make it from that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from srgdqn.errors import InputError

_AS_GIVEN = " (as given)"


def is_identifier(task: str) -> bool:
    """Whether a name has the form of a Gymnasium id, which none of the compiled tasks has.

    >>> is_identifier("CartPole-v1"), is_identifier("ALE/Pong-v5,difficulty=1"), is_identifier("CartPole")
    (True, True, False)
    """
    return _AS_GIVEN not in task and re.search(r"-v\d+(,|$)|[/:]", task) is not None


def plain(identifier: str) -> str:
    """The id without the module that registers it and without options.

    >>> plain("a_module:LunarLander-v3,enable_wind=true")
    'LunarLander-v3'
    """
    return identifier.removesuffix(_AS_GIVEN).partition(",")[0].rpartition(":")[2]


def as_given(identifier: str) -> str:
    """The name of an environment of that id which no id can make."""
    return identifier + _AS_GIVEN


def options_of(identifier: str) -> dict[str, Any]:
    """The options in an id: values are JSON's, or words as they are.

    >>> options_of("FrozenLake-v1,map_name=8x8,is_slippery=false")
    {'map_name': '8x8', 'is_slippery': False}
    """
    options: dict[str, Any] = {}
    for part in identifier.split(",")[1:]:
        name, equals, value = part.partition("=")
        if not (equals and name.isidentifier()) or name in options:
            problem = "is given twice" if name in options else "is no option"
            raise InputError(
                f"in the environment {identifier!r}, {part!r} {problem}. Write options after the id as name=value, "
                "with commas between them and no spaces: 'LunarLander-v3,enable_wind=true,wind_power=10'."
            )
        options[name] = _read(value)
    return options


def with_options(identifier: str, options: Mapping[str, Any]) -> str | None:
    """The id with options; None where a value cannot be written so that it is read again.

    >>> with_options("LunarLander-v3", {"enable_wind": True, "wind_power": 10.0})
    'LunarLander-v3,enable_wind=true,wind_power=10.0'
    """
    parts = [identifier]
    for name, value in options.items():
        try:
            text = value if isinstance(value, str) else json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            return None
        if "," in text or type(_read(text)) is not type(value) or _read(text) != value:
            return None
        parts.append(f"{name}={text}")
    return ",".join(parts)


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
