"""The folder of a sweep: every finished cell as an ordinary run, and `sweep.json`, which tells what was asked.

What is asked is checked against what the folder was begun for, so that the same command continues it and no other
harms it. Free of jax, as that is done before anything else.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from srgdqn.config.checks import check_option
from srgdqn.errors import InputError
from srgdqn.runs import strict_json
from srgdqn.runs.destination import check_destination, make_folder, write_file
from srgdqn.runs.folders import read_ordinary
from srgdqn.runs.locks import LOCK, locked
from srgdqn.runs.run_folder import CELLS_UNDER_WAY, changes, check_stays_within
from srgdqn.runs.scratch import is_scratch
from srgdqn.sweeps.grid import Base, Values
from srgdqn.sweeps.notation import read_value

ABOUT, TABLE, CELLS, FAILED, STUDY = "sweep.json", "table.parquet", "cells", "failed", "optuna.sqlite3"

_KIND, _VERSION = "srgdqn-sweep", 1
_LONGEST = 2**24


class Failure(NamedTuple):
    """A cell that came to nothing, because its environment misbehaved."""

    values: Values
    reason: str
    """What the environment did, in one line."""


class About(NamedTuple):
    """What `sweep.json` tells."""

    base: Base
    plan: dict[str, Any]
    """What is tried: `values` of a grid; or the `space` of a search, its `trials`, and how they are asked for."""
    score: str = "greedy-return"
    chance: float | None = None
    """The random policy's final reward, where some score needed it."""
    planned: int = 0
    """Cells of a grid, or trials of a search."""
    cells: tuple[dict[str, Any], ...] = ()
    """The values of every finished cell."""
    interrupted: bool = True
    """Whether something is left that was not tried."""
    failed: tuple[Failure, ...] = ()


@contextlib.contextmanager
def occupied(folder: Path | None) -> Iterator[None]:
    """Makes the folder of a sweep, where it is to have one, and makes it nobody else's until this ends."""
    if folder is None:
        yield
        return
    with locked(make_folder(folder), what="the folder of a sweep"):
        yield


def check_folder(folder: str | os.PathLike[str], base: Base, plan: dict[str, Any]) -> Path:
    """The folder as an absolute path, if it is free, or was begun for cells that share the same things."""
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
    check_stays_within(path / CELLS_UNDER_WAY)
    different = changes(
        {**_fixed(begun.plan), **begun.base.as_words()},
        {**_fixed(plan), **base.as_words()},
    )
    if different:
        raise InputError(f"{path} holds another sweep: {different[0]}. Give what it was begun with, or another folder.")
    return path


def begin(path: Path, about: About) -> Path:
    """Says what a folder is for that is `occupied`.

    It is checked once more: before it was occupied, somebody else may have begun another sweep there.
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
        "random_policy": about.chance,
        "planned": about.planned,
        "interrupted": about.interrupted,
        "cells": about.cells,
        "failed": [failure._asdict() for failure in about.failed],
    }
    write_file(path / ABOUT, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


def read_about(path: Path) -> About:
    """What `sweep.json` tells; the values of cells are still words."""
    place = path / ABOUT
    if not os.path.lexists(place):
        reason = f"it has no {ABOUT}" if path.exists() else "it does not exist"
        raise InputError(f"{path} is not the folder of a sweep: {reason}. Give a folder that a sweep was saved in.")
    try:
        content = strict_json.parse(read_ordinary(place, _LONGEST))
        if content["kind"] != _KIND or content["version"] != _VERSION:
            raise ValueError(f"its kind should be {_KIND!r}, version {_VERSION}")
        options = _values(content["options"])
        # Before there was a list of failures, a sweep had none.
        failed = tuple(Failure(_values(each["values"]), str(each["reason"])) for each in content.get("failed", ()))
        base = Base(str(content["task"]), str(content["algorithm"]), str(content["readings"]), options)
        chance = content["random_policy"]
        cells = tuple(map(_values, content["cells"]))
        if len({tuple(sorted(values)) for values in (*cells, *(failure.values for failure in failed))}) > 1:
            raise ValueError("its cells do not differ in the same options")
        return About(
            base,
            _plan(content["plan"]),
            str(content["score"]),
            None if chance is None else float(chance),
            int(content["planned"]),
            cells,
            bool(content["interrupted"]),
            failed,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise InputError(
            f"{place} cannot be used: {error}. Restore it from a copy, or sweep into another folder."
        ) from error


def _values(words: dict[str, str]) -> Values:
    return {name: check_option(name, read_value(name, word)) for name, word in words.items()}


def _plan(told: Any) -> dict[str, Any]:
    """What was to be tried, if it is of the kind that is written."""
    listed = told.get("values", {}).values()
    if not all(isinstance(words, list) and all(isinstance(word, str) for word in words) for words in listed):
        raise ValueError("its plan is none")
    if ("space" in told) != ("sampler_seed" in told) or not isinstance(told.get("space", {}), dict):
        raise ValueError("its plan is none")
    return dict(told)


def _fixed(plan: dict[str, Any]) -> dict[str, Any]:
    """What may not change: a grid may grow, and trials be added, but a study searches one space."""
    if "space" not in plan:
        return {"kind": "a grid"}
    return {"kind": "a search", "space": plan["space"], "sampler_seed": plan["sampler_seed"]}
