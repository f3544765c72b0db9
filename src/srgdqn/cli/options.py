"""The options of every room as a command line has them: flat, each with its sentence from the room's settings."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from typing import Any, Literal, NamedTuple, get_args, get_origin

from tyro.constructors import PrimitiveConstructorSpec

from srgdqn.config import Configuration, option_names, rooms
from srgdqn.config.coercion import coerce, literal, option_annotations
from srgdqn.errors import InputError

# Told by the positional names, or only in Python.
_NOT_ON_THE_COMMAND_LINE = ("task", "network")


class RefusedError(Exception):
    """Carries an `InputError` through tyro, which would put any `ValueError` into a box of its own."""


class Option(NamedTuple):
    """One option, as its room declares it."""

    name: str
    room: str
    annotation: Any
    sentence: str

    @property
    def is_flag(self) -> bool:
        """Whether it is given as `--name` or `--no-name`, without a value."""
        return self.annotation is bool

    @property
    def choices(self) -> tuple[str, ...] | None:
        """The values it may have, where they can be counted."""
        alternatives = [self.annotation, *get_args(self.annotation)]
        literal = [alternative for alternative in alternatives if get_origin(alternative) is Literal]
        if not literal:
            return None
        return (*get_args(literal[0]), *(("none",) if self.is_optional else ()))

    @property
    def is_optional(self) -> bool:
        """Whether it can be switched off with `none`."""
        return type(None) in get_args(self.annotation)

    @property
    def is_list(self) -> bool:
        """Whether it takes any number of values."""
        return get_origin(self.annotation) is tuple

    @property
    def metavar(self) -> str:
        """What stands for its value in help."""
        if self.choices:
            return "{" + ",".join(self.choices) + "}"
        kinds = {int: "INT", float: "FLOAT", str: "NAME"}
        kind = next(kinds[part] for part in (self.annotation, *get_args(self.annotation)) if part in kinds)
        return f"[{kind} ...]" if self.is_list else f"{kind}|none" if self.is_optional else kind

    def specification(self, *, choices: bool) -> PrimitiveConstructorSpec[Any]:
        """How tyro reads and shows it. With `choices` tyro knows them too, for completion; it then refuses others."""
        return PrimitiveConstructorSpec(
            nargs="*" if self.is_list else 1,
            metavar=self.metavar,
            instance_from_str=self.read,
            is_instance=lambda value: True,
            str_from_instance=lambda value: [as_text(part) for part in (value if self.is_list else [value])],
            choices=self.choices if choices else None,
        )

    def read(self, texts: list[str]) -> Any:
        """The value that the words of a command line stand for."""
        values = [literal(text) for text in texts]
        if self.annotation is float and isinstance(values[0], str):
            raise RefusedError(f"{self.name} is {values[0]!r}, which is not a number. Give one, such as 0.01.")
        try:
            return coerce(self.name, values if self.is_list else values[0])
        except InputError as error:
            raise RefusedError(str(error)) from error


@functools.cache
def options() -> tuple[Option, ...]:
    """Every option that can be given on a command line, room by room."""
    annotations, homes = option_annotations(), option_names()
    sentences = {name: text for room in rooms() for name, text in _sentences(room).items()}
    return tuple(
        Option(name, room, annotations[name], sentences[name])
        for name, room in homes.items()
        if name not in _NOT_ON_THE_COMMAND_LINE
    )


def as_text(value: Any) -> str:
    """A value as a command line has it."""
    return "none" if value is None else str(value)


def _sentences(room: str) -> dict[str, str]:
    """The docstring below each field of a room's settings, on one line."""
    source = textwrap.dedent(inspect.getsource(type(getattr(Configuration(), room))))
    (declared,) = ast.parse(source).body
    assert isinstance(declared, ast.ClassDef)
    found = {}
    for field, below in zip(declared.body, declared.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            assert isinstance(below.value, ast.Constant)
            found[field.target.id] = " ".join(str(below.value.value).split())
    return found
