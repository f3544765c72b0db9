"""Help and completion: tyro draws a command's dataclass, the words above its options are ours and fit the terminal."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Annotated, Any, Union, get_origin

import docstring_parser
import tyro
from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

from srgdqn.cli import COMMANDS, module_of
from srgdqn.cli.parsing import Arg, alternatives, as_text, configuration_options, fields_of, is_configuration
from srgdqn.config import Configuration, sections
from srgdqn.errors import InputError
from srgdqn.sweeps.grid import written

_PLACE = "DESCRIPTION-GOES-HERE"
_NARROWEST, _WIDEST = 40, 100  # in a narrower terminal tyro would write a letter or two per line
_METAVARS = {int: "INT", float: "FLOAT", str: "NAME"}
_MARKERS = (tyro.conf.OmitArgPrefixes, tyro.conf.DisallowNone)
_SHELLS = ("bash", "zsh", "fish")

_DESCRIPTION = """Variance-reduced deep Q-learning: SRG-DQN and its companions, measured honestly, many rounds at once.

  srgdqn list                                            what there is
  srgdqn train MountainCar srg-dqn --rounds 16 --out a   train, and save the run
  srgdqn train MountainCar dqn-sgd --rounds 16 --out b
  srgdqn watch b                                         its progress, in another terminal
  srgdqn compare a b --out curves.pdf                    a figure and a table
  srgdqn show a                                          what a run was and came to
  srgdqn verify a                                        is it what its configuration gives?
  srgdqn replay a --round 7                              which gradient made a round diverge?
  srgdqn sweep MountainCar srg-dqn --eta 1e-3 1e-2 --alpha 1e-4 1e-3 --out grid
                                                         every combination of some values
  srgdqn evaluate a                                      play 100 greedy episodes
  srgdqn export a --out policy.onnx                      the policy as a file for other programs
  srgdqn video a --out play.mp4                          the policy on film
  srgdqn reproduce --out results                         the whole paper, with a verdict on every claim

'srgdqn COMMAND --help' explains a command, and 'srgdqn train TASK ALGORITHM --help' shows every option with the values
that those names stand for.

