"""JSON as this package writes it, and no other: what a stranger could add beyond that is refused.

Whole numbers fit 128 bits (as the states of generators do), the others are finite, no name stands twice in an object,
nesting is shallow, and texts can be printed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NoReturn

from srgdqn.errors import InputError

DEEPEST = 32
"""Lists and objects within each other. A run's manifest has six."""

_MOST_DIGITS = 40


def parse(text: str | bytes, *, finite: bool = True) -> Any:
    """The value of a JSON document; an `InputError` where there is none, or none of ours. `finite` numbers alone are
    wanted of strangers; the state of work under way may have others.
    """
    constant: Callable[[str], float] = _constant if finite else float
    real: Callable[[str], float] = _real if finite else float
    try:
        text = text if isinstance(text, str) else text.decode()  # in UTF-8, of which JSON is not the only choice
        value = json.loads(text, object_pairs_hook=_object, parse_constant=constant, parse_int=_whole, parse_float=real)
    except (ValueError, RecursionError) as error:  # ValueError stands for bytes that are no text, too
        raise InputError(f"not JSON ({error})") from error
    _check(value, DEEPEST)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in an object")
    return found


def _constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError("a whole number has too many digits")
    return int(digits)


def _real(digits: str) -> float:
    if not math.isfinite(value := float(digits)):
        raise ValueError("a number is not finite")
    return value


def _check(value: Any, deeper: int) -> None:
    if isinstance(value, str):
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise InputError("a text in it is none (it has half a character)")
        return
    if isinstance(value, dict | list):
        if not deeper:
            raise InputError(f"not JSON of ours (nested more than {DEEPEST} deep)")
        for part in value:
            _check(part, deeper - 1)
        if isinstance(value, dict):
            for part in value.values():
                _check(part, deeper - 1)
