"""Words of a command line turned into typed values by tyro, and whatever is wrong with them into an `InputError`."""

from __future__ import annotations

import contextlib
import difflib
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from srgdqn.cli.help import print_help, wants_help
from srgdqn.cli.options import RefusedError
from srgdqn.errors import InputError


def parse(form: Any, words: Sequence[str], *, command: str) -> Any:
    """The words as an instance of the form, a dataclass or a typed dictionary. Shows help where it is asked for."""
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
    if rest:
        raise _unexpected(rest, _flags(form), command)
    return given


def whole(name: str, least: int) -> PrimitiveConstructorSpec[int]:
    """How an option of a command that is a whole number from `least` on is read."""

    def read(texts: list[str]) -> int:
        try:
            value = int(texts[0])
        except ValueError:
            raise RefusedError(f"--{name} is {texts[0]!r}, which is not a whole number. Write it in digits.") from None
        if not least <= value < 2**31:
            raise RefusedError(f"--{name} is {value}, but must be a whole number from {least} to {2**31 - 1}.")
        return value

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=read,
        is_instance=lambda value: True,
        str_from_instance=lambda value: [str(value)],
    )


def _flags(form: Any) -> list[str]:
    names = [name.replace("_", "-") for name in form.__annotations__]
    return [*(f"--{name}" for name in names), "--help"]


def _unexpected(rest: Sequence[str], flags: Iterable[str], command: str) -> InputError:
    unknown = [word.partition("=")[0] for word in rest if re.match(r"--?[^\W\d]", word)]
    advice = f"'srgdqn {command} --help' shows them all."
    if not unknown:
        return InputError(
            f"srgdqn {command} has no use for {' '.join(rest)!r}. {advice.replace('them all', 'its use')}"
        )
    near = difflib.get_close_matches(unknown[0].replace("_", "-").lower(), flags, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return InputError(f"unknown option {unknown[0]!r} of srgdqn {command}.{hint} {advice}")


def _out_of_the_box(drawn: str) -> str:
    """What tyro complains about, without the box it draws around that and without its pointer to help."""
    lines = [line.strip(" │|") for line in drawn.splitlines()[1:]]
    said: list[str] = []
    for line in lines:
        if re.fullmatch(r"[─\-╰╯+ ]*", line):
            break
        said.append(line)
    text = " ".join(said) or "these words could not be read"
    return f"{text.rstrip('.')}. Add --help to see what can be given."
