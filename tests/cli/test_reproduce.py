"""`srgdqn reproduce` as a user meets it: refusals, a first and a second run, damage, interrupts, no display."""

import dataclasses
import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from srgdqn.cli import main
from srgdqn.config.algorithms import PAPER
from srgdqn.config.configure import configure
from srgdqn.figures.charts import BLUE, Chart, Panel, Series, Style
from srgdqn.interrupts import StopRequestedError
from srgdqn.paper.cells import MeasurementCell, RunCell
from srgdqn.paper.claims.evidence import write_evidence
from srgdqn.paper.claims.paper_claims import CLAIMS
from srgdqn.paper.experiment import Experiment
from srgdqn.paper.report.contents import Section
from srgdqn.paper.studies import EXPERIMENTS
from srgdqn.paper.studies.figure_2 import EXPERIMENT, TASKS
from synthetic_findings import evidence, judgements
from tiny import TINY


def small_cells(scale: Any, readings: str) -> list[RunCell]:
    """Every cell of the figure on one tiny program: CartPole with DQN stands in for all tasks and algorithms."""
    names = [f"{task}-{algorithm}-{readings}" for task in TASKS for algorithm in (*PAPER, "random")]
    options = {**TINY, "rounds": 2}
    return [RunCell(name, configure("CartPole", "dqn-sgd", **options, seed=seed)) for seed, name in enumerate(names)]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXPERIMENTS, "figure-2", dataclasses.replace(EXPERIMENT, cells=small_cells))
    monkeypatch.setenv("COLUMNS", "160")


def confirmed(folder: Path) -> None:
    """Verdicts as of a confirmatory run."""
    write_evidence(evidence(judgements("fails", mnih_C3="moot")), folder)


def times(folder: Path) -> dict[str, int]:
    return {place.name: (place / "manifest.json").stat().st_mtime_ns for place in folder.iterdir()}


