"""A search by Optuna: seeded, side by side, and the same whether or not it was ended in between."""

from __future__ import annotations

import math
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import srgdqn
from srgdqn import extras
from srgdqn.adapters.failures import EnvironmentFailedError
from srgdqn.errors import InputError
from srgdqn.sweeps.cells import SweepCells
from srgdqn.sweeps.grid import Base, Values
from srgdqn.sweeps.space import SearchPlan, space_of
from srgdqn.sweeps.study import open_study
from srgdqn.sweeps.sweep import Sweep
from tiny import TINY

optuna = pytest.importorskip("optuna")
sqlalchemy = pytest.importorskip("sqlalchemy")

OPTIONS: dict[str, Any] = {**TINY, "rounds": 2}
SPACE = {"eta": (1e-4, 1e-1), "alpha": (1e-5, 1e-2), "gamma": [0.9, 0.99]}


def found(folder: Path | None = None, **how: Any) -> Sweep:
    return srgdqn.search("CartPole", "srg-dqn", SPACE, folder=folder, **{"trials": 12, **how}, **OPTIONS)


@pytest.fixture(scope="module")
def whole() -> Sweep:
    return found()


def states(folder: Path) -> dict[str, int]:
    with sqlite3.connect(folder / "optuna.sqlite3") as connection:
        counts = dict(connection.execute("select state, count(*) from trials group by state"))
    connection.close()
    return counts


def test_every_trial_is_a_cell_within_the_space(whole: Sweep) -> None:
    assert len({cell.values["eta"] for cell in whole.cells}) == 12
    for cell in whole.cells:
        assert 1e-4 <= cell.values["eta"] <= 1e-1
        assert 1e-5 <= cell.values["alpha"] <= 1e-2
        assert cell.values["gamma"] in (0.9, 0.99)
    assert whole.plan["at_once"] == 8
    # Log-uniform: of twelve draws from three decades, uniform ones would leave the lowest two nearly empty.
    assert sum(cell.values["eta"] < 1e-2 for cell in whole.cells) >= 5
    alone = srgdqn.train("CartPole", "srg-dqn", **OPTIONS, **whole.values(11))
    assert alone.evaluations.equals(whole.result(11).evaluations)
    assert alone.curves.equals(whole.result(11).curves)
    other = found(sampler_seed=1, trials=3)
    assert not {cell.values["eta"] for cell in other.cells} & {cell.values["eta"] for cell in whole.cells}


