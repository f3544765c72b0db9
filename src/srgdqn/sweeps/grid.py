"""What a sweep asks: the options that all cells share, the values tried, the score, and every cell's configuration.

Free of jax, so that the command line can refuse a value at once.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin

from srgdqn.adapters.defaults import defaults_of
from srgdqn.config import Configuration, option_names
from srgdqn.config.coercion import annotation_of, coerce, literal
from srgdqn.config.configure import configure
from srgdqn.config.discovery import NETWORKS, known_estimator
from srgdqn.config.effects import check_effects
from srgdqn.config.estimator_numbers import every_number, is_number, numbers_of_estimator
from srgdqn.config.other_names import unknown_option
from srgdqn.errors import InputError, shown, unknown

Score = Literal["greedy-return", "final-reward", "area", "solved"]
SCORES: tuple[Score, ...] = get_args(Score)
"""What the best cell is chosen by; `srgdqn.sweeps.scores` defines them."""

_SOLVED = "solved"

_FLAGS = {"true": True, "false": False}
_FIXED_OPTIONS = ("task", "network")


def check_score(score: str) -> Score:
    """The score, if there is one of that name."""
    for each in SCORES:
        if score == each:
            return each
    raise unknown("score", score, SCORES)


def check_threshold(score: Score, threshold: Any, task: str) -> float | None:
    """The return from which on a round counts as solved, where that is the score: the one given, or Gymnasium's."""
    if score != _SOLVED:
        if threshold is not None:
            raise InputError(
                f"threshold is {shown(threshold)}, but the score is {score}, which has none. Leave the threshold out, "
                f"or give the score {_SOLVED}."
            )
        return None
    from srgdqn.adapters.registry import reward_threshold

    found = reward_threshold(task, threshold)
    if found is None:
        raise InputError(
            f"Gymnasium does not say from which return on {task} is solved. Give it: threshold = … in Python, or "
            "--threshold."
        )
    return found


def read_value(name: str, text: str) -> Any:
    """The value that a word of the command line stands for; widths are joined by +.

    >>> read_value("hidden", "20+20"), read_value("eta", "1e-3"), read_value("anchor_step", "false")
    ((20, 20), 0.001, False)
    """
    annotation = annotation_of(name if name == "network" else known(name))  # which all cells may share
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
    """The option's name, if it exists and cells may differ in it."""
    names = [each for each in option_names() if each not in _FIXED_OPTIONS]
    if name in names or is_number(name):
        return name
    raise unknown_option(name, (*names, *every_number()), "option of a sweep")


Values = dict[str, Any]
"""The options of one cell that differ between cells."""

_LONGEST_NAME = 200  # what file systems allow is 255 bytes


@dataclass(frozen=True)
class Base:
    """What all cells share."""

    task: str
    algorithm: str = "srg-dqn"
    readings: str = "corrected"
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options given by the user."""
    own: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The user's own environment and network, as of `srgdqn.session.prepare.Given`."""
    own_defaults: Mapping[str, Any] | None = field(default=None, compare=False)
    """The defaults of the user's own environment, where no name tells them."""

    @functools.cached_property
    def defaults(self) -> Mapping[str, Any]:
        """The task's defaults; cached, as an environment may have to be made for them."""
        return defaults_of(self.task) if self.own_defaults is None else self.own_defaults

    def configured(self, values: Mapping[str, Any], without: Collection[str] = ()) -> Configuration:
        """The configuration of the cell with these values, `without` some of the options that others have."""
        options = {name: value for name, value in {**self.options, **values}.items() if name not in without}
        configuration = configure(self.task, self.algorithm, readings=self.readings, defaults=self.defaults, **options)
        if configuration.network.network not in NETWORKS and "network" not in self.own:
            raise InputError(
                f"network is {configuration.network.network!r}, the name of a module that is not here. Give the module "
                "itself: network=…, in Python."
            )
        return configuration

    def as_words(self) -> dict[str, Any]:
        """The same as JSON values, with options as on a command line."""
        options = {
            # A number that nobody knows is of a stored sweep, whose estimator is not registered here.
            name: written(coerce(name, value) if name in option_names() or name in every_number() else value)
            for name, value in sorted(self.options.items())
        }
        return {"task": self.task, "algorithm": self.algorithm, "readings": self.readings, "options": options}


