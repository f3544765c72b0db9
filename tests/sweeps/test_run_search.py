"""A search by Optuna: seeded, side by side, and the same whether or not it was ended in between."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

import srgdqn
from srgdqn import extras
from srgdqn.adapters.failures import EnvironmentFailedError
from srgdqn.errors import InputError
from srgdqn.sweeps.cells import SweepCells
from srgdqn.sweeps.grid import Base
from srgdqn.sweeps.sweep import Sweep
from tiny import TINY

OPTIONS: dict[str, Any] = {**TINY, "rounds": 2}
SPACE = {"eta": (1e-4, 1e-1), "alpha": (1e-5, 1e-2), "gamma": [0.9, 0.99]}

pytest.importorskip("optuna")


def found(folder: Path | None = None, **how: Any) -> Sweep:
    return srgdqn.search("CartPole", "srg-dqn", SPACE, folder=folder, **{"trials": 20, **how}, **OPTIONS)


@pytest.fixture(scope="module")
def whole() -> Sweep:
    return found()


def states(folder: Path) -> dict[str, int]:
    with sqlite3.connect(folder / "optuna.sqlite3") as connection:
        counts = dict(connection.execute("select state, count(*) from trials group by state"))
    connection.close()
    return counts


def test_every_trial_is_a_cell_within_the_space(whole: Sweep) -> None:
    assert len(whole.cells) == 20
    for cell in whole.cells:
        assert 1e-4 <= cell.values["eta"] <= 1e-1
        assert 1e-5 <= cell.values["alpha"] <= 1e-2
        assert cell.values["gamma"] in (0.9, 0.99)
    assert len({cell.values["eta"] for cell in whole.cells}) == 20
    assert whole.plan["at_once"] == 8
    # Log-uniform: of twenty draws from three decades, uniform ones would leave the lowest decade nearly empty.
    assert sum(cell.values["eta"] < 1e-2 for cell in whole.cells) >= 8
    assert whole.values(whole.best)["eta"] == whole.table["eta"][whole.best]


def test_a_cell_is_what_training_it_alone_gives(whole: Sweep) -> None:
    alone = srgdqn.train("CartPole", "srg-dqn", **OPTIONS, **whole.values(11))
    assert alone.evaluations.equals(whole.result(11).evaluations)
    assert alone.curves.equals(whole.result(11).curves)


def test_another_seed_searches_elsewhere(whole: Sweep) -> None:
    other = found(sampler_seed=1, trials=3)
    assert not {cell.values["eta"] for cell in other.cells} & {cell.values["eta"] for cell in whole.cells}


def test_ended_in_the_midst_of_a_batch_it_goes_on_as_if_it_had_not_been(
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
    assert states(folder) == {"COMPLETE": 8, "RUNNING": 8}
    monkeypatch.undo()
    kept = {place.name: place.stat().st_mtime_ns for place in (folder / "cells").iterdir()}
    assert len(kept) == 11
    again = found(folder)
    assert states(folder) == {"COMPLETE": 20}
    assert again.table.equals(whole.table)
    now = {place.name: place.stat().st_mtime_ns for place in (folder / "cells").iterdir()}
    assert {name: now[name] for name in kept} == kept  # what was finished is not trained again

    loaded = srgdqn.load_sweep(folder)
    assert loaded.table.equals(whole.table)
    assert not loaded.interrupted
    with pytest.raises(InputError, match=r"holds another sweep: eta was .*, and now is .*0\.1"):
        srgdqn.search("CartPole", "srg-dqn", {"eta": (1e-3, 1e-1)}, folder=folder, **OPTIONS)
    with pytest.raises(InputError, match="holds another sweep: kind was a search, and now is a grid"):
        srgdqn.sweep("CartPole", "srg-dqn", {"eta": [1e-3]}, folder=folder, **OPTIONS)


def test_more_trials_go_on(tmp_path: Path) -> None:
    first = found(tmp_path / "search", trials=3)
    more = found(tmp_path / "search", trials=5)
    assert [cell.values for cell in more.cells][:3] == [cell.values for cell in first.cells]
    assert len(more.cells) == 5
    assert states(tmp_path / "search") == {"COMPLETE": 5}
    assert found(tmp_path / "search", trials=4).table.equals(more.table)


def test_every_corner_of_the_space_is_tried_before_anything_runs(tmp_path: Path) -> None:
    options = {name: value for name, value in OPTIONS.items() if name not in ("batch_size", "replay_capacity")}
    sweep = srgdqn.search(
        "CartPole",
        "dqn-sgd",
        {"batch_size": "4..90", "replay_capacity": [90, 100]},
        trials=2,
        folder=tmp_path / "search",
        **options,
    )
    assert len(sweep.cells) == 2
    assert sweep.plan["at_once"] == 1
    with pytest.raises(InputError, match="the cell batch_size = 200, replay_capacity = 90 cannot be run"):
        srgdqn.search("CartPole", "dqn-sgd", {"batch_size": "4..200", "replay_capacity": [90, 300]}, **options)


def test_a_refused_trial_counts_and_has_no_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Base.configured
    refused = []

    def configured(base: Base, values: Any) -> Any:
        if values["eta"] not in (1e-4, 1e-1) and len(refused) < 2:
            refused.append(values)
            raise InputError("these cannot be run together.")
        return real(base, values)

    monkeypatch.setattr(Base, "configured", configured)
    sweep = found(trials=5)
    assert len(refused) == 2
    assert len(sweep.cells) == 3


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


def test_without_optuna_it_is_told_how_to_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = extras.find_spec
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "optuna" else real(name))
    with pytest.raises(InputError, match=r"pip install 'srgdqn\[optuna\]'"):
        found()


def test_a_damaged_storage_is_refused(tmp_path: Path) -> None:
    found(tmp_path / "search", trials=1)
    (tmp_path / "search" / "optuna.sqlite3").write_bytes(b"not a database" * 1_000)
    with pytest.raises(InputError, match="cannot be used as Optuna's storage"):
        found(tmp_path / "search", trials=2)


# Environments that misbehave


def test_a_trial_whose_environment_fails_is_told_and_made_again_by_another_process(
    failing: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "search"

    def values_of(sweep: Sweep) -> list[Any]:
        return [cell.values for cell in sweep.cells]

    def found_again(trials: int = 8) -> Sweep:
        space = {"steps": [failing.short, failing.long], "eta": (1e-4, 1e-1)}
        return srgdqn.search(failing.name, "dqn-adam", space, folder=folder, trials=trials, **failing.options)

    with failing.registered():
        first = found_again()
        failed = [failure.values for failure in first.failed]
        assert {cell.values["steps"] for cell in first.cells} == {failing.short}
        assert {values["steps"] for values in failed} == {failing.long}
        assert states(folder) == {"COMPLETE": 8 - len(failed), "FAIL": len(failed)}
        assert all("no ball" in failure.reason for failure in first.failed)
        assert not first.interrupted
        again = found_again()  # which asks for the failed ones, in vain, and for no others
        assert states(folder) == {"COMPLETE": 8 - len(failed), "FAIL": 2 * len(failed)}
        assert (values_of(again), again.failed) == (values_of(first), first.failed)
    assert srgdqn.load_sweep(folder).failed == first.failed
    with failing.registered(None):
        mended = found_again()
        assert states(folder) == {"COMPLETE": 8, "FAIL": 2 * len(failed)}
        assert (values_of(mended), mended.failed) == (values_of(first) + failed, ())
        more = found_again(10)
        assert states(folder) == {"COMPLETE": 10, "FAIL": 2 * len(failed)}
    assert values_of(more)[:8] == values_of(mended)
    assert len({values["eta"] for values in values_of(more)}) == 10  # nothing is asked for twice


def test_a_search_of_which_every_trial_fails_ends(failing: Any, tmp_path: Path) -> None:
    with (
        failing.registered(),
        pytest.raises(EnvironmentFailedError, match=r"no cell of the sweep was finished.*no ball"),
    ):
        srgdqn.search(
            failing.name,
            "dqn-adam",
            {"steps": [failing.long, failing.long + 8]},
            folder=tmp_path / "a",
            trials=3,
            **failing.options,
        )
    assert states(tmp_path / "a") == {"FAIL": 3}
