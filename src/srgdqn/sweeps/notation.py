"""Values of options as a sweep's words, files and folders have them: one word each, widths joined by +."""

from __future__ import annotations

from typing import Any, get_args, get_origin

from srgdqn.config import option_names
from srgdqn.config.coercion import coerce, literal, option_annotations
from srgdqn.config.options import called_here
from srgdqn.errors import InputError, unknown

_FLAGS = {"true": True, "false": False}
_ONE_OF_A_SWEEP = ("task", "network")


def read_value(name: str, text: str) -> Any:
    """The value that a word stands for.

    >>> read_value("hidden", "20+20"), read_value("eta", "1e-3"), read_value("anchor_step", "false")
    ((20, 20), 0.001, False)
    """
    annotation = option_annotations()[known(name)]
    if get_origin(annotation) is tuple:
        return coerce(name, [] if text == "none" else [literal(part) for part in text.split("+")])
    if annotation is bool:
        if text not in _FLAGS:
            raise InputError(f"{name} is {text!r}, but is true or false. Write one of these words.")
        return _FLAGS[text]
    value = literal(text)
    if float in (annotation, *get_args(annotation)) and isinstance(value, str) and value != "none":
        raise InputError(f"{name} is {text!r}, which is not a number. Give one, such as 0.01.")
    return coerce(name, value)


def written(value: Any) -> str:
    """The word for a value.

    >>> written((20, 20)), written(0.001), written(False), written(None), written(())
    ('20+20', '0.001', 'false', 'none', 'none')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "+".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def known(name: str) -> str:
    """The option's name, if there is such an option and cells may differ in it."""
    names = [each for each in option_names() if each not in _ONE_OF_A_SWEEP]
    if name in names:
        return name
    if ours := called_here(name):
        raise InputError(f"unknown option {name!r}. It is called {' or '.join(ours)} here.")
    raise unknown("option of a sweep", name, names)
