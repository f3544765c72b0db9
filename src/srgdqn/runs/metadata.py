"""What a run or an agent tells of itself beside its configuration: of the right types, wherever it comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from srgdqn.errors import InputError, shown

# No count of anything is larger: they are 32 bits wide where they are used.
_LARGEST = 2**31 - 1

NUMBER_TYPES = frozenset({"bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))}) | {
    "float16",
    "float32",
    "float64",
}
"""What the numbers in an action may be."""


def check_metadata(about: Mapping[str, Any]) -> None:
    """An `InputError` if something that is told is not of its kind; what is not told is not asked for."""
    for name, (holds, kind) in _KINDS.items():
        if name in about and not holds(about[name]):
            raise InputError(f"its {name} is {shown(about[name])}, which is not {kind}")


def required(about: Mapping[str, Any], name: str) -> Any:
    """What is told under a name; an `InputError` where nothing is."""
    if name not in about:
        raise InputError(f"this run does not tell its {name}, so that no policy can be made of it. Train it again.")
    return about[name]


def is_count(value: Any, least: int = 0) -> bool:
    """Whether it is a whole number that can count something."""
    return type(value) is int and least <= value <= _LARGEST


def _is_positive(value: Any) -> bool:
    return is_count(value, 1)


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= 8 and all(map(_is_positive, value))


def _is_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _are_versions(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


def _are_inputs(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(part, dict) for part in _code(value).values())


def _code(inputs: dict[str, Any]) -> dict[str, Any]:
    code = inputs.get("user_code", {})
    return code if isinstance(code, dict) else {"user_code": code}


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "observation_size": (_is_positive, "a number of numbers"),
    "observation_kind": (_is_text, "a name"),
    "observation_shape": (_is_shape, "a shape"),
    "observations": (lambda value: isinstance(value, dict), "an object"),
    "actions": (_is_positive, "a number of actions"),
    "action_type": (lambda value: _is_text(value) and value in (None, *NUMBER_TYPES), "a type of numbers"),
    "action_table": (lambda value: isinstance(value, list) and len(value) > 0, "a list of actions"),
    "evaluation_limit": (_is_positive, "a number of steps"),
    "interrupted": (lambda value: isinstance(value, bool), "true or false"),
    "versions": (_are_versions, "names and versions"),
    "inputs": (_are_inputs, "an object that tells of parts"),
    "instruction_sets": (_are_texts, "a list of names"),
    **dict.fromkeys(("computation", "system", "machine", "processor", "precision", "backend"), (_is_text, "a text")),
}
