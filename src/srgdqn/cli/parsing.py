"""Words of a command line as an instance of the command's dataclass; whatever is wrong with them as an `InputError`.

A refusal is a line that names what was given, what is expected, and the nearest name.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import math
import re
from collections.abc import Container, Iterable, Iterator, Sequence, Set
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from srgdqn.config.coercion import literal, option_annotations
from srgdqn.config.estimator_numbers import every_number, is_number
from srgdqn.config.other_names import answer
from srgdqn.errors import InputError, unknown
from srgdqn.sweeps.grid import read_value

_LARGEST = 2**31 - 1
_NOT_ON_THE_COMMAND_LINE = ("task", "network")  # a positional name, and what only Python can give

Form = TypeVar("Form")


class Arg(NamedTuple):
    """Annotates a field of a command's dataclass with what its type does not say.

    A field of type dict takes the options of a configuration; one that is a dataclass is a group of options.
    """

    metavar: str | None = None  # what stands for its value in help
    default: str | None = None  # in words, where it is no value
    help: str | None = None  # where no docstring can stand below the field
    least: float = 0  # of a number
    positional: bool = False
    names: tuple[str, ...] = ()  # that completion suggests, and help lists; others may be given
    repeated: bool = False  # one word after each occurrence of the option, rather than several after the last


def parse(form: type[Form], words: Sequence[str], *, several: bool = False) -> Form:
    """The words as an instance of a command's dataclass; of a configuration's options it has those that were given.
    `several`: these are words in the form that a sweep reads, any number of them.
    """
    command = form.__name__.lower()
    if wants_help(words):
        from srgdqn.cli.help import print_help

        print_help(form)
        raise SystemExit(0)
    own = own_options(form)
    positional = {name: kind for name, (kind, arg) in own.items() if arg.positional}
    options = _options_for(words, own) if any(is_configuration(kind) for _, kind, _ in fields_of(form)) else {}
    kinds = {name: kind for name, (kind, _) in own.items() if name not in positional}
    kinds |= dict.fromkeys(options, tuple[str, ...]) if several else options
    given, rest = _split(kinds, words, command, {name for name, (_, arg) in own.items() if arg.repeated})
    values = {name: _value(name, given[name], *own[name]) for name in own if name in given}
    values |= _positional_values(positional, rest, command)
    chosen = {name: given[name] if several else _option(name, given[name]) for name in options if name in given}
    return _built(form, values, chosen)


def as_text(value: Any) -> str:
    """A value as a command line has it."""
    return "none" if value is None else " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def wants_help(words: Sequence[str]) -> bool:
    """Whether help is among the words."""
    return any(word in ("-h", "--help") for word in words)


def own_options(form: Any) -> dict[str, tuple[Any, Arg]]:
    """The options of a command and of the groups nested in it, by name: the type, and what it does not say."""
    found: dict[str, tuple[Any, Arg]] = {}
    for name, kind, arg in fields_of(form):
        if not is_configuration(kind):
            found |= own_options(kind) if dataclasses.is_dataclass(kind) else {name: (kind, arg)}
    return found


def is_configuration(kind: Any) -> bool:
    """Whether a field of this type takes the options of a configuration."""
    return get_origin(kind) is dict


def configuration_options() -> dict[str, Any]:
    """The options of a configuration that can be given on a command line, and their types."""
    return {name: kind for name, kind in option_annotations().items() if name not in _NOT_ON_THE_COMMAND_LINE}


def _options_for(words: Sequence[str], others: Container[str]) -> dict[str, Any]:
    """The options of a configuration, and every number that an estimator has of its own; packages whose estimators may
    have one that is among the words are imported.
    """
    options = configuration_options()
    for word in words:
        name = word[2:].partition("=")[0].replace("-", "_")
        if word.startswith("--") and not any(each in options or each in others for each in _spellings(name)):
            is_number(name)
    return options | every_number()


def _spellings(name: str) -> tuple[str, ...]:
    return name, f"{name}_", name.removeprefix("no_")


def alternatives(kind: Any) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    """The types that a value may have, and the words that it may be."""
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return kinds, tuple(word for each in kinds if get_origin(each) is Literal for word in get_args(each))


def fields_of(form: Any) -> Iterator[tuple[str, Any, Arg]]:
    """The fields of a command's dataclass, or of a group: name, type, and what that does not say."""
    for name, hint in get_type_hints(form, include_extras=True).items():
        kind, arg = get_args(hint) if get_origin(hint) is Annotated else (hint, Arg())
        yield name, kind, arg


