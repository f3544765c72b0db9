"""The command line: `srgdqn train`, `watch`, `sweep`, `evaluate`, `show`, `verify`, `replay`, `compare`, `export`,
`video`, `list` and `reproduce`.

Nothing here imports jax, polars or matplotlib before a command needs them, so that help and errors come at once.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from srgdqn.adapters.failures import EnvironmentFailedError
from srgdqn.errors import InputError, printable, unknown
from srgdqn.interrupts import is_interrupt, terminations_as_interrupts, well_timed_interrupts

__all__ = ["main"]

COMMANDS: tuple[str, ...] = ("train", "watch", "sweep", "evaluate", "show", "verify", "replay")
COMMANDS += ("compare", "export", "video", "list", "reproduce")


def module_of(command: str) -> Any:
    """The module that runs a command: `srgdqn.cli.train` runs `train`. (A module `list` would hide Python's own.)"""
    return importlib.import_module(f"srgdqn.cli.{'listing' if command == 'list' else command}")


INTERRUPTED, TERMINATED = 130, 143  # what shells report for a program that was ended from the keyboard, or by SIGTERM


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line and returns its exit code: 0, 1 for what failed, 2 for input that cannot be used, 130 for an
    interrupt, 143 for SIGTERM, which is taken for one.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    _make_streams_usable()
    with terminations_as_interrupts() as terminated:
        code = _ended(arguments)
    return TERMINATED if code == INTERRUPTED and terminated.is_set() else code


def _ended(arguments: list[str]) -> int:
    try:
        with well_timed_interrupts():
            code = _run(arguments)
        sys.stdout.flush()
        return code
    except (InputError, EnvironmentFailedError) as error:
        print(f"error: {printable(' '.join(str(error).splitlines()))}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    except (KeyboardInterrupt, ImportError) as error:
        if not is_interrupt(error):
            raise
        # Where something was saved the interrupt has words for it; Python's own has none.
        saved = str(error) if isinstance(error, KeyboardInterrupt) else ""
        print(f"interrupted: {printable(saved) or 'nothing was saved.'}", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        from srgdqn.cli.presentation import discard_output

        if not discard_output(error):
            raise
        if isinstance(error, BrokenPipeError):  # the reader of a pipe, such as `head`, has enough
            return 0
        print(f"error: standard output cannot be written to ({error.strerror}).", file=sys.stderr)
        return 1
    except SystemExit as ended:  # where help was shown
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)


def _run(arguments: list[str]) -> int:
    first, *rest = arguments or ["--help"]
    if first == "--version":
        from srgdqn import __version__

        print(f"srgdqn {__version__}")
        return 0
    if first in COMMANDS:
        command = module_of(first)
        if hasattr(getattr(command, first.capitalize()), "import_"):
            from srgdqn.cli.user_modules import import_named

            import_named(rest)
        return int(command.run(rest))
    from srgdqn.cli.help import print_completion, show_help

    if first == "--print-completion":
        print_completion(arguments)
        return 0
    if first not in ("-h", "--help"):
        raise unknown("command", first, COMMANDS)
    show_help()
    return 0 if arguments else 2


def _make_streams_usable() -> None:
    """A stream that is closed, or a terminal that cannot show Greek letters, must not end a program."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, as it stays open
        stream = getattr(sys, name)
        encoding = (getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "")
        if encoding != "utf8" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
