"""What a search asks: ranges and choices of options, the number of trials, and how they are asked for.

`eta=1e-4..1e-1` is a range, log-uniform as it spans a decade or more; `gamma=0.9..0.99` is uniform. `log:` or `lin:`
before the lower end decides. Options that are whole numbers take whole numbers only. `hidden=20,20+20` is a choice.
Free of jax and of Optuna.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from srgdqn.config.coercion import annotation_of, coerce
from srgdqn.config.effects import check_effects
from srgdqn.errors import InputError, shown
from srgdqn.extras import require
from srgdqn.sweeps.grid import Base, SweepCell, Values, cells_of, known, read_value, written

_RANGE = re.compile(r"(?:(log|lin):)?(.+?)\.\.(.+)")
_DECADE = 10


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included."""

    low: float
    high: float
    log: bool
    whole: bool
    """Whether only whole numbers count."""

    def ends(self) -> tuple[Any, ...]:
        """Values that are checked before anything runs."""
        return self.low, self.high

    def __str__(self) -> str:
        return f"{'log' if self.log else 'lin'}:{written(self.low)}..{written(self.high)}"


@dataclass(frozen=True)
class Choice:
    """One of some values."""

    values: tuple[Any, ...]

    def ends(self) -> tuple[Any, ...]:
        """Values that are checked before anything runs."""
        return self.values

    def __str__(self) -> str:
        return ",".join(map(written, self.values))


Space = dict[str, Range | Choice]


def space_of(given: Mapping[str, Any]) -> Space:
    """The space by option: a pair of numbers is a range, a list a choice, a word as the module's docstring says.

    >>> for name, part in space_of({"eta": (1e-4, 1e-1), "loss": ["squared", "huber"], "gamma": "0.9..0.99"}).items():
    ...     print(name, part)
    eta log:0.0001..0.1
    loss squared,huber
    gamma lin:0.9..0.99
    """
    if not given:
        raise InputError("there is nothing to search. Give some option a range, such as eta=1e-4..1e-1.")
    return {known(name): _part(name, part) for name, part in given.items()}


def space_from_words(words: list[str]) -> Space:
    """The space from words such as `eta=1e-4..1e-1`."""
    given: dict[str, str] = {}
    for word in words:
        name, equals, part = word.partition("=")
        name = name.replace("-", "_")
        if not equals or not part:
            raise InputError(
                f"{word!r} does not say what to search. Write an option, = and a range or choices, such as "
                "eta=1e-4..1e-1 or loss=squared,huber."
            )
        if name in given:
            raise InputError(f"{name} is searched twice, in {given[name]} and in {part}. Keep one of them.")
        given[name] = part
    return space_of(given)


def _part(name: str, part: Any) -> Range | Choice:
    if isinstance(part, Range | Choice):
        return part
    if isinstance(part, str):
        if match := _RANGE.fullmatch(part):
            scale, low, high = match.groups()
            return _range(name, read_value(name, low), read_value(name, high), scale)
        return _choice(name, [read_value(name, word) for word in part.split(",")])
    if isinstance(part, tuple) and len(part) == 2:
        return _range(name, *part, None)
    if isinstance(part, list):
        return _choice(name, part)
    raise InputError(
        f"{name} is {shown(part)}, which is neither a range nor choices. Give a pair (low, high), a list of values, "
        "or a word such as '1e-4..1e-1'."
    )


def _range(name: str, low: Any, high: Any, scale: str | None) -> Range:
    annotation = annotation_of(name)
    kinds = (annotation, *get_args(annotation))
    if get_origin(annotation) is tuple or not {int, float} & set(kinds):
        raise InputError(f"{name} is no number, so that it has no range. Give its values, such as {name}=a,b.")
    low, high = coerce(name, low), coerce(name, high)
    if low is None or high is None or not low < high:
        raise InputError(
            f"the range of {name} is from {written(low)} to {written(high)}, but must go up. Write the lower end first."
        )
    if scale == "log" and not low > 0:
        raise InputError(f"the range of {name} begins at {low}, which has no logarithm. Begin above 0, or write lin:.")
    log = scale == "log" if scale else low > 0 and high >= _DECADE * low
    return Range(low, high, log, whole=float not in kinds)


def _choice(name: str, values: list[Any]) -> Choice:
    chosen = tuple(coerce(name, value) for value in values)
    if len(set(chosen)) < len(chosen) or not chosen:
        raise InputError(
            f"the choices of {name} are {', '.join(map(written, chosen)) or 'none'}, but must be different ones. Give "
            "each once."
        )
    return Choice(chosen)


AT_ONCE = 8  # trials that run side by side where one program serves them all
MOST_AT_ONCE = 10**4
_MOST_CORNERS = 256
_LARGEST_SEED = 2**32 - 1


class SearchPlan:
    """A checked search: every end of every range can be trained, and Optuna is installed."""

    def __init__(
        self, base: Base, space: Space, *, trials: int = 40, at_once: int | None = None, sampler_seed: int = 0
    ) -> None:
        for name, value, least, most in (
            ("trials", trials, 1, 10**6),
            ("at_once", AT_ONCE if at_once is None else at_once, 1, MOST_AT_ONCE),
            ("sampler_seed", sampler_seed, 0, _LARGEST_SEED),
        ):
            if type(value) is not int or not least <= value <= most:
                raise InputError(f"{name} is {shown(value)}, but must be a whole number from {least} to {most}.")
        require("optuna", "optuna", "Searching")
        corners = _corners(base, space)
        given = {name: str(part) for name, part in space.items()}
        check_effects({**base.options, **given}, [corner.configuration for corner in corners])
        alike = len({corner.configuration.shape() for corner in corners}) == 1
        self.base, self.space, self.sampler_seed = base, space, sampler_seed
        self.at_once = at_once or (AT_ONCE if alike else 1)
        """Trials asked for before the score of any of them is known."""
        self.first, self.planned, self.amount = corners[0], trials, f"{trials} trials"

    def as_words(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "space": {name: str(part) for name, part in self.space.items()},
            "trials": self.planned,
            "at_once": self.at_once,
            "sampler_seed": self.sampler_seed,
        }

    def cell(self, values: Values) -> SweepCell:
        """The cell with these values; an `InputError` if these, each valid alone, cannot be combined."""
        return SweepCell(values, self.base.configured(values))


def _corners(base: Base, space: Space) -> list[SweepCell]:
    """The cells at the ends of all ranges or, where these are too many, of one at a time."""
    ends = {name: part.ends() for name, part in space.items()}
    if math.prod(map(len, ends.values())) <= _MOST_CORNERS:
        return cells_of(base, ends)
    firsts = {name: values[:1] for name, values in ends.items()}
    return [cell for name, values in ends.items() for cell in cells_of(base, {**firsts, name: values})]
