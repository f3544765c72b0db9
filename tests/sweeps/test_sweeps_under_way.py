"""Sweeps and searches that are ended in their midst go on from their checkpoints, to the same bits."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import srgdqn
from cut_short import CutShort, Killed
from srgdqn.errors import InputError
from srgdqn.sweeps.folder import CELLS
from srgdqn.sweeps.sweep import Sweep
from tiny import TINY, bits

OPTIONS: dict[str, Any] = {**TINY, "rounds": 6, "progress": False}
VALUES = {"eta": [1e-3, 1e-2, 2e-2, 1e6]}  # the last diverges
SPACE = {"eta": (1e-4, 1e-1), "gamma": [0.9, 0.99]}


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> CutShort:
    return CutShort(monkeypatch, "srgdqn.sweeps.cells.train_side_by_side")


def swept(folder: Path | None = None, **how: Any) -> Sweep:
    return srgdqn.sweep("CartPole", "srg-dqn", VALUES, folder=folder, **OPTIONS, **how)


def searched(folder: Path | None = None, **how: Any) -> Sweep:
    return srgdqn.search("CartPole", "srg-dqn", SPACE, folder=folder, trials=6, at_once=4, **OPTIONS, **how)


def outcome(sweep: Sweep) -> list[Any]:
    results = [sweep.result(number) for number in range(len(sweep.cells))]
    tables = [{n: t.rows() for n, t in result.run.tables.items() if n != "timings"} for result in results]
    return [sweep.table.rows(), tables, [bits(dict(result.run.parameters)) for result in results]]


@pytest.fixture(scope="module")
def whole() -> Sweep:
    return swept()


@pytest.fixture(scope="module")
def found() -> Sweep:
    pytest.importorskip("optuna")
    return searched()


@pytest.mark.parametrize("after", [2, 6, 9])
def test_a_grid_goes_on(after: int, whole: Sweep, cut: CutShort, tmp_path: Path) -> None:
    """Chunks of sixteen seats have rounds of two or three cells of six rounds."""
    cut.after = after
    with pytest.raises(Killed):
        swept(tmp_path / "grid", checkpoint_every=0)
    finished = len(os.listdir(tmp_path / "grid" / CELLS)) if (tmp_path / "grid" / CELLS).exists() else 0
    assert finished == (2 if after == 9 else 0)
    assert os.listdir(tmp_path / "grid" / "unfinished") == ["lanes"]
    before = cut.counted()
    again = swept(tmp_path / "grid")
    assert not again.interrupted
    assert outcome(again) == outcome(whole)
    after_all = cut.counted()
    swept()
    total = cut.counted()
    assert after_all < total
    assert 0 <= before + after_all - total <= 16 * 32  # a segment at most is trained twice
    assert not (tmp_path / "grid" / "unfinished").exists()
    assert not list(tmp_path.rglob(".lock"))


def test_an_interrupt_is_gone_on_with_too(whole: Sweep, cut: CutShort, tmp_path: Path) -> None:
    cut.after, cut.how = 5, "interrupt"
    part = swept(tmp_path / "grid", checkpoint_every=0)
    assert part.interrupted
    assert (tmp_path / "grid" / "unfinished").exists()
    part_of_it = cut.counted()
    assert outcome(swept(tmp_path / "grid")) == outcome(whole)
    assert part_of_it > 0
    assert not (tmp_path / "grid" / "unfinished").exists()


def test_a_cell_that_is_damaged_meanwhile_is_had_from_its_checkpoint(
    whole: Sweep, cut: CutShort, tmp_path: Path
) -> None:
    """It was finished when the sweep was killed, and the end of its chunk is still kept."""
    cut.after = 9
    with pytest.raises(Killed):
        swept(tmp_path / "grid", checkpoint_every=0)
    names = os.listdir(tmp_path / "grid" / CELLS)
    damaged = tmp_path / "grid" / CELLS / names[0] / "curves.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    cut.counted()
    assert outcome(swept(tmp_path / "grid")) == outcome(whole)
    assert cut.counted() <= 8 * 208  # of the second chunk alone


def test_a_search_goes_on(found: Sweep, cut: CutShort, tmp_path: Path) -> None:
    searched()
    total = cut.counted()
    for after in (5, 9):  # within the first batch of trials, and again
        cut.after = after
        with pytest.raises(Killed):
            searched(tmp_path / "search", checkpoint_every=0)
        assert os.listdir(tmp_path / "search" / "unfinished") == ["lanes"]
    cut.counted()
    again = searched(tmp_path / "search")
    assert 0 < cut.counted() < total
    assert outcome(again) == outcome(found)
    assert not (tmp_path / "search" / "unfinished").exists()
    assert not list(tmp_path.rglob(".lock"))


def test_one_process_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: CutShort) -> None:
    from srgdqn.sweeps.folder import occupied

    monkeypatch.setattr("srgdqn.runs.locks._PATIENCE", 0.1)
    with occupied(tmp_path / "grid"), pytest.raises(InputError, match="that this very process is at work on"):
        swept(tmp_path / "grid")
    assert cut.counted() == 0