For completion in your shell, put what 'srgdqn --tyro-print-completion bash' (or zsh, or fish) prints where your shell
looks for completions. Colours are off where NO_COLOR is set."""


def show_help() -> None:
    """Shows the help above all commands."""
    print_help(_all_commands(), description=_DESCRIPTION)


def show_completion(words: Sequence[str]) -> None:
    """Prints the completion script that the words ask tyro for."""
    if len(words) < 2 or words[1] not in _SHELLS:
        raise InputError(f"{words[0]} needs the name of your shell: {', '.join(_SHELLS)}. Give it as the next word.")
    with contextlib.suppress(SystemExit):
        _tyro(_all_commands(), list(words), None, several=False)


def _all_commands() -> Any:
    """The dataclass of every command, as alternatives: `train` has `Train`."""

    def named(name: str) -> Any:
        form = getattr(module_of(name), name.capitalize())
        summary = " ".join(inspect.cleandoc(form.__doc__).split("\n\n")[0].split())
        return Annotated[form, tyro.conf.subcommand(name, description=summary)]

    return Union[tuple(map(named, COMMANDS))]  # noqa: UP007, as the alternatives are only known when this runs


def print_help(
    form: Any,
    *,
    command: str | None = None,
    description: str | None = None,
    defaults: Any = tyro.MISSING_NONPROP,
    several: bool = False,
) -> None:
    """Prints the help of a command, or of the whole program.

    Args:
      form: the command's dataclass, or a union of all.
      command: its name.
      description: what stands above its options, by default the form's docstring.
      defaults: an instance of the form, whose values are shown as defaults.
      several: whether a configuration's options take several values.

    """
    text = inspect.cleandoc(form.__doc__ or "") if description is None else description
    width = max(shutil.get_terminal_size().columns, _NARROWEST)
    drawn = _Drawn(sys.stdout)
    with _columns(width), contextlib.redirect_stdout(drawn), contextlib.suppress(SystemExit):
        _tyro(form, ["--help"], command, several, description=_PLACE, default=defaults)
    sys.stdout.write(drawn.getvalue().replace(_PLACE, filled(text, width)))


def print_options_help(form: Any, asked: Any, named: Mapping[str, Any], several: bool = False) -> None:
    """Prints the help of a command that takes the options of a configuration: `named` are the values that its names,
    and its file, stand for.
    """
    whose = "The defaults below are those of no task in particular: name one to see its own."
    if asked.task is not None:
        whose = f"The defaults below are those of {asked.task} with {asked.algorithm} ({asked.readings} readings)."
    defaults = form(readings=asked.readings, options=dict(named))
    description = inspect.cleandoc(form.__doc__).replace("{shown}", whose)
    print_help(form, command=form.__name__.lower(), description=description, defaults=defaults, several=several)


def filled(text: str, width: int) -> str:
    """Paragraphs wrapped to a width; indented ones, such as examples, are left as they are."""
    paragraphs = re.split(r"\n\s*\n", text)
    return "\n\n".join(p if p.startswith("  ") else textwrap.fill(p, min(width, _WIDEST)) for p in paragraphs)


def _tyro(form: Any, words: list[str], command: str | None, several: bool, **how: Any) -> None:
    prog = "srgdqn" if command is None else f"srgdqn {command}"
    tyro.cli(form, prog=prog, args=words, config=_MARKERS, registry=_registry(several), **how)


def _registry(several: bool) -> ConstructorRegistry:
    """How tyro shows what we declare. Nothing is read by it: see `srgdqn.cli.parsing`."""
    registry = ConstructorRegistry()
    settings = {type(getattr(Configuration(), section)) for section in sections()}

    @registry.struct_rule
    def _fields(info: StructTypeInfo) -> StructConstructorSpec | None:
        if info.type is Configuration:
            ordered = sorted(sections(), key=lambda section: section != "training")  # that of the budget first
            kinds = {section: type(getattr(Configuration(), section)) for section in ordered}
        elif info.type in settings:
            mine = {field.name for field in dataclasses.fields(info.type)}
            kinds = {name: _option(kind, several) for name, kind in configuration_options().items() if name in mine}
        elif dataclasses.is_dataclass(info.type) and info.type.__module__.startswith("srgdqn."):
            kinds = {name: _own(kind, arg) for name, kind, arg in fields_of(info.type)}
        else:
            return None
        # The docstring below each field on one line: tyro would show its line breaks.
        described = docstring_parser.parse_from_object(info.type).params
        sentences = {each.arg_name: " ".join((each.description or "").split()) for each in described}
        fields = [
            StructFieldSpec(name, kind, _default(info, name), sentences.get(name)) for name, kind in kinds.items()
        ]
        return StructConstructorSpec(instantiate=info.type, fields=tuple(fields))

    return registry


def _own(kind: Any, arg: Arg) -> Any:
    """The annotation by which tyro shows a field of a command's dataclass."""
    if is_configuration(kind):
        return Annotated[Configuration, tyro.conf.arg(name="")]
    if dataclasses.is_dataclass(kind):
        return Annotated[kind, tyro.conf.arg(name=arg.metavar)]
    if kind is bool:
        return tyro.conf.FlagCreatePairsOff[bool]
    hint = arg.default if arg.default is None else f"({arg.default})" if arg.names else f"(default: {arg.default})"
    shown = tyro.conf.arg(metavar=arg.metavar, help=", ".join(arg.names) or None, help_behavior_hint=hint)
    extras = [_shown(arg.metavar or "", arg.names)] if arg.names else []
    return Annotated[(kind, shown, *extras, *([tyro.conf.Positional] if arg.positional else []))]


def _option(kind: Any, several: bool) -> Any:
    """The annotation by which tyro shows an option of a configuration."""
    kinds, words = alternatives(kind)
    if kind is bool and not several:
        return kind
    if kind is bool:
        metavar, words = "{true,false}", ("true", "false")
    elif get_origin(kind) is tuple:
        metavar = "INT[+INT ...]" if several else "[INT ...]"
    else:
        none = ("none",) if NoneType in kinds else ()
        words = (*words, *none) if words else ()
        metavar = "{" + ",".join(words) + "}" if words else "|".join((_METAVARS[kinds[0]], *none))
    return Annotated[Any, _shown(f"{metavar} ..." if several else metavar, words, written if several else as_text)]


def _shown(metavar: str, choices: Sequence[str], text: Callable[[Any], str] = as_text) -> PrimitiveConstructorSpec[Any]:
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=list,
        is_instance=lambda value: True,
        str_from_instance=lambda value: text(value).split(),
        choices=tuple(choices) or None,
    )


def _default(info: StructTypeInfo, name: str) -> Any:
    if dataclasses.is_dataclass(info.default):
        default = getattr(info.default, name)
    else:
        field = {field.name: field for field in dataclasses.fields(info.type)}[name]
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    if default is dataclasses.MISSING:
        return tyro.MISSING_NONPROP
    return Configuration().with_options(default) if isinstance(default, dict) else default


@contextlib.contextmanager
def _columns(width: int) -> Iterator[None]:
    """Has tyro take the terminal for as wide as this."""
    before = dict(os.environ)
    os.environ["COLUMNS"] = str(width)
    try:
        yield
    finally:
        os.environ.pop("COLUMNS")
        os.environ.update(before)


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
