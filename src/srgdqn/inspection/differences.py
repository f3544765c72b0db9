"""What differs between a stored run and a recomputed one: bits of tables and parameters, and conditions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
import polars as pl

from srgdqn.inspection.saved_run import SavedRun
from srgdqn.runs.provenance import what_bits_depend_on
from srgdqn.runs.tables import SCHEMAS, frame
from srgdqn.session.prepare import provenance_of
from srgdqn.training.tables import Tables
from srgdqn.training.user_code import user_code

COMPARED = tuple(name for name in SCHEMAS if name != "timings")
"""The tables that two runs of one configuration have in common."""


class Difference(NamedTuple):
    """The first place where a table, or an array of parameters, differs."""

    where: str  # the table's name, or the path of the parameter
    column: str | None  # None for parameters, and where one table has more rows
    place: tuple[int, ...]  # the row among the round's own, or the index in the array
    step: int | None  # environment steps by then, where the table has them
    stored: Any
    recomputed: Any
    relative: float | None  # of all of a parameter's numbers: the norm of the difference over the stored norm

    @property
    def words(self) -> str:
        """What differs, as text."""
        at = "" if self.step is None else f" (step {self.step:,})"
        if self.column is None and self.relative is None:
            return f"{self.where} has {self.stored} rows of the round, and {self.recomputed} were recomputed"
        if self.column is None:
            place = ", ".join(map(str, self.place))
            return (
                f"{self.where}[{place}] is {self.stored!r}, and {self.recomputed!r} was recomputed; the whole array "
                f"differs by {self.relative:.2g} of its norm"
            )
        return (
            f"{self.where}.{self.column}, row {self.place[0]} of the round{at}, is {self.stored!r}, and "
            f"{self.recomputed!r} was recomputed"
        )


def table_differences(
    stored: Mapping[str, pl.DataFrame], recomputed: Tables, number: int, until: int | None = None, window: int = 1
) -> tuple[list[Difference], dict[str, int]]:
    """The first difference of each table's rows of a round, and how many rows of each were compared.

    `until`: only rows up to so many steps, and of the curves only windows that are whole by then.
    """
    found, compared = [], {}
    for name in COMPARED:
        if (until is not None and name in ("rounds", "policies")) or not (name in stored or name in recomputed):
            continue
        rows = pl.col("round") == number
        if until is not None:
            rows &= pl.col("step") <= (until // window * window if name == "curves" else until)
        fresh = frame(name, recomputed.get(name) or dict.fromkeys(SCHEMAS[name], ()))
        then, now = stored[name].filter(rows), fresh.filter(rows)
        compared[name] = then.height
        difference = _first(name, then, now)
        if difference is not None:
            found.append(difference)
    return sorted(found, key=lambda each: (each.step is None, each.step or 0)), compared


def parameter_differences(
    stored: Mapping[str, np.ndarray], recomputed: Mapping[str, np.ndarray]
) -> tuple[list[Difference], int]:
    """The first difference of every array that differs, and how many arrays were compared."""
    found = []
    for path in dict.fromkeys((*stored, *recomputed)):
        then, now = stored.get(path), recomputed.get(path)
        if then is None or now is None or then.shape != now.shape or then.dtype != now.dtype:
            found.append(Difference(path, None, (), None, _kind(then), _kind(now), float("nan")))
            continue
        places = np.argwhere(_bits(then) != _bits(now))
        if len(places):
            place = tuple(int(index) for index in places[0])
            relative = relative_distance([now], [then])
            found.append(Difference(path, None, place, None, then[place].item(), now[place].item(), relative))
    return found, len(stored)


def distance(one: Iterable[Any], other: Iterable[Any]) -> float:
    """The norm of the difference of all numbers in some arrays, in double precision."""
    return float(np.linalg.norm(_flat(one) - _flat(other)))


def relative_distance(one: Iterable[Any], other: Iterable[Any]) -> float:
    """The same relative to the norm of the second arrays."""
    other = list(other)
    return distance(one, other) / max(float(np.linalg.norm(_flat(other))), np.finfo(float).tiny)


def _flat(arrays: Iterable[Any]) -> np.ndarray:
    return np.concatenate([np.asarray(array, float).ravel() for array in arrays])


def _kind(array: np.ndarray | None) -> str:
    return "nothing" if array is None else f"{array.dtype} of shape {array.shape}"


def _first(name: str, then: pl.DataFrame, now: pl.DataFrame) -> Difference | None:
    rows = min(then.height, now.height)
    differ = np.array([_differ(then[column][:rows], now[column][:rows]) for column in then.columns])
    if differ.any():
        row = int(differ.any(axis=0).argmax())
        column = then.columns[int(differ[:, row].argmax())]
        return Difference(name, column, (row,), _step(then, row), then[column][row], now[column][row], None)
    if then.height != now.height:
        longer = then if then.height > rows else now
        return Difference(name, None, (rows,), _step(longer, rows), then.height, now.height, None)
    return None


def _step(table: pl.DataFrame, row: int) -> int | None:
    return table["step"][row] if "step" in table.columns else None


def _differ(then: pl.Series, now: pl.Series) -> np.ndarray:
    """Of every row, whether it holds other bits."""
    if then.dtype.is_float():
        nulls = then.is_null().to_numpy() != now.is_null().to_numpy()
        return nulls | (_bits(then.fill_null(0.0).to_numpy()) != _bits(now.fill_null(0.0).to_numpy()))
    return then.ne_missing(now).to_numpy()


def _bits(array: np.ndarray) -> np.ndarray:
    array = np.ascontiguousarray(array)
    return array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "f" else array


_YOURS = "your "
_ALWAYS = ("machine", "instruction_sets", "compiler", "backend", "computation")


class Condition(NamedTuple):
    """A condition that differs."""

    name: str
    then: Any
    now: Any

    @property
    def words(self) -> str:
        """Both values, as text."""
        return f"{self.name}: {_shown(self.then)} then, {_shown(self.now)} here"


def differing_conditions(saved: SavedRun) -> list[Condition]:
    """The conditions that differ here from when the run was made. Where there are none, equal bits are promised.

    What a run of an older release does not record counts as different.
    """
    then = saved.result.run.provenance
    now = {**provenance_of(saved.configuration, on_host=saved.result.on_host), "backend": jax.default_backend()}
    before, versions = then.get("versions") or {}, now["versions"]
    compared = {f"version of {name}": (before.get(name), versions.get(name)) for name in before | versions}
    compared |= {name.replace("_", " "): (then.get(name), now.get(name)) for name in _ALWAYS}
    found = [Condition(name, old, new) for name, (old, new) in compared.items() if old != new]
    return found + _changed_user_code(saved)


def only_sources(conditions: list[Condition]) -> bool:
    """Whether nothing differs but the package's version or the user's code, which may well compute the same."""
    named = ("computation", "version of srgdqn")
    return all(each.name in named or each.name.startswith(_YOURS) for each in conditions)


def _changed_user_code(saved: SavedRun) -> list[Condition]:
    """The user's own code that has changed. What only one of the two records may be the same, such as an environment
    that was given as an instance and is made from its id now.
    """
    then = what_bits_depend_on(saved.result.run.provenance)["user_code"]
    now = user_code(saved.configuration, saved.network, saved.environment)
    return [
        Condition(f"{_YOURS}{name}", _part(then[name]), _part(now[name]))
        for name in now
        if name in then and (then[name] != now[name] or "unidentified" in now[name])
    ]


def _part(about: dict[str, Any]) -> str:
    digests = [str(about[name]) for name in ("source", "values") if about.get(name) is not None]
    why = [f"({about['unidentified']})"] if "unidentified" in about else []
    return " ".join([str(about.get("name")), *digests, *why])


def _shown(value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return str(value)
