"""The folder of a sweep, where two are begun at the same moment."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from srgdqn.errors import InputError
from srgdqn.sweeps import run_grid, run_search
from srgdqn.sweeps.folder import About, begin, check_folder, occupied, read_about
from srgdqn.sweeps.grid import Base, cells_of, checked_values
from srgdqn.sweeps.space import search_plan, space_of
from tiny import TINY

TRIED = checked_values({"eta": [1e-3, 1e-2]})
MINE, OTHERS = (Base("CartPole", "srg-dqn", "corrected", {**TINY, "seed": seed}) for seed in (0, 1))


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("something was trained")

    monkeypatch.setattr("srgdqn.sweeps.cells.train_each", refuse)


@pytest.mark.parametrize("kind", ["grid", "search"])
def test_a_folder_that_somebody_began_meanwhile_is_theirs(kind: str, untrained: None, tmp_path: Path) -> None:
    """Between the check and the lock, which both must pass."""
    folder = tmp_path / "sweep"
    plan = search_plan(MINE, space_of({"eta": (1e-3, 1e-2)}), trials=2, at_once=None, sampler_seed=0)
    asked = run_grid.plan_of(TRIED) if kind == "grid" else plan.as_words()
    assert check_folder(folder, MINE, asked) == folder
    with occupied(folder):
        begin(folder, About(OTHERS, asked, planned=2))
    if kind == "grid":
        run: Any = functools.partial(run_grid.run_grid, MINE, TRIED, cells_of(MINE, TRIED))
    else:
        run = functools.partial(run_search.run_search, MINE, plan)
    with pytest.raises(InputError, match=r"sweep holds another sweep: \w+ was .+, and now is .+\. Give"):
        run(folder, "greedy-return", lambda progress: None)
    assert read_about(folder).base.as_words() == OTHERS.as_words()


def test_a_folder_that_was_filled_meanwhile_is_left_alone(untrained: None, tmp_path: Path) -> None:
    folder = check_folder(tmp_path / "sweep", MINE, run_grid.plan_of(TRIED))
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="is not the folder of a sweep"):
        run_grid.run_grid(MINE, TRIED, cells_of(MINE, TRIED), folder, "greedy-return", lambda progress: None)
    assert [entry.name for entry in folder.iterdir()] == ["thesis.tex"]


def test_a_folder_whose_first_file_was_never_finished_is_free(tmp_path: Path) -> None:
    """As a kill in the first moment leaves it."""
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / ".srgdqn-0123456789abcdef.json").write_text("{")
    assert check_folder(tmp_path / "sweep", MINE, run_grid.plan_of(TRIED)) == tmp_path / "sweep"
