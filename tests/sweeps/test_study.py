"""Optuna's study: ended between any two statements of its storage, it goes on to the same trials."""

from __future__ import annotations

import dataclasses
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from srgdqn.errors import InputError
from srgdqn.sweeps.grid import Base, Values
from srgdqn.sweeps.run_search import Study, open_study
from srgdqn.sweeps.space import SearchPlan, search_plan, space_of
from tiny import TINY

optuna = pytest.importorskip("optuna")
sqlalchemy = pytest.importorskip("sqlalchemy")

SPACE = {"eta": (1e-4, 1e-1), "gamma": [0.9, 0.99]}


class KilledError(BaseException):
    """As if the process were gone. What was not committed is not there."""


@pytest.fixture(autouse=True)
def unsynced() -> Iterator[None]:
    """No power is cut here, and syncing would take most of the time."""

    def connected(connection: Any, record: Any) -> None:
        connection.execute("PRAGMA synchronous = OFF")

    sqlalchemy.event.listen(sqlalchemy.engine.Engine, "connect", connected)
    yield
    sqlalchemy.event.remove(sqlalchemy.engine.Engine, "connect", connected)


def plan_of(trials: int = 17, at_once: int = 3) -> SearchPlan:
    return search_plan(Base("CartPole", options=TINY), space_of(SPACE), trials=trials, at_once=at_once)


def score(values: Values) -> float:
    return -abs(math.log10(values["eta"]) + 2.5) + values["gamma"]


def make(study: Study, plan: SearchPlan) -> None:
    """All trials of a search, without training anything."""
    study.resume()
    while study.ended < plan.trials:
        for number, values in study.ask().items():
            study.end(number, score(values))


def trials(path: Path) -> list[tuple[int, str, dict[str, Any], Any]]:
    [study] = optuna.storages.RDBStorage(f"sqlite:///{path}").get_all_studies()
    stored = optuna.load_study(study_name=study.study_name, storage=f"sqlite:///{path}").trials
    return [(trial.number, trial.state.name, trial.params, trial.values) for trial in stored]


def searched(path: Path, plan: SearchPlan) -> list[tuple[int, str, dict[str, Any], Any]]:
    with open_study(path, plan) as study:
        make(study, plan)
    return trials(path)


class Killer:
    """Ends the process before the statement with that number that changes something."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, connection: Any, cursor: Any, statement: str, *others: Any) -> None:
        if statement.lstrip().upper().startswith("SELECT") or "PRAGMA" in statement:
            return
        if self.left == 0:
            raise KilledError
        self.left -= 1


def killed(path: Path, plan: SearchPlan, at: int) -> bool:
    """Whether a search was killed before that statement; it was over by then otherwise."""
    killer = Killer(at)
    sqlalchemy.event.listen(sqlalchemy.engine.Engine, "before_cursor_execute", killer)
    try:
        with open_study(path, plan) as study:
            make(study, plan)
    except KilledError:
        return True
    finally:
        sqlalchemy.event.remove(sqlalchemy.engine.Engine, "before_cursor_execute", killer)
    return False


def test_killed_before_any_statement_it_makes_the_same_trials(tmp_path: Path) -> None:
    plan, empty = plan_of(trials=3, at_once=2), tmp_path / "empty.sqlite3"
    with open_study(empty, plan):
        pass
    undisturbed = searched(Path(shutil.copy(empty, tmp_path / "undisturbed.sqlite3")), plan)
    assert len({trial[2]["eta"] for trial in undisturbed}) == 3
    at = 0
    while killed(path := Path(shutil.copy(empty, tmp_path / f"{at}.sqlite3")), plan, at):
        assert searched(path, plan) == undisturbed, at
        at += 1
    assert at > 3 * 3  # each trial is made, given its parameters, and told


def test_killed_while_its_file_is_made_it_is_made_again(tmp_path: Path) -> None:
    plan = plan_of(trials=2, at_once=2)
    undisturbed = searched(tmp_path / "undisturbed.sqlite3", plan)
    for at in (0, 1, 7, 15):
        assert killed(tmp_path / f"{at}.sqlite3", plan, at)
        assert searched(tmp_path / f"{at}.sqlite3", plan) == undisturbed, at


def test_a_batch_is_seeded_by_what_came_before_it(tmp_path: Path) -> None:
    whole = searched(tmp_path / "whole.sqlite3", plan_of())
    assert [state for _, state, *_ in whole] == ["COMPLETE"] * 17
    path = tmp_path / "parts.sqlite3"
    for _ in range(40):  # a process for every trial that is told
        with open_study(path, plan_of()) as study:
            study.resume()
            if study.ended == 17:
                break
            number, values = next(iter(study.ask().items()))
            study.end(number, score(values))
    assert trials(path) == whole


def test_it_goes_on_with_other_numbers_at_once_and_with_options_in_another_order(tmp_path: Path) -> None:
    path = tmp_path / "optuna.sqlite3"
    with open_study(path, plan_of(trials=6)) as study:
        first = study.ask()
    plan = plan_of(trials=7, at_once=2)
    turned = dataclasses.replace(plan, space=dict(reversed(plan.space.items())))
    with open_study(path, turned) as study:
        study.resume()
        assert study.ask() == first
        make(study, turned)
        again = study.values()
    other = tmp_path / "other.sqlite3"
    with open_study(other, plan_of(trials=3)) as study:
        make(study, plan_of(trials=3))
    with open_study(other, plan) as study:
        make(study, plan)
        assert study.values() == again


def test_a_failed_trial_is_made_again_once_by_another_process(tmp_path: Path) -> None:
    plan, path = plan_of(trials=6), tmp_path / "optuna.sqlite3"
    with open_study(path, plan) as study:
        asked = study.ask()
        study.fail(1, "it misbehaved")
        for number in (0, 2):
            study.end(number, score(asked[number]))
        assert study.ended == 3
        assert study.failures() == [(asked[1], "it misbehaved")]
    for _ in range(2):  # asked for once, however often that is seen to
        with open_study(path, plan) as study:
            study.resume()
            assert study.ended == 2
            assert study.ask() == {3: asked[1]}
    with open_study(path, plan) as study:
        make(study, plan)
        assert study.failures() == []
        assert len(study.values()) == 6


def test_a_forged_batch_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "optuna.sqlite3"
    for forged in ([0, 10**9], [-1, 3], "all", [0.5, 2]):
        with open_study(path, plan_of()) as study:
            study.ask()
            study._optuna.Trial(study._study, study._trials()[-1]._trial_id).set_user_attr("batch", forged)
            with pytest.raises(InputError, match="which no search writes"):
                study.resume()