@dataclass(frozen=True)
class SweepCell:
    """One combination of values."""

    values: Values
    configuration: Configuration

    @property
    def name(self) -> str:
        """The name of its folder."""
        return name_of(self.values)


def name_of(values: Values) -> str:
    """The folder name of the cell with these values.

    >>> name_of({"eta": 0.01, "hidden": (20, 20)})
    'hidden=20+20,eta=0.01'
    """
    # In the settings' order, and an estimator's own numbers last, so that it does not matter how options were given.
    settings = [name for name in option_names() if name in values]
    ordered = [*settings, *sorted(values.keys() - set(settings))]
    whole = ",".join(f"{name}={written(values[name])}" for name in ordered)
    if not whole.isprintable() or {"/", "\\"} & set(whole):
        raise InputError(f"{whole!r} cannot be a folder's name. Give options values without slashes.")
    if len(whole) <= _LONGEST_NAME:
        return whole
    return f"{whole[: _LONGEST_NAME - 17]}-{hashlib.sha256(whole.encode()).hexdigest()[:16]}"


def checked_values(values: Mapping[str, Iterable[Any]]) -> dict[str, tuple[Any, ...]]:
    """The values to try of each option, in the options' own types."""
    if not values:
        raise InputError(
            "there is nothing to sweep over. Give some option several values, such as eta = [0.001, 0.01]."
        )
    tried: dict[str, tuple[Any, ...]] = {}
    for name, several in values.items():
        known(name)
        if isinstance(several, str) or not isinstance(several, Iterable):
            raise InputError(
                f"{name} is {shown(several)}, which is not a list of values. Write {name} = [{shown(several)}]."
            )
        tried[name] = tuple(coerce(name, value) for value in several)
        if not tried[name]:
            raise InputError(f"{name} has no values. Give at least one, or leave {name} out.")
        for index, value in enumerate(tried[name]):
            if value in tried[name][:index]:
                raise InputError(f"{name} is given {written(value)} twice. Keep one of them.")
    return tried


def cells_of(base: Base, values: Mapping[str, Sequence[Any]], *, collapsed: bool = False) -> list[SweepCell]:
    """Every combination of the values, the last option's changing fastest; an `InputError` if one cannot be run.
    `collapsed`: an estimator that lacks a number of another's has one cell for all values of that number.
    """
    for name in values:
        if name in base.options:
            raise InputError(
                f"{name} is given as one value ({shown(base.options[name])}) and as several. Keep one of the two."
            )
    lacking = _lacking(base, values) if collapsed else {}
    cells: dict[tuple[Any, ...], SweepCell] = {}
    for combination in itertools.product(*values.values()):
        whole = dict(zip(values, combination, strict=True))
        without = lacking.get(whole.get("estimator"), frozenset())
        chosen = {name: value for name, value in whole.items() if name not in without}
        if (key := tuple(chosen.items())) in cells:
            continue
        try:
            cells[key] = SweepCell(chosen, base.configured(chosen, without))
        except InputError as error:
            named = ", ".join(f"{name} = {written(value)}" for name, value in chosen.items())
            raise InputError(f"the cell {named} cannot be run: {error}") from error
    return list(cells.values())


def _lacking(base: Base, values: Mapping[str, Sequence[Any]]) -> dict[Any, frozenset[str]]:
    """The numbers given that each estimator of several lacks, and another of them has."""
    given = {*values, *base.options} - option_names().keys()
    has = {
        each: given & numbers_of_estimator(each).keys() for each in values.get("estimator", ()) if known_estimator(each)
    }
    return {each: frozenset().union(*has.values()) - own for each, own in has.items()}


class GridPlan:
    """A checked grid: every combination of the values of some options."""

    def __init__(self, base: Base, values: Mapping[str, Iterable[Any]]) -> None:
        self.base, self.values = base, checked_values(values)
        self.cells = {cell.name: cell for cell in cells_of(base, self.values, collapsed=True)}
        check_effects({**base.options, **self.values}, [cell.configuration for cell in self.cells.values()])
        self.first, self.planned = next(iter(self.cells.values())), len(self.cells)
        self.amount = f"{self.planned} cells"

    def as_words(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {"values": {name: [written(value) for value in values] for name, values in self.values.items()}}
