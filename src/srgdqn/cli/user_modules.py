"""`--import MODULE`: modules that the user names on the command line, which register estimators and environments.

They are imported before the other words are read, as those may name what they register. Only the command line names
them: nothing that is stored does, so that no run makes anybody import anything.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path

from srgdqn.errors import InputError
from srgdqn.interrupts import is_interrupt

_PACKAGE = Path(__file__).parents[1]


def import_named(words: Sequence[str]) -> None:
    """Imports every module that the words name after `--import`, in their order."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--import", dest="modules", action="append", default=[])
    try:
        given, _ = parser.parse_known_args(words)
    except argparse.ArgumentError as error:
        raise InputError("--import has no module. Give one after it, such as --import ./my_estimators.py.") from error
    for text in given.modules:
        import_module(text)


def import_module(text: str) -> None:
    """Imports a module by its name, or by the path of its file; its folder is searched after all others."""
    if text.endswith(".py") or "/" in text or os.sep in text:
        file = _file(text)
        name, folder = _name_and_folder(file)
    else:
        file, name, folder = None, text, Path.cwd()
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    importlib.invalidate_caches()
    _check_found(text, name, file)
    is_new, before = name not in sys.modules, _registered()
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit) as error:
        if is_interrupt(error):
            raise
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
            raise _not_found(text, ()) from error
        raise InputError(f"--import {text} failed{_where(error)}: {_what(error)}") from error
    if is_new and _registered() == before:
        place = getattr(module, "__file__", None) or "which has no file"
        print(
            f"warning: --import {text} ({place}) registered nothing: no estimator, environment or rule.",
            file=sys.stderr,
        )


def _file(text: str) -> Path:
    file = Path(os.path.abspath(text))
    if file.is_dir() or (file.is_file() and file.suffix != ".py"):
        raise InputError(f"--import {text} is no .py file. Give the path of one, or the name of a module.")
    if not file.is_file():
        raise _not_found(text, [text.removesuffix(file.name) + each.name for each in file.parent.glob("*.py")])
    return file


def _name_and_folder(file: Path) -> tuple[str, Path]:
    """The name that Python has for the module in a file, and the folder where it finds it; a file may be in a package.

    >>> _name_and_folder(Path("/a/my_estimators.py"))
    ('my_estimators', PosixPath('/a'))
    """
    parts, folder = [file.stem], file.parent
    if "." in file.stem:
        raise InputError(f"--import {file}: a module's name has no dots. Rename the file.")
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts if parts[-1] != "__init__" or len(parts) == 1 else parts[:-1]), folder


def _check_found(text: str, name: str, file: Path | None) -> None:
    """Refuses a name that is no module's, and a file whose name means another module."""
    first = name.partition(".")[0]
    try:
        spec = importlib.util.find_spec(first) if first else None
    except ValueError:  # such as __main__
        spec = None
    if spec is None:
        raise _not_found(text, [each.stem for each in Path.cwd().glob("*.py")])
    if file is None:
        return
    found = [Path(place) for place in (spec.submodule_search_locations or ()) if place] or [Path(spec.origin or "")]
    if not any(file == place or place.resolve() in (file.resolve(), *file.resolve().parents) for place in found):
        raise InputError(
            f"--import {text}: {first!r} is already the name of another module, {spec.origin}. Rename the file."
        )


def _not_found(text: str, known: Iterable[str]) -> InputError:
    near = difflib.get_close_matches(text, sorted(known), n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return InputError(
        f"--import {text}: there is no such module.{hint} Give the path of a .py file, such as ./my_estimators.py, or "
        "the name of a module in this folder, on PYTHONPATH or installed."
    )


def _registered() -> tuple[set[str], ...]:
    """The names of estimators, of environments and of rules that are registered."""
    from gymnasium.envs.registration import registry

    from srgdqn.config.discovery import ESTIMATORS, OWN_RULES

    return set(ESTIMATORS), set(registry), *map(set, OWN_RULES.values())


def _where(error: BaseException) -> str:
    """The last line of the user's own that led to the error."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" in {error.filename}, line {error.lineno} ({(error.text or '').strip()})"
    own = [each for each in traceback.extract_tb(error.__traceback__) if _is_users(each.filename)]
    return f" in {own[-1].filename}, line {own[-1].lineno} ({own[-1].line})" if own else ""


def _is_users(file: str) -> bool:
    place = Path(file)
    libraries = {"site-packages", "dist-packages"} & set(place.parts) or place.is_relative_to(Path(os.__file__).parent)
    return not (libraries or file.startswith("<") or place.is_relative_to(_PACKAGE))


def _what(error: BaseException) -> str:
    if isinstance(error, InputError):
        return str(error)
    if isinstance(error, SystemExit):
        return "it ended the program (SystemExit). Keep what is to be run as a program out of the module."
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {message.rstrip('.')}. Correct the module."
