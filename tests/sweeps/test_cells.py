"""Cells trained: as lanes where they are of compiled tasks, one after the other where they are not."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from srgdqn.adapters.failures import EnvironmentFailedError
from srgdqn.config import Configuration
from srgdqn.config.configure import configure
from srgdqn.results.prepare import PreparedRun
from srgdqn.results.result import Result
from srgdqn.sweeps import cells as sweep_cells
from srgdqn.training import Progress
from tiny import tiny


def trained(configurations: list[Configuration]) -> tuple[dict[int, Result], list[Progress]]:
    found: dict[int, Result] = {}
    heard: list[Progress] = []
    sweep_cells.train_each(configurations, found.__setitem__, listener=heard.append)
    return found, heard


def cells() -> list[Configuration]:
    """Two shapes, in turns."""
    return [tiny(rounds=2, eta=eta, batch_size=size)[0] for eta in (0.01, 0.02, 1e6) for size in (4, 5)]


def rows(result: Result) -> list[Any]:
    return [table.rows() for name, table in result.run.tables.items() if name != "timings"]


def test_lanes_and_one_after_the_other_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    side_by_side, heard = trained(cells())
    assert sorted(side_by_side) == list(range(6))
    assert [side_by_side[place].configuration.gradients for place in range(6)] == [
        configuration.gradients for configuration in cells()
    ]
    assert heard[-1].share == pytest.approx(1.0)
    assert heard[-1].diverged == 4
    assert [report.share for report in heard] == sorted(report.share for report in heard)

    monkeypatch.setattr(sweep_cells, "PRESETS", {})  # as if the task were stepped on the host
    monkeypatch.setattr(sweep_cells, "train_side_by_side", None)
    one_by_one, heard = trained(cells())
    assert list(one_by_one) == list(range(6))
    assert [rows(one_by_one[place]) for place in range(6)] == [rows(side_by_side[place]) for place in range(6)]
    assert heard[-1].share == pytest.approx(1.0)


def test_an_interrupt_on_the_host_ends_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = PreparedRun.train, []

    def train(run: PreparedRun, **others: Any) -> Result:
        result = real(run, **others)
        calls.append(run)
        about = {**result.run.provenance, "interrupted": len(calls) == 2}
        return dataclasses.replace(result, run=dataclasses.replace(result.run, provenance=about))

    monkeypatch.setattr(sweep_cells, "PRESETS", {})
    monkeypatch.setattr(PreparedRun, "train", train)
    found: dict[int, Result] = {}
    with pytest.raises(KeyboardInterrupt):
        sweep_cells.train_each(cells(), found.__setitem__)
    assert list(found) == [0]
    assert len(calls) == 2


def test_what_one_cell_raises_is_raised() -> None:
    def broken(place: int, result: Result) -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        sweep_cells.train_each(cells(), broken)


def test_what_fails_on_the_host_is_handed_on_and_counts_as_done(failing: Any) -> None:
    found: dict[int, Result] = {}
    heard: list[Progress] = []
    told: list[tuple[int, str]] = []

    def failed(place: int, error: EnvironmentFailedError) -> None:
        told.append((place, str(error)))
        assert error.result.rounds["steps"].to_list() == [32]

    with failing.registered():
        several = [
            configure(failing.name, "dqn-adam", **failing.options, steps=steps)
            for steps in (failing.short, failing.long, failing.long, failing.short)
        ]
        sweep_cells.train_each(several, found.__setitem__, failed=failed, listener=heard.append)
        with pytest.raises(EnvironmentFailedError, match="no ball"):
            sweep_cells.train_each(several[1:2], found.__setitem__)
    assert list(found) == [0, 3]
    assert [place for place, _ in told] == [1, 2]
    assert all("no ball" in reason for _, reason in told)
    assert heard[-1].share == pytest.approx(1.0)
    assert [report.share for report in heard] == sorted(report.share for report in heard)


def test_nothing_to_train() -> None:
    assert trained([]) == ({}, [])
