import dataclasses
import errno
import os
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from srgdqn.config.configure import configure
from srgdqn.errors import InputError
from srgdqn.interrupts import StopRequestedError
from srgdqn.kernel.build import NoKernelError
from srgdqn.paper import cells as module
from srgdqn.paper.cells import Console, MeasurementCell, Report, RunCell, compute, run_cells
from srgdqn.paper.scale import QUICK
from srgdqn.paper.studies import EXPERIMENTS
from srgdqn.runs import measurement
from srgdqn.runs.measurement import Measured
from srgdqn.runs.provenance import VERSIONS, provenance, version_of
from tiny import TINY


def cells() -> list[RunCell]:
    return [RunCell(f"seed-{seed}", configure("CartPole", "dqn-sgd", **TINY, seed=seed, rounds=2)) for seed in range(2)]


def tables(result: object) -> dict:
    return {name: table.rows() for name, table in result.run.tables.items() if name != "timings"}  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("cells")
    return folder, compute(cells(), folder)


def times(folder: Path) -> dict[str, int]:
    return {place.name: (place / "manifest.json").stat().st_mtime_ns for place in folder.iterdir()}


def hearing(heard: list[tuple[str, float]], said: list[str]) -> Console:
    return Console(progress=lambda name, share: heard.append((name, share)), say=said.append)


def test_finished_cells_are_read_and_not_computed_again(done: tuple[Path, dict]) -> None:
    folder, first = done
    before = times(folder)
    heard: list[tuple[str, float]] = []
    second = compute(cells(), folder, hearing(heard, []))
    assert times(folder) == before
    assert {name: tables(result) for name, result in second.items()} == {n: tables(r) for n, r in first.items()}
    assert heard == [("seed-0", 1.0), ("seed-1", 1.0)]


