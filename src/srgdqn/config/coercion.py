"""Values as users write them, in Python, TOML or on a command line, converted to the types that options declare."""

from __future__ import annotations

import functools
import numbers
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from srgdqn.config.estimator_numbers import every_number, is_number
from srgdqn.config.options import Configuration, option_names, sections
from srgdqn.config.other_names import unknown_option
from srgdqn.errors import InputError, shown, unknown

# Compiled programs compute in single precision: what is finite only in double precision would be infinite there.
LARGEST_NUMBER = 2.0**128 - 2.0**104


def coerce(name: str, value: Any) -> Any:
    """The value in the declared type of the option: lists become tuples, integers floats, "none" None.

    >>> coerce("hidden", [20, 20]), coerce("eta", 1), coerce("time_limit", "none")
    ((20, 20), 1.0, None)
    """
    return _convert(name, value, annotation_of(name))


def coerce_number(name: str, value: Any) -> float:
    """The value of a number of an estimator that need not be known here: whole numbers stay whole."""
    number = _float(name, value)
    return int(value) if _is_whole(value) else number


def check_name(kind: str, name: Any) -> None:
    """An `InputError` if the name of a task, an algorithm or a set of readings is no string."""
    if not isinstance(name, str):
        raise InputError(f"{kind} is {shown(name)}, which is not a name. Give a string.")


def literal(text: str) -> int | float | str:
    """The number or string that a word of a command line stands for, whichever option it is for.

    >>> literal("16"), literal("1e-3"), literal("linear")
    (16, 0.001, 'linear')
    """
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def annotation_of(name: str) -> Any:
    """The type of an option, which may be a number that some known estimator has of its own."""
    annotations = option_annotations()
    if name in annotations:
        return annotations[name]
    if not is_number(name):
        raise unknown_option(name, {**annotations, **every_number()})
    return every_number()[name]


@functools.cache
def option_annotations() -> dict[str, Any]:
    """Every option's annotation, resolved."""
    homes = get_type_hints(Configuration)
    hints = {name: hint for section in sections() for name, hint in get_type_hints(homes[section]).items()}
    return {name: hints[name] for name in option_names()}


def _convert(name: str, value: Any, annotation: Any) -> Any:
    alternatives = get_args(annotation)
    if get_origin(annotation) is Literal:
        return _choice(name, value, alternatives)
    if get_origin(annotation) is tuple:
        return _widths(name, value)
    if NoneType in alternatives:
        if value is None or (isinstance(value, str) and value == "none"):
            return None
        (present,) = (alternative for alternative in alternatives if alternative is not NoneType)
        return _convert(name, value, present)
    return _PLAIN[annotation](name, value)


def _choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in choices:
        raise unknown(name, value, choices)
    return value


def _widths(name: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, (tuple, list)):
        example = f"[{shown(value)}]" if _is_whole(value) else "[20, 20]"
        raise _wrong(name, value, "a list of whole numbers", f"Write {name} = {example}.")
    return tuple(_integer(name, width) for width in value)


def _integer(name: str, value: Any) -> int:
    if not _is_whole(value):
        whole = _is_real(value) and float(value).is_integer()
        fix = f"Write it as {int(value)}." if whole else "Write it in digits alone, such as 16."
        raise _wrong(name, value, "a whole number", fix)
    return int(value)


def _float(name: str, value: Any) -> float:
    if not _is_real(value):
        raise _wrong(name, value, "a number", "Write it without quotes, such as 0.01.")
    if not -LARGEST_NUMBER <= value <= LARGEST_NUMBER:
        raise _wrong(name, value, "a finite number in single precision", "Give one below 3.4e38, such as 0.01.")
    return float(value)


def _boolean(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(name, value, "true or false", "Write true or false without quotes (True or False in Python).")
    return value


def _string(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise _wrong(name, value, "a name", "Give a string of one or more printable characters.")
    return str(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_real(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _wrong(name: str, value: Any, expected: str, fix: str) -> InputError:
    return InputError(f"{name} is {shown(value)}, which is not {expected}. {fix}")


_PLAIN = {int: _integer, float: _float, bool: _boolean, str: _string}
