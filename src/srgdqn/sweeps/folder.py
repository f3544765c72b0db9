"""The folder of a sweep: every finished cell as an ordinary run, and `sweep.json`, which records what was asked.

A sweep is checked against what the folder was begun for, so that the same command continues it and no other damages it.
Free of jax, as that is checked before anything else.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from srgdqn.config import option_names
from srgdqn.config.checks import check_option
from srgdqn.config.coercion import coerce_number, literal
from srgdqn.config.discovery import ESTIMATORS
from srgdqn.config.estimator_numbers import every_number
from srgdqn.errors import InputError, unknown
from srgdqn.runs.destination import check_destination, is_scratch, make_folder, write_file
from srgdqn.runs.locks import LOCK, locked
from srgdqn.runs.unfinished import UNFINISHED_CELLS, changes, check_stays_within
from srgdqn.runs.untrusted import parse_json, read_file
from srgdqn.sweeps.grid import Base, Score, Values, check_score, name_of, read_value, written

ABOUT, TABLE, CELLS, FAILED, STUDY = "sweep.json", "table.parquet", "cells", "failed", "optuna.sqlite3"

_KIND, _VERSION = "srgdqn-sweep", 1
_LONGEST = 2**24
_NAMED = 8  # cells in a message


class Failure(NamedTuple):
    """A cell without a result, because its environment misbehaved."""

    values: Values
    reason: str
    """What the environment did, in one line."""


@dataclass(frozen=True, eq=False, repr=False)
class About:
    """The content of `sweep.json`: what a sweep was asked, and which cells it has."""

    base: Base
    """What all cells share."""
    plan: dict[str, Any]
    """The `values` of a grid; or the `space` of a search, its `trials` and the sampler's settings."""
    score: Score = "greedy-return"
    """What the best cell is chosen by; `srgdqn.sweeps.scores` defines it."""
    threshold: float | None = None
    """The greedy return from which on a round counts as solved, where that is the score."""
    planned: int = 0
    """Cells of the grid, or trials of the search."""
    finished: tuple[Values, ...] = ()
    """The values of every finished cell."""
    interrupted: bool = True
    """Whether some cells were not tried."""
    failed: tuple[Failure, ...] = ()
    """Cells without a result, because their environment misbehaved; the sweep tries them again when it is resumed."""


@contextlib.contextmanager
def occupied(folder: Path | None) -> Iterator[None]:
    """Makes and locks the folder of a sweep, if it has one."""
    if folder is None:
        yield
        return
    with locked(make_folder(folder), what="the folder of a sweep"):
        yield


def check_folder(folder: str | os.PathLike[str], base: Base, plan: dict[str, Any]) -> Path:
    """The folder as an absolute path, if it is free or holds a sweep of the same base and plan."""
    path = Path(os.path.abspath(folder))
    if not os.path.lexists(path):
        return check_destination(path)
    if not path.is_dir():
        raise InputError(f"{path} exists already and is not a folder. Give another one.")
    if not (path / ABOUT).exists():
        if any(entry.name != LOCK and not is_scratch(entry.name) for entry in path.iterdir()):
            raise InputError(f"{path} exists already and is not the folder of a sweep. Give another folder.")
        return path
    begun = read_about(path)
    for name in (CELLS, FAILED, STUDY):
        if (path / name).is_symlink():
            raise InputError(f"{path / name} leads elsewhere, where a sweep would be written to. Give another folder.")
    check_stays_within(path / UNFINISHED_CELLS)
    different = changes(
        {**_fixed(begun.plan), **begun.base.as_words()},
        {**_fixed(plan), **base.as_words()},
    )
    if different:
        raise InputError(f"{path} holds another sweep: {different[0]}. Give what it was begun with, or another folder.")
    return path


def begin(path: Path, about: About) -> Path:
    """Writes `sweep.json` into an `occupied` folder.

    The folder is checked once more: another process may have begun a sweep there before it was locked.
    """
    make_folder(path)
    check_folder(path, about.base, about.plan)
    if not (path / ABOUT).exists():
        write_about(path, about)
    return path