def test_a_second_run_computes_nothing_and_a_damaged_cell_is_computed_again(
    small: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], compilations: list[str]
) -> None:
    confirmed(tmp_path)
    words = ["reproduce", "figure-2", "--quick", "--out", str(tmp_path)]
    assert main([*words, "--json"]) == 0
    first = capsys.readouterr()
    told = json.loads(first.out)
    assert 0 < len(told["answer"]) <= 3
    assert Path(told["report"]) == tmp_path / "report.html"
    assert [claim["name"] for claim in told["claims"]] == list(CLAIMS)
    assert told["claims"][0]["verdicts"] == dict.fromkeys(("corrected", "printed", "mnih"), "fails")
    assert told["claims"][0]["effects"]["printed"][0].startswith("steadiness: 1.11 times as steady [")
    cells = tmp_path / "quick" / "cells"
    computed = times(cells)
    assert len(computed) == 15
    page = (tmp_path / "report.html").read_text("utf-8")
    for name in computed:
        assert name in page  # its configuration
    assert (tmp_path / "figures" / "figure-2.png").read_bytes().startswith(b"\x89PNG")
    scores = (tmp_path / "tables" / "figure-2-scores.csv").read_text("utf-8")
    assert len(scores.splitlines()) == 1 + 15
    assert json.loads((tmp_path / "verdicts.json").read_text("utf-8"))

    compilations.clear()
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == told
    assert times(cells) == computed
    assert compilations == []
    assert (tmp_path / "tables" / "figure-2-scores.csv").read_text("utf-8") == scores

    table = cells / "Pendulum-svr-dqn-corrected" / "curves.parquet"
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 1
    table.write_bytes(data)
    assert main(words) == 0
    shown = capsys.readouterr()
    assert "Pendulum-svr-dqn-corrected is computed again: " in shown.err
    assert "curves.parquet" in shown.err.replace("\n", "")
    again = times(cells)
    assert {name for name in again if again[name] != computed[name]} == {"Pendulum-svr-dqn-corrected"}
    assert (tmp_path / "tables" / "figure-2-scores.csv").read_text("utf-8") == scores  # to the same bits
    assert "computed again" in (tmp_path / "report.html").read_text("utf-8")
    # And this time in words.
    lines = shown.out.splitlines()
    for claim in CLAIMS:
        (line,) = [line for line in lines if line.split()[:1] == [claim]]
        assert line.split()[1:4] == ["fails", "fails", "moot" if claim == "C3" else "fails"]
    assert "A claim is a list of contrasts" in shown.out
    assert "merely 17 updates per batch?" in (tmp_path / "report.html").read_text("utf-8")
    assert lines[-1] == str(tmp_path / "report.html")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["figure-4"], "unknown experiment 'figure-4'. Did you mean 'figure-"),
        (["--quick", "--confirm"], "--quick is a preview and decides nothing"),
        (["--exact-rounds", "1"], "exact-rounds is 1"),
        (["--out", "/proc/nowhere"], "/proc/nowhere cannot be used as a folder"),
        (["--quick", "--out", "a-file"], "a-file cannot be used as a folder (File exists)"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_computed(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a-file").write_text("precious")
    monkeypatch.setattr("srgdqn.paper.cells.compute", lambda *_, **__: pytest.fail("computing began"))
    assert main(["reproduce", *words]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert why in shown.err
    assert "Traceback" not in shown.err
    assert [path.name for path in tmp_path.iterdir()] == ["a-file"]
    assert Path("a-file").read_text() == "precious"


def test_what_is_in_the_way_of_a_cell_is_never_replaced(
    small: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "quick" / "cells" / "Pendulum-random-corrected"
    place.mkdir(parents=True)
    (place / "thesis.tex").write_text("years of work")
    assert main(["reproduce", "figure-2", "--quick", "--out", str(tmp_path)]) == 2
    assert "Move it away" in capsys.readouterr().err
    assert (place / "thesis.tex").read_text() == "years of work"
    assert not (tmp_path / "report.html").exists()


def test_damaged_verdicts_are_named(small: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "confirmation.json").write_text("{")
    assert main(["reproduce", "figure-2", "--quick", "--out", str(tmp_path)]) == 2
    assert f"{tmp_path / 'confirmation.json'} cannot be read" in capsys.readouterr().err


@dataclasses.dataclass(frozen=True)
class Plan:
    number: int


def squared(plan: Plan, listener: Any, stop: threading.Event, manager: Any) -> dict[str, pl.DataFrame]:
    """The second cell is interrupted where there is a file `wait`, once the first one is saved."""
    if plan.number == 2 and Path("wait").exists():
        while not Path("results/quick/cells/one/manifest.json").exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)
        while not stop.is_set():  # which is to be asked, not to be waited for
            time.sleep(0.05)
        raise StopRequestedError
    return {"squares": pl.DataFrame({"square": [plan.number**2]})}


squared.__module__ = "srgdqn.paper.measurements.anchors"  # whose version it takes


def two_cells(scale: Any, readings: str) -> list[MeasurementCell]:
    return [MeasurementCell("one", squared, Plan(1)), MeasurementCell("two", squared, Plan(2))]


def squares_shown(scale: Any, readings: str, outcomes: Any) -> Section:
    squares = np.array([outcomes[name].tables["squares"]["square"][0] for name in ("one", "two")], float)
    series = Series("squares", Style(BLUE), {"n": np.array([1.0, 2.0])}, squares)
    chart = Chart("squares", "Squares", "Of numbers.", (Panel("", "square", {"n": "number"}, (series,)),))
    return Section("figure-1", "Squares", "1, 4.", f"{squares.tolist()}.", charts=(chart,))


def test_ctrl_c_keeps_finished_cells_and_the_same_command_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    experiment = Experiment("figure-1", 10, "Squares", "1, 4.", two_cells, squares_shown, 1.0)
    monkeypatch.setitem(EXPERIMENTS, "figure-1", experiment)
    words = ["reproduce", "figure-1", "--quick", "--out", "results"]
    cells = Path("results/quick/cells")
    Path("wait").touch()
    assert main(words) == 130
    shown = capsys.readouterr()
    told = f"interrupted: finished cells are saved in {tmp_path / 'results'}, and the same command resumes there"
    assert told in shown.err
    assert shown.out == ""
    assert [place.name for place in cells.iterdir()] == ["one"]
    assert not Path("results/report.html").exists()

    before = times(cells)
    Path("wait").unlink()
    assert main([*words, "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert times(cells)["one"] == before["one"]
    assert "[1.0, 4.0]." in Path("results/report.html").read_text("utf-8")
    assert Path("results/figures/squares.png").read_bytes().startswith(b"\x89PNG")
