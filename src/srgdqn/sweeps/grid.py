"""What a sweep asks: what all cells share, which values are tried, and the configuration of every cell.

Free of jax, so that a value that cannot be used is told at once.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from srgdqn.adapters.defaults import defaults_of
from srgdqn.config import Configuration, option_names
from srgdqn.config.coercion import coerce, shown
from srgdqn.config.configure import configure
from srgdqn.errors import InputError
from srgdqn.sweeps.notation import known, written

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
    """What the user says beside the names."""

    @functools.cached_property
    def defaults(self) -> dict[str, Any]:
        """What the task's name stands for. That is looked up once, as an environment may have to be made for it."""
        return defaults_of(self.task)

    def configured(self, values: Mapping[str, Any]) -> Configuration:
        """The configuration of the cell with these values."""
        options = {**self.options, **values}
        configuration = configure(self.task, self.algorithm, readings=self.readings, defaults=self.defaults, **options)
        if configuration.network.network not in ("mlp", "cnn"):
            raise InputError(
                f"network is the module {configuration.network.network!r}, which a sweep cannot be given. Sweep with a "
                "built-in network, or train each value with srgdqn.train(…, network=…)."
            )
        return configuration

    def as_words(self) -> dict[str, Any]:
        """The same in JSON's values, with options as a command line has them."""
        options = {name: written(coerce(name, value)) for name, value in sorted(self.options.items())}
        return {"task": self.task, "algorithm": self.algorithm, "readings": self.readings, "options": options}


@dataclass(frozen=True)
class Cell:
    """One combination of values."""

    values: Values
    configuration: Configuration

    @property
    def name(self) -> str:
        """What its folder is called."""
        return name_of(self.values)


def name_of(values: Values) -> str:
    """What the folder of the cell with these values is called.

    >>> name_of({"eta": 0.01, "hidden": (20, 20)})
    'hidden=20+20,eta=0.01'
    """
    # In the settings' order, so that it does not matter in which order options were given.
    ordered = (name for name in option_names() if name in values)
    whole = ",".join(f"{name}={written(values[name])}" for name in ordered)
    if not whole.isprintable() or {"/", "\\"} & set(whole):
        raise InputError(f"{whole!r} cannot be a folder's name. Give options values without slashes.")
    if len(whole) <= _LONGEST_NAME:
        return whole
    return f"{whole[: _LONGEST_NAME - 17]}-{hashlib.sha256(whole.encode()).hexdigest()[:16]}"


def checked_values(values: Mapping[str, Iterable[Any]]) -> dict[str, tuple[Any, ...]]:
    """The values to try of each option, as the options have them."""
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


def cells_of(base: Base, values: Mapping[str, Sequence[Any]]) -> list[Cell]:
    """Every combination of the values, the last option's changing fastest; an `InputError` if one cannot be run."""
    for name in values:
        if name in base.options:
            raise InputError(
                f"{name} is given as one value ({shown(base.options[name])}) and as several. Keep one of the two."
            )
    cells = []
    for combination in itertools.product(*values.values()):
        chosen = dict(zip(values, combination, strict=True))
        try:
            cells.append(Cell(chosen, base.configured(chosen)))
        except InputError as error:
            told = ", ".join(f"{name} = {written(value)}" for name, value in chosen.items())
            raise InputError(f"the cell {told} cannot be run: {error}") from error
    return cells