def test_ended_amid_a_batch_it_resumes_to_the_same_cells(
    whole: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, real, batches = tmp_path / "search", SweepCells.fill, []

    class Ended(BaseException):
        """As if the process were gone: the trials that were asked for do not end."""

    def fill(stored: SweepCells, cells: Any, *others: Any) -> bool:
        batches.append(len(cells))
        if len(batches) == 2:
            real(stored, cells[:3], *others)
            raise Ended
        return real(stored, cells, *others)

    monkeypatch.setattr(SweepCells, "fill", fill)
    with pytest.raises(Ended):
        found(folder)
    assert states(folder) == {"COMPLETE": 8, "RUNNING": 4}
    monkeypatch.undo()
    finished = {place.name: place.stat().st_mtime_ns for place in (folder / "cells").iterdir()}
    assert len(finished) == 11
    again = found(folder)
    assert states(folder) == {"COMPLETE": 12}
    assert again.table.equals(whole.table)
    now = {place.name: place.stat().st_mtime_ns for place in (folder / "cells").iterdir()}
    assert {name: now[name] for name in finished} == finished  # what was finished is not trained twice
    loaded = srgdqn.load_sweep(folder)
    assert (loaded.table.equals(whole.table), loaded.interrupted) == (True, False)
    with pytest.raises(InputError, match=r"holds another sweep: eta was .*, and now is .*0\.1"):
        srgdqn.search("CartPole", "srg-dqn", {"eta": (1e-3, 1e-1)}, folder=folder, **OPTIONS)
    with pytest.raises(InputError, match="holds another sweep: kind was a search, and now is a grid"):
        srgdqn.sweep("CartPole", "srg-dqn", {"eta": [1e-3]}, folder=folder, **OPTIONS)


def test_diverged_trials_are_scored_beside_those_of_earlier_processes(tmp_path: Path) -> None:
    """The first batch diverges as a whole, so that nothing is worse; one that resumes compares with what finished."""

    def searched(folder: Path | None, trials: int) -> Sweep:
        how: dict[str, Any] = {"trials": trials, "at_once": 2, "score": "final-reward", "folder": folder, **OPTIONS}
        return srgdqn.search("CartPole", "srg-dqn", {"eta": [1e6, 1e-3], "gamma": "0.8..0.99"}, **how)

    def told(folder: Path) -> list[float]:
        with sqlite3.connect(folder / "optuna.sqlite3") as connection:
            values = "case value_type when 'INF_NEG' then '-inf' else value end"
            rows = connection.execute(f"select {values} from trial_values order by trial_id").fetchall()
        connection.close()
        return [float(value) for (value,) in rows]

    whole = searched(tmp_path / "whole", 8)
    searched(tmp_path / "parts", 2)
    searched(tmp_path / "parts", 6)
    parts = searched(tmp_path / "parts", 8)
    assert parts.table.equals(whole.table)
    assert told(tmp_path / "parts") == told(tmp_path / "whole")
    diverged = whole.table["often_diverged"].to_list()
    assert (any(diverged), all(diverged)) == (True, False)
    assert not any(diverged[cell] for cell in whole.tied)
    lost = [score for score, often in zip(whole.table["score"], diverged, strict=True) if often]
    assert lost == pytest.approx([whole.diverged_score] * len(lost))


def test_trials_are_added_and_a_damaged_storage_is_refused(tmp_path: Path) -> None:
    first = found(tmp_path, trials=3)
    more = found(tmp_path, trials=5)
    assert [cell.values for cell in more.cells][:3] == [cell.values for cell in first.cells]
    assert states(tmp_path) == {"COMPLETE": 5}
    assert found(tmp_path, trials=4).table.equals(more.table)
    (tmp_path / "optuna.sqlite3").write_bytes(b"not a database" * 1_000)
    with pytest.raises(InputError, match="cannot be used as Optuna's storage"):
        found(tmp_path, trials=6)


def test_every_corner_of_the_space_is_checked_before_anything_runs() -> None:
    options = {name: value for name, value in OPTIONS.items() if name not in ("batch_size", "replay_capacity")}
    base = Base("CartPole", "dqn-sgd", options=options)
    assert SearchPlan(base, space_of({"batch_size": "4..90", "replay_capacity": [90, 100]})).at_once == 1
    with pytest.raises(InputError, match="the cell batch_size = 200, replay_capacity = 90 cannot be run"):
        srgdqn.search("CartPole", "dqn-sgd", {"batch_size": "4..200", "replay_capacity": [90, 300]}, **options)


def test_a_refused_trial_counts_and_has_no_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    real, refused = Base.configured, []

    def configured(base: Base, values: Any, *without: Any) -> Any:
        if values["eta"] not in (1e-4, 1e-1) and len(refused) < 2:
            refused.append(values)
            raise InputError("these cannot be run together.")
        return real(base, values, *without)

    monkeypatch.setattr(Base, "configured", configured)
    assert len(found(trials=5).cells) == 3
    assert len(refused) == 2


@pytest.mark.parametrize(
    ("how", "why"),
    [
        (dict(trials=0), "trials is 0"),
        (dict(trials=2.5), "trials is 2.5"),
        (dict(at_once=0), "at_once is 0"),
        (dict(sampler_seed=-1), "sampler_seed is -1"),
        (dict(score="loss"), "unknown score 'loss'"),
    ],
)
def test_what_cannot_be_used_is_refused(how: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        found(**how)


def test_without_optuna_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = extras.find_spec
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "optuna" else real(name))
    with pytest.raises(InputError, match=r"pip install 'srgdqn\[optuna\]'"):
        found()


def test_a_failed_trial_is_repeated_by_the_next_process_alone(failing: Any, tmp_path: Path) -> None:
    def values_of(sweep: Sweep) -> list[Any]:
        return [cell.values for cell in sweep.cells]

    def searched(trials: int = 5) -> Sweep:
        space = {"steps": [failing.short, failing.long], "alpha": (1e-4, 1e-1)}
        return srgdqn.search(failing.name, "dqn-adam", space, folder=tmp_path, trials=trials, **failing.options)

    with failing.registered():
        first = searched()
        failed = [failure.values for failure in first.failed]
        assert {cell.values["steps"] for cell in first.cells} == {failing.short}
        assert {values["steps"] for values in failed} == {failing.long}
        assert states(tmp_path) == {"COMPLETE": 5 - len(failed), "FAIL": len(failed)}
        assert all("no ball" in failure.reason for failure in first.failed)
        again = searched()  # which asks for the failed ones, in vain, and for no others
        assert states(tmp_path) == {"COMPLETE": 5 - len(failed), "FAIL": 2 * len(failed)}
        assert (values_of(again), again.failed) == (values_of(first), first.failed)
    assert srgdqn.load_sweep(tmp_path).failed == first.failed
    with failing.registered(None):
        mended = searched()
        assert states(tmp_path) == {"COMPLETE": 5, "FAIL": 2 * len(failed)}
        assert (values_of(mended), mended.failed) == (values_of(first) + failed, ())
        more = searched(6)
    assert values_of(more)[:5] == values_of(mended)
    assert len({values["alpha"] for values in values_of(more)}) == 6  # nothing is asked for twice


def test_a_search_of_which_every_trial_fails_ends(failing: Any, tmp_path: Path) -> None:
    space = {"steps": [failing.long, failing.long + 8]}
    with failing.registered(), pytest.raises(EnvironmentFailedError, match=r"no cell of the sweep was finished"):
        srgdqn.search(failing.name, "dqn-adam", space, folder=tmp_path, trials=3, **failing.options)
    assert states(tmp_path) == {"FAIL": 3}


# The study: ended between any two statements of its storage, it resumes to the same trials


class KilledError(BaseException):
    """As if the process were gone. What was not committed is not there."""


@pytest.fixture
def unsynced() -> Iterator[None]:
    """No power is cut here, and syncing would take most of the time."""

    def connected(connection: Any, record: Any) -> None:
        connection.execute("PRAGMA synchronous = OFF")

    sqlalchemy.event.listen(sqlalchemy.engine.Engine, "connect", connected)
    yield
    sqlalchemy.event.remove(sqlalchemy.engine.Engine, "connect", connected)


def plan_of(trials: int = 12, at_once: int = 3, **space: Any) -> SearchPlan:
    space = space or {"eta": (1e-4, 1e-1), "gamma": [0.9, 0.99]}
    return SearchPlan(Base("CartPole", options=TINY), space_of(space), trials=trials, at_once=at_once)


def score(values: Values) -> float:
    return -abs(math.log10(values["eta"]) + 2.5) + values["gamma"]


def searched(path: Path, plan: SearchPlan, make: int | None = None) -> list[tuple[int, str, dict[str, Any], Any]]:
    """The trials in the study after all of a plan, or so many more, were made: nothing is trained."""
    with open_study(path, plan) as study:
        study.resume()
        while study.ended < plan.planned and make != 0:
            for number, values in list(study.ask().items())[:make]:
                study.end(number, score(values))
            make = None if make is None else 0
        return [(trial.number, trial.state.name, trial.params, trial.values) for trial in study._trials()]


def killed(path: Path, plan: SearchPlan, at: int) -> bool:
    """Whether a search was killed before the statement with that number that changes something; else it was over."""
    left = at

    def kill(connection: Any, cursor: Any, statement: str, *others: Any) -> None:
        nonlocal left
        if not statement.lstrip().upper().startswith("SELECT") and "PRAGMA" not in statement:
            if left == 0:
                raise KilledError
            left -= 1

    sqlalchemy.event.listen(sqlalchemy.engine.Engine, "before_cursor_execute", kill)
    try:
        searched(path, plan)
    except KilledError:
        return True
    finally:
        sqlalchemy.event.remove(sqlalchemy.engine.Engine, "before_cursor_execute", kill)
    return False


def test_killed_before_any_statement_it_makes_the_same_trials(unsynced: None, tmp_path: Path) -> None:
    plan, empty = plan_of(trials=1, at_once=1), tmp_path / "empty.sqlite3"
    with open_study(empty, plan):
        pass
    undisturbed = searched(Path(shutil.copy(empty, tmp_path / "undisturbed.sqlite3")), plan)
    at = 0
    while killed(path := Path(shutil.copy(empty, tmp_path / f"{at}.sqlite3")), plan, at):
        assert searched(path, plan) == undisturbed, at
        at += 1
    assert at > 3  # the trial is made, given its parameters, and ended
    assert killed(tmp_path / "new.sqlite3", plan, 7)  # while the file itself is made
    assert searched(tmp_path / "new.sqlite3", plan) == undisturbed


def test_a_batch_is_seeded_by_what_came_before_it(unsynced: None, tmp_path: Path) -> None:
    whole = searched(tmp_path / "whole.sqlite3", plan_of())
    assert [state for _, state, *_ in whole] == ["COMPLETE"] * 12  # of which Optuna draws ten at random
    searched(tmp_path / "parts.sqlite3", plan_of(trials=9))
    for _ in range(3):  # a process for every trial
        parts = searched(tmp_path / "parts.sqlite3", plan_of(), make=1)
    assert parts == whole


def test_it_resumes_with_other_numbers_at_once_and_options_in_another_order(unsynced: None, tmp_path: Path) -> None:
    with open_study(tmp_path / "a", plan_of(trials=6)) as study:
        study.ask()
    turned = plan_of(trials=7, at_once=2, gamma=[0.9, 0.99], eta=(1e-4, 1e-1))
    searched(tmp_path / "b", plan_of(trials=3))
    assert searched(tmp_path / "a", turned) == searched(tmp_path / "b", plan_of(trials=7, at_once=2))


def test_a_failed_trial_is_asked_for_once(unsynced: None, tmp_path: Path) -> None:
    plan, path = plan_of(trials=6), tmp_path / "optuna.sqlite3"
    with open_study(path, plan) as study:
        asked = study.ask()
        study.fail(1, "it misbehaved")
        for number in (0, 2):
            study.end(number, score(asked[number]))
        assert (study.ended, study.failures()) == (3, [(asked[1], "it misbehaved")])
    for _ in range(2):
        with open_study(path, plan) as study:
            study.resume()
            assert (study.ended, study.ask()) == (2, {3: asked[1]})
    searched(path, plan)
    with open_study(path, plan) as study:
        assert (study.failures(), len(study.values())) == ([], 6)


@pytest.mark.parametrize("forged", [[0, 10**9], [-1, 3], "all"])
def test_a_forged_batch_is_refused(forged: Any, unsynced: None, tmp_path: Path) -> None:
    with open_study(tmp_path / "optuna.sqlite3", plan_of()) as study:
        study.ask()
        optuna.Trial(study._study, study._trials()[-1]._trial_id).set_user_attr("batch", forged)
        with pytest.raises(InputError, match="which no search writes"):
            study.resume()
