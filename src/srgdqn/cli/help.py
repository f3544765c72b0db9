"""Help and completion, from the dataclasses by which `srgdqn.cli.parsing` reads the words of a command."""

from __future__ import annotations

import dataclasses
import inspect
import re
import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from types import NoneType
from typing import Any, NamedTuple, get_origin

import docstring_parser
from rich.panel import Panel
from rich.text import Text

from srgdqn.cli import COMMANDS, module_of
from srgdqn.cli.parsing import Arg, alternatives, as_text, configuration_options, fields_of, flag, is_configuration
from srgdqn.cli.presentation import console
from srgdqn.config import Configuration, option_names, sections
from srgdqn.config.discovery import known_estimator
from srgdqn.config.estimator_numbers import Number, numbers_of_estimator
from srgdqn.errors import InputError
from srgdqn.sweeps.grid import written

_NARROWEST, _WIDEST = 40, 100  # of a terminal that help fits into, and of a paragraph
_FLAGS = 26  # columns in which flags stand
_METAVARS = {int: "INT", float: "FLOAT", str: "NAME"}
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

For completion in your shell, put what 'srgdqn --print-completion bash' (or zsh, or fish) prints where your shell
looks for completions. Colours are off where NO_COLOR is set."""


class _Option(NamedTuple):
    """What help says of an option, a positional word or a command."""

    name: str  # `--eta`, or the metavar of a positional word
    metavar: str
    choices: tuple[str, ...]
    text: str


class _Group(NamedTuple):
    title: str
    about: str
    options: list[_Option]


def show_help() -> None:
    """Shows the help above all commands."""
    commands = [_Option(name, "", (), _paragraphs(_form(name))[0]) for name in COMMANDS]
    _print("srgdqn [-h] [--version] COMMAND …", _DESCRIPTION, [_Group("commands", "", commands)])


def print_help(form: Any) -> None:
    """Prints the help of a command."""
    _print_form(form, inspect.cleandoc(form.__doc__), Configuration(), several=False)


def print_options_help(
    form: Any, asked: Any, named: Mapping[str, Any], estimators: Sequence[str], several: bool = False
) -> None:
    """Prints the help of a command that takes the options of a configuration: `named` are the values that its names,
    and its file, stand for; `estimators` are those that are chosen; `several`: an option takes several values.
    """
    whose = "The defaults below are those of no task in particular: name one to see its own."
    if asked.task is not None:
        whose = f"The defaults below are those of {asked.task} with {asked.algorithm} ({asked.readings} readings)."
    description = inspect.cleandoc(form.__doc__).replace("{shown}", whose)
    general = {name: value for name, value in named.items() if name in option_names()}
    own = [group for each in dict.fromkeys(estimators) for group in _own_numbers(each, named, several)]
    _print_form(form, description, Configuration().with_options(general), several, own)


def _print_form(
    form: Any, description: str, configuration: Configuration, several: bool, own: Sequence[_Group] = ()
) -> None:
    first, *groups = _groups(form, configuration, several)
    place = next((place for place, group in enumerate(groups, 1) if group.title == "estimator"), len(groups))
    groups[place:place] = own
    positional = [option for option in first.options if not option.name.startswith("--")]
    groups.insert(0, _Group("options", "", [option for option in first.options if option not in positional]))
    if positional:
        groups.insert(0, _Group("positional arguments", "", positional))
    words = " ".join(option.metavar for option in positional)
    _print(" ".join(f"srgdqn {form.__name__.lower()} [-h] {words} [OPTIONS]".split()), description, groups)


def _print(usage: str, description: str, groups: Sequence[_Group]) -> None:
    out = console()
    out.width = width = max(out.width, _NARROWEST)
    paragraphs = re.split(r"\n\s*\n", description)  # indented ones are examples, and stay as they are
    filled = [text if text.startswith("  ") else textwrap.fill(text, min(width, _WIDEST)) for text in paragraphs]
    out.print(Text("\n\n".join([f"usage: {usage}", *filled]) + "\n", no_wrap=True, overflow="ignore"), crop=False)
    for group in groups:
        out.print(Panel(_lines(group, width - 4), title=group.title, title_align="left"))


def _lines(group: _Group, width: int) -> Text:
    """The group's options, each with its text beside its flags, or below them where they are long."""
    column = min(_FLAGS, width // 3)
    lines = Text("\n").join(Text(line) for line in textwrap.wrap(group.about, width))
    for option in group.options:
        flags = " ".join(dict.fromkeys(filter(None, (option.name, option.metavar))))
        beside = len(flags) + 2 <= column
        text = textwrap.fill(option.text, width - column, break_on_hyphens=False)
        lines.append("\n" if lines else "")
        lines.append("\n".join(textwrap.wrap(flags, width)), style="cyan")
        lines.append(" " * (column - len(flags)) if beside else f"\n{' ' * column}")
        lines.append(text.replace("\n", f"\n{' ' * column}"))
    return lines


def _groups(form: Any, configuration: Configuration, several: bool) -> Iterator[_Group]:
    """The form's own options, and then the groups that are nested in it."""
    fields, described = list(fields_of(form)), _sentences(form)
    defaults = {field.name: field.default for field in dataclasses.fields(form)}
    own = [
        _own(name, kind, arg, arg.help or described.get(name, ""), defaults[name])
        for name, kind, arg in fields
        if not (is_configuration(kind) or dataclasses.is_dataclass(kind))
    ]
    yield _Group(form.__name__, _paragraphs(form)[0], own)
    for name, kind, _ in fields:
        if dataclasses.is_dataclass(kind):
            yield next(_groups(kind, configuration, several))._replace(title=name)
        elif is_configuration(kind):
            kinds = configuration_options()
            for section in sorted(sections(), key=lambda section: section != "training"):  # that of the budget first
                settings = getattr(configuration, section)
                described = _sentences(type(settings))
                options = [
                    _of_configuration(name, kinds[name], described[name], value, several)
                    for name, value in vars(settings).items()
                    if name in kinds
                ]
                yield _Group(section, _paragraphs(type(settings))[0], options)


def _own_numbers(estimator: str, named: Mapping[str, Any], several: bool) -> Iterator[_Group]:
    """The numbers that an estimator has of its own, if it is known and has any."""
    numbers = numbers_of_estimator(estimator) if known_estimator(estimator) else {}
    if numbers:
        about = "Options of this estimator alone, wherever it is chosen."
        options = [_number(each, named.get(name), several) for name, each in numbers.items()]
        yield _Group(f"numbers of {estimator}", about, options)


def _number(number: Number, value: Any, several: bool) -> _Option:
    """A number that an estimator has of its own; `value` is a file's, or None."""
    kind = int if number.is_whole else float
    shown = written(kind(number.default if value is None else value))
    text = f"{number.meaning} (default: {shown}; {number.expectation})"
    return _Option(flag(number.name), _METAVARS[kind] + (" ..." if several else ""), (), text)


def _own(name: str, kind: Any, arg: Arg, sentence: str, default: Any) -> _Option:
    """An option of a command's dataclass."""
    choices = alternatives(kind)[1]
    metavar = "" if kind is bool else arg.metavar or _metavar(kind, choices)
    absent = default is False or default in (None, (), dataclasses.MISSING)
    shown = arg.default or ("" if absent else str(default))
    if arg.positional:
        text = " ".join(filter(None, (", ".join(arg.names), sentence, f"({shown})" if shown else "")))
        return _Option(metavar, metavar, arg.names, text)
    return _Option(flag(name), metavar, choices, f"{sentence} (default: {shown})" if shown else sentence)


def _of_configuration(name: str, kind: Any, sentence: str, value: Any, several: bool) -> _Option:
    """An option of a configuration."""
    choices = ("true", "false") if kind is bool and several else alternatives(kind)[1]
    if kind is bool and not several:
        metavar = f"/ --no-{flag(name)[2:]}"
    elif get_origin(kind) is tuple:
        metavar = "INT[+INT ...]" if several else "[INT ...]"
    else:
        metavar = _metavar(kind, choices) + ("|none" if NoneType in alternatives(kind)[0] else "")
    shown, more = (written(value), " ...") if several else (as_text(value), "")
    return _Option(flag(name), metavar + more, choices, f"{sentence} (default: {shown})")


def _metavar(kind: Any, choices: Sequence[str]) -> str:
    """What stands for a value of this type."""
    types = [_METAVARS[each] for each in alternatives(kind)[0] if each in _METAVARS]
    return "|".join([*types, *(["{" + ",".join(choices) + "}"] if choices else [])])


def _sentences(form: Any) -> dict[str, str]:
    """The docstring below each field of a dataclass, on one line."""
    described = docstring_parser.parse_from_object(form).params
    return {each.arg_name: " ".join((each.description or "").split()) for each in described}


def _paragraphs(form: Any) -> list[str]:
    return [" ".join(paragraph.split()) for paragraph in inspect.cleandoc(form.__doc__ or "").split("\n\n")]


def _form(command: str) -> Any:
    return getattr(module_of(command), command.capitalize())


def print_completion(words: Sequence[str]) -> None:
    """Prints the completion script of the shell that the words name."""
    if len(words) < 2 or words[1] not in _SHELLS:
        raise InputError(f"{words[0]} needs the name of your shell: {', '.join(_SHELLS)}. Give it as the next word.")
    known = {
        name: [option for group in _groups(_form(name), Configuration(), several=False) for option in group.options]
        for name in COMMANDS
    }
    print(_fish(known) if words[1] == "fish" else _bash_or_zsh(known, words[1]))


def _bash_or_zsh(known: Mapping[str, Sequence[_Option]], shell: str) -> str:
    """A script that looks at the command and the word before, and offers what may follow."""
    cases = []
    for command, options in known.items():
        flagged = [option for option in options if option.name.startswith("--")]
        cases += [
            f'    "{command} {option.name}") offered="{" ".join(option.choices)}" ;;'
            for option in flagged
            if option.choices
        ]
        names = [name for option in options if option not in flagged for name in option.choices]
        cases.append(f'    "{command} "*) offered="{" ".join([*names, *(option.name for option in flagged)])}" ;;')
    cases.append(f'    *) offered="{" ".join(known)}" ;;')
    if shell == "zsh":
        head = ["#compdef srgdqn", 'local offered; case "${words[2]} ${words[CURRENT-1]}" in']
        return "\n".join([*head, *cases, "esac", "compadd -- ${=offered} || _files"])
    head = ["_srgdqn() {", '  local offered; case "${COMP_WORDS[1]} ${COMP_WORDS[COMP_CWORD-1]}" in']
    tail = ["  esac", '  COMPREPLY=($(compgen -W "$offered" -- "${COMP_WORDS[COMP_CWORD]}"))', "}"]
    return "\n".join([*head, *cases, *tail, "complete -o default -F _srgdqn srgdqn"])


def _fish(known: Mapping[str, Sequence[_Option]]) -> str:
    lines = [f"complete -c srgdqn -n __fish_use_subcommand -a '{' '.join(known)}'"]
    for command, options in known.items():
        for option in options:
            words = ["complete", "-c", "srgdqn", "-n", f"__fish_seen_subcommand_from {command}", "-d", option.text]
            words += ["-l", option.name[2:]] if option.name.startswith("--") else []
            words += ["-a", " ".join(option.choices)] if option.choices else []
            lines.append(shlex.join(words))
    return "\n".join(lines)