def _built(form: Any, values: dict[str, Any], options: dict[str, Any]) -> Any:
    given = {}
    for name, kind, _ in fields_of(form):
        if is_configuration(kind):
            given[name] = options
        elif dataclasses.is_dataclass(kind):
            given[name] = _built(kind, values, options)
        elif name in values:
            given[name] = values[name]
    return form(**given)


def _split(
    kinds: dict[str, Any], words: Sequence[str], command: str, repeated: Set[str]
) -> tuple[dict[str, Any], list[str]]:
    """The words of each option that was given (or whether a flag is set), and the words that belong to none."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name, kind in kinds.items():
        how: dict[str, Any] = {"nargs": "*" if _is_list(kind) else 1}
        if kind is bool:
            how = {"action": argparse.BooleanOptionalAction}
        if name in repeated:
            how = {"action": "append"}
        parser.add_argument(flag(name), f"--{name.rstrip('_')}", dest=name, default=argparse.SUPPRESS, **how)
    try:
        given, rest = parser.parse_known_args(words)
    except argparse.ArgumentError as error:
        option = str(error.argument_name).partition("/")[0]
        raise InputError(f"{option}: {error.message}. 'srgdqn {command} --help' shows what can be given.") from error
    for word in rest:
        if re.match(r"--?[^\W\d]", word):
            raise _unknown_option(word.partition("=")[0], kinds, command)
    return vars(given), rest


def flag(name: str) -> str:
    """The option of a field; one that is a word of Python's own has an underscore at its end."""
    return f"--{name.rstrip('_').replace('_', '-')}"


def _is_list(kind: Any) -> bool:
    return any(get_origin(each) is tuple for each in alternatives(kind)[0])


def _value(name: str, words: Any, kind: Any, arg: Arg) -> Any:
    """The value that the words of a command's own option stand for."""
    if kind is bool:
        return words
    if _is_list(kind):
        return tuple(words)
    (word,) = words
    kinds, choices = alternatives(kind)
    if word in choices or str in kinds:
        return word
    if Path in kinds:
        return Path(word)
    if int in kinds:
        return _whole(flag(name), word, arg.least, choices)
    if float in kinds:
        return _number(flag(name), word) if arg.least < 0 else _seconds(flag(name), word)
    raise unknown(f"value of {flag(name)},", word, choices)


def _option(name: str, words: Any) -> Any:
    """The value that the words of an option of a configuration stand for."""
    return words if isinstance(words, bool) else read_value(name, "+".join(words) or "none")


def _whole(option: str, word: str, least: float, others: Sequence[str]) -> int:
    try:
        value = int(word)
    except ValueError:
        other = f", or write {others[0]}" if others else ""
        raise InputError(f"{option} is {word!r}, which is not a whole number. Write it in digits{other}.") from None
    if not least <= value <= _LARGEST:
        raise InputError(f"{option} is {value}, but must be a whole number from {least} to {_LARGEST}.")
    return value


def _number(option: str, word: str) -> float:
    value = literal(word)
    if isinstance(value, str) or not math.isfinite(value):
        raise InputError(f"{option} is {word!r}, which is not a number. Give one, such as 475.")
    return float(value)


def _seconds(option: str, word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise InputError(f"{option} is {word!r}, but must be a number of seconds, 0 or more. Give 60, say.")
    return value


def _positional_values(fields: dict[str, Any], words: list[str], command: str) -> dict[str, Any]:
    """The words that belong to no option, in the order of the positional fields; a tuple takes them all."""
    for name, kind in fields.items():
        if _is_list(kind):
            return {name: tuple(map(get_args(kind)[0], words))}
    if len(words) > len(fields):
        wanted = f" takes {' and '.join(fields)} alone, and" if fields else ""
        raise InputError(
            f"srgdqn {command}{wanted} has no use for {' '.join(words[len(fields) :])!r}. Give the values of an option "
            "right after it; --help shows them all."
        )
    if not words and "run" in fields:
        raise InputError(f"no run was given. Give the folder of one, such as: srgdqn {command} runs/a.")
    given = zip(fields.items(), words, strict=False)
    return {name: Path(word) if kind is Path else word for (name, kind), word in given}


def _unknown_option(word: str, names: Iterable[str], command: str) -> InputError:
    if command in ("train", "sweep") and (said := answer(word, flag)):
        return InputError(f"unknown option {word!r} of srgdqn {command}. {said}")
    flags = [flag(name) for name in (*names, "help")]
    near = difflib.get_close_matches(word.replace("_", "-").lower(), flags, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return InputError(f"unknown option {word!r} of srgdqn {command}.{hint} 'srgdqn {command} --help' shows them all.")
