"""Forms of commands that take every option: dataclasses whose help tyro draws, room by room."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from srgdqn.cli.options import Option, options
from srgdqn.config import Configuration, rooms
from srgdqn.config.readings import READINGS


def command_form(
    name: str,
    description: str,
    top: Sequence[tuple[str, Any, Any]],
    configuration: Configuration,
    annotate: Callable[[Option], Any],
) -> type:
    """The dataclass whose help is a command's: what is its own, and below that the options of every room.

    Args:
      name: what the class is called.
      description: its docstring.
      top: names, annotations and defaults of what is the command's own.
      configuration: whose values the options have as defaults.
      annotate: makes tyro show an option as the command reads it.

    """
    ordered = ["training", *(room for room in rooms() if room != "training")]  # that of the budget first
    forms = [(room, _room_form(configuration, room, annotate)) for room in ordered]
    fields = [(each, kind, dataclasses.field(default=default)) for each, kind, default in top]
    fields += [
        (f"{room}_room", Annotated[form, tyro.conf.arg(name=room)], dataclasses.field(default_factory=form))
        for room, form in forms
    ]
    return dataclasses.make_dataclass(name, fields, namespace={"__doc__": description})


def _room_form(configuration: Configuration, room: str, annotate: Callable[[Option], Any]) -> type:
    settings = getattr(configuration, room)
    mine = [option for option in options() if option.room == room]
    fields = [
        (option.name, annotate(option), dataclasses.field(default=getattr(settings, option.name))) for option in mine
    ]
    return dataclasses.make_dataclass(type(settings).__name__, fields, namespace={"__doc__": settings.__doc__})


def annotated(option: Option, *, choices: bool) -> Any:
    """The annotation of an option that has one value. With `choices` tyro knows them too, for completion."""
    if option.is_flag:
        return Annotated[bool, help_text(option.sentence)]
    return Annotated[option.annotation, option.specification(choices=choices), help_text(option.sentence)]


def positional(metavar: str, known: Sequence[str] | dict[str, Any], hint: str, choices: bool) -> Any:
    """The annotation of a name that stands by itself."""
    kind: Any = Literal[tuple(known)] if choices else str
    about = tyro.conf.arg(metavar=metavar, help=", ".join(known), help_behavior_hint=f"({hint})")
    return Annotated[kind | None, about, tyro.conf.Positional]


def readings_option() -> Any:
    """The annotation of the set of readings that is chosen."""
    text = "What is done where the paper is silent or contradicts itself: repaired, or followed to the letter."
    return Annotated[Literal[tuple(READINGS)], help_text(text)]


def path_option(metavar: str, text: str, hint: str) -> Any:
    """The annotation of an option that is a file or a folder, or none."""
    return Annotated[Path | None, tyro.conf.arg(metavar=metavar, help=text, help_behavior_hint=hint)]


def logger_option(metavar: str, text: str) -> Any:
    """The annotation of a logger's option."""
    return Annotated[str | None, tyro.conf.arg(metavar=metavar, help=text, help_behavior_hint="(default: none)")]


def flag(text: str) -> Any:
    """The annotation of what is either said or not."""
    return tyro.conf.FlagCreatePairsOff[Annotated[bool, help_text(text)]]


def help_text(text: str) -> Any:
    """What help says of an option."""
    return tyro.conf.arg(help=text)
