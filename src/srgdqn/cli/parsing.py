"""Words of a command line turned into typed values by tyro, and whatever is wrong with them into an `InputError`."""

from __future__ import annotations

import contextlib
import difflib
import io
import itertools
import math
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from srgdqn.cli.help import print_help, wants_help
from srgdqn.cli.options import RefusedError
from srgdqn.config.options import called_here
from srgdqn.errors import InputError, unknown

_LARGEST = 2**31 - 1


def parse(form: Any, words: Sequence[str], *, command: str) -> Any:
    """The words as an instance of the form, a dataclass or a typed dictionary. Shows help where it is asked for."""
    given, stray = parse_with_stray(form, words, command=command)
    if stray:
        raise InputError(f"srgdqn {command} has no use for {' '.join(stray)!r}. Add --help to see what can be given.")
    return given


def parse_with_stray(form: Any, words: Sequence[str], *, command: str) -> tuple[Any, list[str]]:
    """The same, and the words that belong to no option, where options stand between positional ones."""
    if wants_help(words):
        print_help(form, command=command)
        raise SystemExit(0)
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            given, rest = tyro.cli(form, prog=f"srgdqn {command}", args=list(words), return_unknown_args=True)
    except RefusedError as refused:
        raise InputError(str(refused)) from refused
    except SystemExit as ended:
        raise InputError(_out_of_the_box(complaint.getvalue())) from ended
    for word in rest:
        if re.match(r"--?[^\W\d]", word):
            raise _unknown_option(word.partition("=")[0], _flags(form), command)
    return given, rest


def whole(name: str, least: int, word: str | None = None) -> PrimitiveConstructorSpec[Any]:
    """How an option that is a whole number from `least` on is read, or else a word, which stays one."""

    def read(texts: list[str]) -> int | str:
        if texts[0] == word:
            return texts[0]
        try:
            value = int(texts[0])
        except ValueError:
            other = "" if word is None else f", or write {word}"
            raise RefusedError(
                f"--{name} is {texts[0]!r}, which is not a whole number. Write it in digits{other}."
            ) from None
        if not least <= value <= _LARGEST:
            raise RefusedError(f"--{name} is {value}, but must be a whole number from {least} to {_LARGEST}.")
        return value

    return _single("INT" if word is None else f"{word}|INT", read)


def seconds(name: str) -> PrimitiveConstructorSpec[float]:
    """How an option that is a time is read."""

    def read(texts: list[str]) -> float:
        try:
            value = float(texts[0])
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value >= 0):
            raise RefusedError(f"--{name} is {texts[0]!r}, which are no seconds. Give 0 or more, such as 60.")
        return value

    return _single("SECONDS", read)


def one_of(name: str, choices: Sequence[str]) -> PrimitiveConstructorSpec[str]:
    """How an option that is one of a few words is read."""

    def read(texts: list[str]) -> str:
        if texts[0] not in choices:
            raise RefusedError(str(unknown(f"value of --{name},", texts[0], choices)))
        return texts[0]

    return _single("{" + ",".join(choices) + "}", read)


OneRun = Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN", help_behavior_hint="")]
"""The argument of a command that is about one run; `the_run` tells of none, or of several, in words."""


def the_run(folders: Sequence[Path], command: str) -> Path:
    """The folder of the one run that a command is about."""
    if len(folders) != 1:
        problem = f"{len(folders)} runs were given" if folders else "no run was given"
        raise InputError(f"{problem}. Give the folder of one, such as: srgdqn {command} runs/a.")
    return folders[0]


def task_and_algorithm(names: Sequence[str]) -> tuple[str | None, str | None]:
    """What the words stand for that belong to no option, as far as there are any."""
    if len(names) > 2:
        raise InputError(
            f"{len(names)} names were given ({' '.join(names)}), but there are two: a task and an algorithm. "
            "Give the values of options after their options."
        )
    task, algorithm = (*names, None, None)[:2]
    return task, algorithm


def _single(metavar: str, read: Callable[[list[str]], Any]) -> PrimitiveConstructorSpec[Any]:
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=read,
        is_instance=lambda value: True,
        str_from_instance=lambda value: [str(value)],
    )


def _flags(form: Any) -> list[str]:
    names = [name.replace("_", "-") for name in form.__annotations__]
    return [*(f"--{name}" for name in names), "--help"]


def _unknown_option(word: str, flags: Iterable[str], command: str) -> InputError:
    if command in ("train", "sweep") and (ours := called_here(word)):
        flagged = " or ".join(f"--{name.replace('_', '-')}" for name in ours)
        return InputError(f"unknown option {word!r} of srgdqn {command}. It is called {flagged} here.")
    near = difflib.get_close_matches(word.replace("_", "-").lower(), flags, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return InputError(f"unknown option {word!r} of srgdqn {command}.{hint} 'srgdqn {command} --help' shows them all.")


def _out_of_the_box(drawn: str) -> str:
    """What tyro complains about, without title, without pointer to help, and without the box it may draw around."""
    lines = [re.sub(r"^[\s│╭╰─]+|[\s│╮╯─]+$|^[\s-]+$", "", line) for line in drawn.splitlines()]
    untitled = itertools.dropwhile(lambda line: not line, lines[1:])
    said = " ".join(itertools.takewhile(bool, untitled)) or "these words could not be read"
    return f"{said.rstrip('.')}. Add --help to see what can be given."