def damage(table: Path) -> None:
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 1
    table.write_bytes(data)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("seed", "configuration has changed"),
        ("bits", "curves.parquet"),
        ("version", "another version"),
        ("kernel", "it was run by native, and now xla is to"),
    ],
)
def test_a_cell_that_is_not_valid_is_computed_again_and_said(
    change: str,
    reason: str,
    done: tuple[Path, dict],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    folder, first = done
    (cell, _) = cells()
    shutil.copytree(folder / cell.name, tmp_path / cell.name)
    if change == "seed":
        cell = RunCell(cell.name, configure("CartPole", "dqn-sgd", **TINY, seed=5, rounds=2))
    elif change == "bits":
        damage(tmp_path / cell.name / "curves.parquet")
    elif change == "version":
        here = provenance()
        monkeypatch.setattr("srgdqn.session.prepare.provenance", lambda module: {**here, "computation": "training 0"})
    else:
        request.getfixturevalue("kernel")

        def missing() -> None:
            raise NoKernelError("there is no C compiler")

        monkeypatch.setattr("srgdqn.kernel.support.library", missing)
    said: list[str] = []
    with pytest.warns(RuntimeWarning, match="no C compiler") if change == "kernel" else nullcontext():
        result = compute([cell], tmp_path, hearing([], said))[cell.name]
    assert len(said) == 1
    assert reason in said[0]
    assert result.configuration.training.seed == cell.configuration.training.seed
    if change == "bits":
        assert tables(result) == tables(first[cell.name])


def test_a_folder_that_is_no_run_is_never_replaced(tmp_path: Path) -> None:
    (cell, _) = cells()
    (tmp_path / cell.name).mkdir()
    (tmp_path / cell.name / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="Move it away"):
        compute([cell], tmp_path)
    assert (tmp_path / cell.name / "thesis.tex").read_text() == "years of work"


# Measurements


@dataclass(frozen=True)
class Plan:
    """Numbers to be squared, and a configuration, which is part of the question as well."""

    numbers: tuple[int, ...] = (1, 2, 3)
    configuration: Any = dataclasses.field(default_factory=lambda: configure("CartPole", "dqn-sgd"))


class Squares:
    """A measurement that counts how often it is made; `before` is called in the middle of it."""

    __module__ = "srgdqn.paper.measurements.anchors"

    def __init__(self, before: Callable[[threading.Event], None] = lambda stop: None) -> None:
        self.made, self.before = 0, before

    def __call__(self, plan: Plan, report: Report, stop: threading.Event, manager: Any) -> dict[str, pl.DataFrame]:
        self.made += 1
        report(0.5)
        self.before(stop)
        return {"squares": pl.DataFrame({"number": plan.numbers, "square": [n**2 for n in plan.numbers]})}


def fail(error: BaseException) -> Callable[[threading.Event], None]:
    def raise_(stop: threading.Event) -> None:
        raise error

    return raise_


def test_a_measurement_is_made_once(tmp_path: Path) -> None:
    squares = Squares()
    cell = MeasurementCell("squares", squares, Plan())
    heard: list[tuple[str, float]] = []
    first = compute([cell], tmp_path, hearing(heard, []))["squares"]
    assert first.tables["squares"]["square"].to_list() == [1, 4, 9]
    assert first.about["plan"]["numbers"] == [1, 2, 3]
    assert first.about["plan"]["configuration"]["algorithm"] == "dqn-sgd"
    assert first.about["computation"] == version_of("measurement.anchors")
    second = compute([cell], tmp_path, hearing(heard, []))["squares"]
    assert squares.made == 1
    assert second.about == first.about
    assert second.tables["squares"].equals(first.tables["squares"])
    assert heard == [("squares", 0.5), ("squares", 1.0), ("squares", 1.0)]


@pytest.mark.parametrize(
    "plan", [Plan(numbers=(1, 2)), Plan(configuration=configure("CartPole", "dqn-sgd", eta=0.5))], ids=["own", "deep"]
)
def test_a_changed_plan_is_measured_again_and_said(plan: Plan, tmp_path: Path) -> None:
    compute([MeasurementCell("squares", Squares(), Plan())], tmp_path)
    said: list[str] = []
    result = compute([MeasurementCell("squares", Squares(), plan)], tmp_path, hearing([], said))["squares"]
    assert said == ["squares is computed again: its plan has changed."]
    assert result.tables["squares"]["number"].to_list() == list(plan.numbers)


def test_a_damaged_measurement_is_made_again_and_said(tmp_path: Path) -> None:
    squares, said = Squares(), []
    cell = MeasurementCell("squares", squares, Plan())
    compute([cell], tmp_path)
    damage(tmp_path / "squares" / "squares.parquet")
    result = compute([cell], tmp_path, hearing([], said))["squares"]
    assert squares.made == 2
    assert len(said) == 1
    assert "squares.parquet" in said[0]
    assert result.tables["squares"].equals(measurement.load(tmp_path / "squares").tables["squares"])


def test_a_measurement_depends_on_its_own_version_and_on_trainings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    squares = Squares()
    cell = MeasurementCell("squares", squares, Plan())
    compute([cell], tmp_path)
    for name, made in (("measurement.dose_errors", 1), ("claims", 1), ("measurement.anchors", 2), ("training", 3)):
        monkeypatch.setitem(VERSIONS, name, 7)
        compute([cell], tmp_path)
        assert squares.made == made


def test_a_run_in_the_place_of_a_measurement_gives_way_and_the_other_way_round(tmp_path: Path) -> None:
    (run, _) = cells()
    squares, said = MeasurementCell(run.name, Squares(), Plan()), []
    compute([run], tmp_path)
    assert isinstance(compute([squares], tmp_path, hearing([], said))[run.name], Measured)
    assert "not the manifest of a measurement" in said[0]
    assert len(compute([run], tmp_path, hearing([], said))[run.name].rounds) == 2
    assert "not the manifest of a run" in said[1]


# Together, and alone


def test_cells_that_must_be_alone_come_last_and_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srgdqn.engines.executor.usable_cores", lambda: 2)
    lock, order, running, most = threading.Lock(), [], [0], {True: 0, False: 0}
    meeting = threading.Barrier(2, timeout=20)

    def made(name: str, alone: bool) -> MeasurementCell:
        def work(stop: threading.Event) -> None:
            with lock:
                running[0] += 1
                most[alone] = max(most[alone], running[0])
            if alone:
                time.sleep(0.02)
            else:
                meeting.wait()  # breaks, and so raises, unless two cells are there together
            with lock:
                running[0] -= 1
                order.append(alone)

        return MeasurementCell(name, Squares(work), Plan(), alone)

    mixed = [made(f"cell-{number}", alone=number % 2 == 0) for number in range(8)]
    outcomes = compute(mixed, tmp_path)
    assert list(outcomes) == [cell.name for cell in mixed]
    assert order == [False] * 4 + [True] * 4
    assert most == {True: 1, False: 2}


def test_cells_are_computed_once_measurements_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def compute(cells: list[Any], folder: Path, *_: Any) -> dict[str, Any]:
        seen.extend(cell.name for cell in cells)
        assert folder == tmp_path / "cells"
        kinds = [isinstance(cell, RunCell) for cell in cells]
        assert kinds == sorted(kinds)
        return {}

    monkeypatch.setattr(module, "compute", compute)
    begun: list[tuple[str, list[str]]] = []
    asked = [
        cell
        for name in ("figure-2", "training-time", "anatomy")
        for cell in EXPERIMENTS[name].cells(QUICK, "corrected")
    ]
    run_cells("some", asked, tmp_path, Console(begin=lambda title, names: begun.append((title, list(names)))))
    assert begun == [("some", seen)]
    assert len(asked) > len(seen) == len(set(seen))
    assert set(seen) == {cell.name for cell in asked}


# When something goes wrong


def test_a_cell_that_is_told_to_stop_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another cell's error is what is raised; the one under way stops without a result, and the finished one stays."""
    monkeypatch.setattr("srgdqn.engines.executor.usable_cores", lambda: 2)
    under_way, stopped = threading.Event(), []

    def patient(stop: threading.Event) -> None:
        under_way.set()
        until = time.monotonic() + 20
        while not stop.is_set() and time.monotonic() < until:
            time.sleep(0.01)
        stopped.append(stop.is_set())
        raise StopRequestedError

    def late(stop: threading.Event) -> None:
        under_way.wait(timeout=20)
        raise RuntimeError("broken")

    compute([MeasurementCell("done", Squares(), Plan())], tmp_path)
    with pytest.raises(RuntimeError, match="broken"):
        compute(
            [MeasurementCell(name, Squares(what), Plan()) for name, what in (("patient", patient), ("late", late))],
            tmp_path,
        )
    assert stopped == [True]
    assert os.listdir(tmp_path) == ["done"]


def test_an_interrupted_measurement_leaves_what_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srgdqn.engines.executor.usable_cores", lambda: 1)
    first, second, third = Squares(), Squares(fail(KeyboardInterrupt())), Squares()
    asked = {"first": first, "second": second, "third": third}
    with pytest.raises(KeyboardInterrupt):
        compute([MeasurementCell(name, measure, Plan()) for name, measure in asked.items()], tmp_path)
    assert (tmp_path / "first" / "manifest.json").exists()
    assert not (tmp_path / "second").exists()
    second.before = lambda stop: None
    compute([MeasurementCell(name, measure, Plan()) for name, measure in asked.items()], tmp_path)
    assert (first.made, second.made) == (1, 2)


def test_a_full_disk_is_said_and_keeps_what_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srgdqn.engines.executor.usable_cores", lambda: 1)
    real, full = os.fsync, threading.Event()

    def fsync(handle: int) -> None:
        if full.is_set():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    first = Squares()
    crowd = [
        MeasurementCell("first", first, Plan()),
        MeasurementCell("second", Squares(lambda stop: full.set()), Plan()),
        cells()[0],
    ]
    with pytest.raises(InputError, match=r"could not be saved in .*second: No space left on device.*Free some space"):
        compute(crowd, tmp_path)
    assert os.listdir(tmp_path) == ["first"]
    full.clear()
    crowd[1] = MeasurementCell("second", Squares(), Plan())
    assert list(compute(crowd, tmp_path)) == ["first", "second", "seed-0"]
    assert first.made == 1


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="needs a folder that not even root may write to")
def test_a_folder_that_cannot_be_written_to_is_said() -> None:
    with pytest.raises(InputError, match=r"/proc cannot be written to.*where you may write"):
        compute([MeasurementCell("squares", Squares(), Plan())], Path("/proc/srgdqn"))
