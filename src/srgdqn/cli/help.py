"""Help: tyro draws the options, the words above them are ours and fit the terminal."""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

import tyro

_PLACE = "DESCRIPTION-GOES-HERE"
_WIDEST = 100


def wants_help(words: Sequence[str]) -> bool:
    """Whether help is among the words."""
    return any(word in ("-h", "--help") for word in words)


def print_help(form: Any, *, command: str | None = None, description: str | None = None) -> None:
    """Prints the help of a command, or of the whole program; by default it is described by the form's docstring."""
    said = inspect.cleandoc(form.__doc__ or "") if description is None else description
    prog = "srgdqn" if command is None else f"srgdqn {command}"
    drawn = _Drawn(sys.stdout)
    with contextlib.redirect_stdout(drawn), contextlib.suppress(SystemExit):
        tyro.cli(form, prog=prog, description=_PLACE, args=["--help"], config=(tyro.conf.OmitArgPrefixes,))
    sys.stdout.write(drawn.getvalue().replace(_PLACE, filled(said, shutil.get_terminal_size().columns)))


def filled(text: str, width: int) -> str:
    """Paragraphs wrapped to a width; indented ones, such as examples, are left as they are."""
    paragraphs = re.split(r"\n\s*\n", text)
    return "\n\n".join(p if p.startswith("  ") else textwrap.fill(p, min(width, _WIDEST)) for p in paragraphs)


def first_paragraph(form: Any) -> str:
    """What a command does, in brief."""
    return " ".join(inspect.cleandoc(form.__doc__ or "").split("\n\n")[0].split())


class _Drawn(io.StringIO):
    """Text for another stream, drawn with the letters and colours that it can show and that are wished for."""

    def __init__(self, target: Any) -> None:
        super().__init__()
        self._target = target

    @property
    def encoding(self) -> str:  # type: ignore[override]
        encoding: str = getattr(self._target, "encoding", None) or "utf-8"
        return encoding.lower()  # tyro knows UTF-8 by one spelling only

    def isatty(self) -> bool:
        return bool(self._target.isatty()) and not os.environ.get("NO_COLOR")
