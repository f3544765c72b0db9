"""`srgdqn reproduce` as a user meets it: refusals, a first and a second run, damage, interrupts, no display."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from srgdqn.cli import main
from srgdqn.config.algorithms import PAPER
from srgdqn.config.configure import configure
from srgdqn.paper.cells import RunCell
from srgdqn.paper.claims import CLAIMS, Judgement
from srgdqn.paper.claims.evidence import Evidence, evidence_of, write_evidence
from srgdqn.paper.claims.rules import MeasuredContrast
from srgdqn.paper.studies import EXPERIMENTS
from srgdqn.paper.studies.figure_2 import EXPERIMENT, TASKS
from srgdqn.results.statistics import Interval
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
    weak = MeasuredContrast("final reward", Interval(-0.25, -0.5, 0.0), 0.1, 0.1)
    judgements = {
        label: [Judgement(claim.name, verdict, (weak,)) for claim in CLAIMS]
        for label, verdict in (("corrected", "fails"), ("printed", "undecided"))
    }
    made = evidence_of("confirmatory", judgements, seed=1, rounds="2 on CartPole", seconds=60.0)  # type: ignore[arg-type]
    about = {**made.about, "answer": "Merely 17 updates."}
    write_evidence(Evidence(made.kind, made.judgements, made.tables, about), folder)


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
    assert told["answer"] == "Merely 17 updates."
    assert Path(told["report"]) == tmp_path / "report.html"
    assert [claim["name"] for claim in told["claims"]] == [claim.name for claim in CLAIMS]
    assert told["claims"][0]["verdicts"] == {"corrected": "fails", "printed": "undecided"}
    assert (
        told["claims"][0]["evidence"]["printed"]
        == "final reward: -0.25 [-0.5, +0] (fails if its upper bound is below 0.1)"
    )
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
        (line,) = [line for line in lines if line.split()[:1] == [claim.name]]
        assert line.split()[1:3] == ["fails", "undecided"]
    assert "Merely 17 updates." in lines
    assert lines[-1] == str(tmp_path / "report.html")

    assert main([*words, "--quiet"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["figure-4"], "unknown experiment 'figure-4'. Did you mean 'figure-"),
        (["figure2"], "Did you mean 'figure-2'?"),
        (["figure-2", "tabel-2"], "Did you mean 'table-2'?"),
        (["--quick", "--confirm"], "--quick is a preview and decides nothing"),
        (["--tuned", "--quick"], "--quick is a preview and decides nothing"),
        (["--quick", "--readings"], "--quick is a preview and decides nothing"),
        (["--qiuck"], "Did you mean '--quick'?"),
        (["--exact-rounds", "1"], "exact-rounds is 1"),
        (["--exact-steps", "1e4"], "exact-steps is '1e4'"),
        (["--out", "/proc/nowhere"], "/proc/nowhere cannot be used as a folder"),
        (["--quick", "--out", "a-file"], "a-file cannot be used as a folder (File exists)"),
        (["--quick", "--out", "a-file/below"], "cannot be used as a folder (Not a directory)"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_computed(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a-file").write_text("precious")
    monkeypatch.setattr("srgdqn.paper.reproduce.compute", lambda *_, **__: pytest.fail("computing began"))
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
    (tmp_path / "confirmatory.json").write_text("{")
    assert main(["reproduce", "figure-2", "--quick", "--out", str(tmp_path)]) == 2
    assert f"{tmp_path / 'confirmatory.json'} cannot be read" in capsys.readouterr().err


# In a process of its own: two cells, of which the second waits to be interrupted as long as there is a file `wait`.
PROGRAM = textwrap.dedent(
    """
    import dataclasses, os, signal, sys
    # Tests that are run in the background may have inherited that interrupts are ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import numpy as np
    import polars as pl
    from srgdqn.figures.charts import BLUE, Chart, Panel, Series, Style
    from srgdqn.cli import main
    from srgdqn.interrupts import StopRequestedError
    from srgdqn.paper.report.contents import Section
    from srgdqn.paper.studies import EXPERIMENTS
    from srgdqn.paper.cells import MeasurementCell
    from srgdqn.paper.experiment import Experiment

    @dataclasses.dataclass(frozen=True)
    class Plan:
        number: int

    def measure(plan, hear, stop):
        if plan.number == 2 and os.path.exists("wait"):
            open("waiting", "w").close()
            if not stop.wait(60):
                raise RuntimeError("no interrupt came")
            raise StopRequestedError
        return {"squares": pl.DataFrame({"square": [plan.number**2]})}

    measure.__module__ = "srgdqn.paper.measurements.anchors"

    def show(scale, readings, outcomes):
        squares = np.array([outcomes[name].tables["squares"]["square"][0] for name in ("one", "two")], float)
        series = Series("squares", Style(BLUE), {"n": np.array([1.0, 2.0])}, squares)
        chart = Chart("squares", "Squares", "Of numbers.", (Panel("", "square", {"n": "number"}, (series,)),))
        return Section("figure-1", "Squares", "1, 4.", f"{squares.tolist()}.", charts=(chart,))

    def cells(scale, readings):
        return [MeasurementCell("one", measure, Plan(1)), MeasurementCell("two", measure, Plan(2))]

    EXPERIMENTS["figure-1"] = Experiment("figure-1", 10, "Squares", "1, 4.", cells, show, 1.0)
    sys.exit(main(["reproduce", "figure-1", "--quick", "--out", "results"]))
    """
)


def test_ctrl_c_keeps_finished_cells_and_the_same_command_goes_on_without_a_display(tmp_path: Path) -> None:
    hidden = ("MPLBACKEND", "DISPLAY", "WAYLAND_DISPLAY")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    program = [sys.executable, "-c", PROGRAM]
    (tmp_path / "wait").touch()
    process = subprocess.Popen(
        program,
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    cells = tmp_path / "results" / "quick" / "cells"
    try:
        for _ in range(600):
            if (tmp_path / "waiting").exists() and (cells / "one" / "manifest.json").exists():
                break
            assert process.poll() is None, process.communicate()
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert f"interrupted: finished cells are saved in {tmp_path / 'results'}, and the same command resumes there" in err
    assert "Traceback" not in err
    assert out == ""
    assert [place.name for place in cells.iterdir()] == ["one"]
    assert not (tmp_path / "results" / "report.html").exists()

    before = times(cells)
    (tmp_path / "wait").unlink()
    done = subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert times(cells)["one"] == before["one"]
    assert "[1.0, 4.0]." in (tmp_path / "results" / "report.html").read_text("utf-8")
    assert (tmp_path / "results" / "figures" / "squares.png").read_bytes().startswith(b"\x89PNG")
