from pathlib import Path

import pytest

from srgdqn.configure import configure
from srgdqn.errors import InputError
from srgdqn.store.provenance import provenance
from srgdqn.studies.cells import Cell, compute
from srgdqn.training import Progress
from tiny import TINY


def cells() -> list[Cell]:
    return [Cell(f"seed-{seed}", configure("CartPole", "dqn-sgd", **TINY, seed=seed, rounds=2)) for seed in range(2)]


def tables(result: object) -> dict:
    return {name: table.rows() for name, table in result.run.tables.items() if name != "timings"}  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("cells")
    return folder, compute(cells(), folder)


def times(folder: Path) -> dict[str, int]:
    return {place.name: (place / "manifest.json").stat().st_mtime_ns for place in folder.iterdir()}


def test_finished_cells_are_read_and_not_computed_again(done: tuple[Path, dict]) -> None:
    folder, first = done
    before = times(folder)
    heard: list[tuple[str, float]] = []
    second = compute(cells(), folder, listener=lambda cell, progress: heard.append((cell.name, progress.share)))
    assert times(folder) == before
    assert {name: tables(result) for name, result in second.items()} == {n: tables(r) for n, r in first.items()}
    assert heard == [("seed-0", 1.0), ("seed-1", 1.0)]


def test_a_changed_configuration_is_computed_again_and_said(done: tuple[Path, dict], tmp_path: Path) -> None:
    (cell, _) = cells()
    said: list[str] = []
    compute([cell], tmp_path)
    changed = Cell(cell.name, configure("CartPole", "dqn-sgd", **TINY, seed=5, rounds=2))
    result = compute([changed], tmp_path, say=said.append)
    assert result[cell.name].configuration.training.seed == 5
    assert len(said) == 1
    assert "configuration has changed" in said[0]


def test_a_damaged_cell_is_computed_again_to_the_same_bits(done: tuple[Path, dict], tmp_path: Path) -> None:
    _, first = done
    (cell, _) = cells()
    compute([cell], tmp_path)
    table = tmp_path / cell.name / "curves.parquet"
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 1
    table.write_bytes(data)
    said: list[str] = []
    result = compute([cell], tmp_path, say=said.append)
    assert "curves.parquet" in said[0]
    assert tables(result[cell.name]) == tables(first[cell.name])


def test_a_cell_of_another_version_is_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cell, _) = cells()
    compute([cell], tmp_path)
    here = provenance()
    monkeypatch.setattr("srgdqn.studies.cells.provenance", lambda: {**here, "source": "an edited file"})
    said: list[str] = []
    compute([cell], tmp_path, say=said.append)
    assert "another version" in said[0]


def test_a_folder_that_is_no_run_is_never_replaced(tmp_path: Path) -> None:
    (cell, _) = cells()
    (tmp_path / cell.name).mkdir()
    (tmp_path / cell.name / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="Move it away"):
        compute([cell], tmp_path)
    assert (tmp_path / cell.name / "thesis.tex").read_text() == "years of work"


def test_an_interrupt_keeps_what_is_finished(tmp_path: Path) -> None:
    def interrupt(cell: Cell, progress: Progress) -> None:
        if cell.name == "seed-1":
            raise KeyboardInterrupt  # as it would come up in the thread that waits

    with pytest.raises(KeyboardInterrupt):
        compute(cells(), tmp_path, listener=interrupt)
    said: list[str] = []
    results = compute(cells(), tmp_path, say=said.append)
    assert said == []  # nothing half-finished was left behind
    assert [len(result.rounds) for result in results.values()] == [2, 2]
