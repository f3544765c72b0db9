"""The error for input that cannot be used. A message says what was given, what was expected, and how to fix it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LONGEST_SHOWN = 200


class InputError(ValueError):
    """Input that cannot be used. Its message is one paragraph meant for the user; the command line prints it bare."""


class UserCodeError(InputError):
    """An estimator or a rule of the user's own that does not do what it should. In a sweep it costs its cells alone."""


def printable(text: str) -> str:
    r"""The text with control characters escaped, so that a terminal shows and does not obey them.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def shown(value: object) -> str:
    """The value in at most 80 characters, for a message."""
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python prints
        return "a number of very many digits"
    return text if len(text) <= 80 else f"{text[:77]}..."


def unknown(kind: str, given: object, known: Iterable[str]) -> InputError:
    """The error for a name that is none of the `known` ones, with the nearest of them as a suggestion.

    >>> print(unknown("task", "MountianCar", ["CartPole", "MountainCar"]))
    unknown task 'MountianCar'. Did you mean 'MountainCar'? Known: CartPole, MountainCar.
    """
    names, word = sorted(known), _word(given)
    by_lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.5)
    hint = f" Did you mean {by_lower[near[0]]!r}?" if near else ""
    return InputError(f"unknown {kind} {word!r}.{hint} Known: {', '.join(names)}.")


def _word(given: object) -> str:
    """What was given, cut to a length that a message can show."""
    try:
        text = str(given)
    except ValueError:  # an integer of more digits than Python prints
        return "a number of very many digits"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