def write_about(path: Path, about: About) -> None:
    """Writes `sweep.json`."""
    content = {
        "kind": _KIND,
        "version": _VERSION,
        **about.base.as_words(),
        "plan": about.plan,
        "score": about.score,
        "threshold": about.threshold,
        "planned": about.planned,
        "interrupted": about.interrupted,
        "cells": [_words(values) for values in about.finished],
        "failed": [{"values": _words(values), "reason": reason} for values, reason in about.failed],
    }
    write_file(path / ABOUT, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


def read_about(path: Path) -> About:
    """Reads and checks `sweep.json`."""
    place = path / ABOUT
    if not os.path.lexists(place):
        reason = f"it has no {ABOUT}" if path.exists() else "it does not exist"
        raise InputError(f"{path} is not the folder of a sweep: {reason}. Give a folder that a sweep was saved in.")
    try:
        content = parse_json(read_file(place, _LONGEST))
        if content["kind"] != _KIND or content["version"] != _VERSION:
            raise ValueError(f"its kind should be {_KIND!r}, version {_VERSION}")
        named = [each.get("estimator") for each in (content["options"], *content["cells"])]
        unknown_numbers = any(each not in (None, "none", *ESTIMATORS) for each in named)
        options = _values(content["options"], unknown_numbers)
        # Sweeps of older releases have no list of failures.
        failed = tuple(
            Failure(_values(each["values"], unknown_numbers), str(each["reason"])) for each in content.get("failed", ())
        )
        base = Base(str(content["task"]), str(content["algorithm"]), str(content["readings"]), options)
        threshold = content.get("threshold")
        cells = tuple(_values(each, unknown_numbers) for each in content["cells"])
        each_cell = (*cells, *(failure.values for failure in failed))
        if len({frozenset(values.keys() & option_names().keys()) for values in each_cell}) > 1:
            raise ValueError("its cells do not differ in the same options")
        return About(
            base,
            _plan(content["plan"]),
            check_score(content["score"]),
            None if threshold is None else float(threshold),
            int(content["planned"]),
            cells,
            bool(content["interrupted"]),
            failed,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise InputError(
            f"{place} cannot be used: {error}. Restore it from a copy, or sweep into another folder."
        ) from error


def cell_folder(path: Path, values: Values) -> Path:
    """The folder of the cell with these values in the folder of a sweep, which it must not lead out of."""
    place = path / CELLS / name_of(values)
    for each in (place.parent, place):
        if each.is_symlink():
            raise InputError(f"{each} leads elsewhere. Give a folder that holds all of its sweep.")
    return place


def run_folders(place: Path) -> list[Path]:
    """The folders of the runs that are named: of a run its own; of a sweep those of its finished cells or, as in
    `runs/grid:eta=0.01,gamma=0.9`, of the cells with these values.
    """
    folder, colon, words = place, "", ""
    if not os.path.lexists(place):
        before, colon, words = str(place).rpartition(":")
        folder = Path(before) if colon else place
    if not (folder / ABOUT).exists():
        return [place]
    finished = read_about(folder).finished
    wanted = _wanted(words, finished, folder) if colon else {}
    cells = [values for values in finished if wanted.items() <= values.items()]
    if not cells:
        named = "; ".join(name_of(values) for values in finished[:_NAMED]) or "none"
        more = f"; and {len(finished) - _NAMED} more" if len(finished) > _NAMED else ""
        raise InputError(f"{place} names no cell. Give the values of a finished one: {named}{more}.")
    return [cell_folder(folder, values) for values in cells]


def _wanted(words: str, finished: Sequence[Values], folder: Path) -> Values:
    wanted = {}
    for word in words.split(","):
        name, equals, value = word.partition("=")
        name = name.replace("-", "_")
        if not equals or not any(name in values for values in finished):
            options = ", ".join(dict.fromkeys(itertools.chain(*finished))) or "none"
            raise InputError(
                f"{word!r} says nothing about the cells of {folder}, which differ in {options}. Write an option, = and "
                "its value after the colon, such as :eta=0.01."
            )
        wanted[name] = _stored_value(name, value, unknown_numbers=True)
    return wanted


def _words(values: Values) -> dict[str, str]:
    return {name: written(value) for name, value in values.items()}


def _values(words: dict[str, str], unknown_numbers: bool) -> Values:
    return {name: _stored_value(name, word, unknown_numbers) for name, word in words.items()}


def _stored_value(name: str, word: str, unknown_numbers: bool) -> Any:
    """The value of an option or, where there may be `unknown_numbers`, of a number that no estimator known here has.
    Nothing is imported for it.
    """
    if name in option_names() or name in every_number():
        return check_option(name, read_value(name, word))
    if not unknown_numbers or not name.isidentifier():
        raise unknown("option of a sweep", name, option_names())
    return coerce_number(name, literal(word))


def _plan(content: Any) -> dict[str, Any]:
    """The plan, if it has the form that is written."""
    listed = content.get("values", {}).values()
    if not all(isinstance(words, list) and all(isinstance(word, str) for word in words) for words in listed):
        raise ValueError("its plan is not a sweep's")
    if ("space" in content) != ("sampler_seed" in content) or not isinstance(content.get("space", {}), dict):
        raise ValueError("its plan is not a sweep's")
    return dict(content)


def _fixed(plan: dict[str, Any]) -> dict[str, Any]:
    """The part of a plan that may not change: a grid may grow, and trials be added, but a study searches one space."""
    if "space" not in plan:
        return {"kind": "a grid"}
    return {"kind": "a search", "space": plan["space"], "sampler_seed": plan["sampler_seed"]}
