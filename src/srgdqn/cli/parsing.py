"""Words of a command line as an instance of the command's dataclass; whatever is wrong with them as an `InputError`.

The same dataclass is shown by tyro (`srgdqn.cli.help`), which could read the words, too. It does not, because it draws
what is wrong with them in boxes that nobody can catch, does not know which options were given, and takes the tenth of a
second for it. A refusal here is a line that names what was given, what is expected, and the nearest name.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from srgdqn.config import Configuration
from srgdqn.config.coercion import coerce, literal, option_annotations
from srgdqn.config.options import called_here
from srgdqn.errors import InputError, unknown

_LARGEST = 2**31 - 1
_NOT_ON_THE_COMMAND_LINE = ("task", "network")  # a positional name, and what only Python can give


class Arg(NamedTuple):
    """Annotates a field of a command's dataclass with what its type does not say."""

    metavar: str | None = None  # what stands for its value in help, or for the title of a group
    default: str | None = None  # in words, where it is no value
    least: int = 0  # of a whole number
    positional: bool = False
    names: tuple[str, ...] = ()  # that completion suggests, and help lists; others may be given


class Parsed(NamedTuple):
    """What a command line asks for."""

    form: Any  # an instance of the command's dataclass
    options: dict[str, Any]  # those of a configuration that were given


def parse(form: type, words: Sequence[str], *, command: str, several: bool = False) -> Parsed:
    """The words as an instance of a command's dataclass. `several`: a configuration's options are words in the form
    that a sweep reads, any number of them.
    """
    if wants_help(words):
        from srgdqn.cli.help import print_help

        print_help(form, command=command)
        raise SystemExit(0)
    own = own_options(form)
    positional = [name for name, (_, arg) in own.items() if arg.positional]
    options = configuration_options() if any(kind is Configuration for _, kind, _ in fields_of(form)) else {}
    kinds = {name: kind for name, (kind, _) in own.items() if name not in positional}
    kinds |= dict.fromkeys(options, tuple[str, ...]) if several else options
    given, rest = _split(kinds, words, command)
    values = {name: _value(name, given[name], *own[name]) for name in own if name in given}
    values |= _positional_values({name: own[name][0] for name in positional}, rest, command)
    chosen = {
        name: words if several else _option(name, words, options[name])
        for name, words in given.items()
        if name in options
    }
    return Parsed(_built(form, values), chosen)


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
        if kind is not Configuration:
            found |= own_options(kind) if dataclasses.is_dataclass(kind) else {name: (kind, arg)}
    return found


def configuration_options() -> dict[str, Any]:
    """The options of a configuration that can be given on a command line, and their types."""
    return {name: kind for name, kind in option_annotations().items() if name not in _NOT_ON_THE_COMMAND_LINE}


def alternatives(kind: Any) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    """The types that a value may have, and the words that it may be."""
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return kinds, tuple(word for each in kinds if get_origin(each) is Literal for word in get_args(each))


def fields_of(form: Any) -> Iterator[tuple[str, Any, Arg]]:
    """The fields of a command's dataclass, or of a group: name, type, and what that does not say."""
    for name, hint in get_type_hints(form, include_extras=True).items():
        kind, arg = get_args(hint) if get_origin(hint) is Annotated else (hint, Arg())
        yield name, kind, arg


def _built(form: Any, values: dict[str, Any]) -> Any:
    fields = {name: kind for name, kind, _ in fields_of(form)}
    groups = {name: kind for name, kind in fields.items() if dataclasses.is_dataclass(kind)}
    given = {name: values[name] for name in fields if name in values and name not in groups}
    return form(**given, **{name: _built(kind, values) for name, kind in groups.items() if kind is not Configuration})


def _split(kinds: dict[str, Any], words: Sequence[str], command: str) -> tuple[dict[str, Any], list[str]]:
    """The words of each option that was given (or whether a flag is set), and the words that belong to none."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name, kind in kinds.items():
        how: dict[str, Any] = {"nargs": "*" if _is_list(kind) else 1}
        if kind is bool:
            how = {"action": argparse.BooleanOptionalAction}
        parser.add_argument(_flag(name), f"--{name}", dest=name, default=argparse.SUPPRESS, **how)
    try:
        given, rest = parser.parse_known_args(words)
    except argparse.ArgumentError as error:
        option = str(error.argument_name).partition("/")[0]
        raise InputError(f"{option}: {error.message}. 'srgdqn {command} --help' shows what can be given.") from error
    for word in rest:
        if re.match(r"--?[^\W\d]", word):
            raise _unknown_option(word.partition("=")[0], kinds, command)
    return vars(given), rest


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _is_list(kind: Any) -> bool:
    return any(get_origin(each) is tuple for each in alternatives(kind)[0])


def _value(name: str, words: Any, kind: Any, arg: Arg) -> Any:
    """The value that the words of a command's own option stand for."""
    if kind is bool:
        return words
    if _is_list(kind):
        return tuple(words)
    (word,), flag = words, _flag(name)
    kinds, choices = alternatives(kind)
    if word in choices or str in kinds:
        return word
    if Path in kinds:
        return Path(word)
    if int in kinds:
        return _whole(flag, word, arg.least, choices)
    if float in kinds:
        return _seconds(flag, word)
    raise unknown(f"value of {flag},", word, choices)


def _option(name: str, words: Any, kind: Any) -> Any:
    """The value that the words of an option of a configuration stand for."""
    if kind is bool:
        return words
    values = [literal(word) for word in words]
    if kind is float and isinstance(values[0], str):
        raise InputError(f"{name} is {values[0]!r}, which is not a number. Give one, such as 0.01.")
    return coerce(name, values if _is_list(kind) else values[0])


def _whole(flag: str, word: str, least: int, others: Sequence[str]) -> int:
    try:
        value = int(word)
    except ValueError:
        other = f", or write {others[0]}" if others else ""
        raise InputError(f"{flag} is {word!r}, which is not a whole number. Write it in digits{other}.") from None
    if not least <= value <= _LARGEST:
        raise InputError(f"{flag} is {value}, but must be a whole number from {least} to {_LARGEST}.")
    return value


def _seconds(flag: str, word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise InputError(f"{flag} is {word!r}, which are no seconds. Give 0 or more, such as 60.")
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
    if command in ("train", "sweep") and (ours := called_here(word)):
        flagged = " or ".join(map(_flag, ours))
        return InputError(f"unknown option {word!r} of srgdqn {command}. It is called {flagged} here.")
    flags = [_flag(name) for name in (*names, "help")]
    near = difflib.get_close_matches(word.replace("_", "-").lower(), flags, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return InputError(f"unknown option {word!r} of srgdqn {command}.{hint} 'srgdqn {command} --help' shows them all.")
