import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from srgdqn.cli import main
from srgdqn.configure import configure
from srgdqn.studies import figure_2
from srgdqn.studies.cells import Cell
from tiny import TINY


def small_cells(readings: str, algorithms: tuple[str, ...], *, seed: int) -> list[Cell]:
    """Every cell of the figure on one tiny shape of program per algorithm: CartPole stands in for all tasks."""
    cells = []
    for task in figure_2.FIGURE_2_ROUNDS:
        for algorithm in (*algorithms, "random"):
            name = "dqn-sgd" if algorithm == "random" else algorithm
            options = {**TINY, "rounds": 2, "seed": seed, "readings": readings}
            cells.append(Cell(f"{task}-{algorithm}-{readings}", configure("CartPole", name, **options)))
    return cells


def test_figures_and_tables_come_out_and_a_second_time_from_the_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(figure_2, "cells", small_cells)
    words = ["reproduce", "--out", str(tmp_path), "--readings", "corrected", "--json"]
    assert main(words) == 0
    first = json.loads(capsys.readouterr().out)
    assert {Path(name).name for name in first["files"]} == {
        "figure-2-corrected.png",
        "figure-2-corrected.pdf",
        "figure-2.csv",
        "figure-2.md",
        "diverged.csv",
    }
    assert (tmp_path / "diverged.csv").read_text().startswith("cell,round,step\n")
    assert all(Path(name).stat().st_size > 10 for name in first["files"])
    assert [row["against"] for row in first["contrasts"]] == ["dqn-sgd", "svr-dqn", "srg-dqn-no-adam"] * 3
    picture = (tmp_path / "figure-2-corrected.png").read_bytes()
    computed = {place.name: place.stat().st_mtime_ns for place in (tmp_path / "cells").iterdir()}
    assert len(computed) == 15

    assert main(words) == 0
    assert json.loads(capsys.readouterr().out) == first
    assert {place.name: place.stat().st_mtime_ns for place in (tmp_path / "cells").iterdir()} == computed
    assert (tmp_path / "figure-2-corrected.png").read_bytes() == picture

    monkeypatch.setenv("COLUMNS", "100")
    assert main(words[:-1]) == 0
    shown = capsys.readouterr().out
    for row in first["contrasts"]:
        assert f"{row['task']}, corrected: SRG-DQN scores {row['score']:.3f}" in shown
        table = shown.split(f"{row['task']}, corrected")[1].split("\n\n")[0]
        (line,) = [line for line in table.splitlines() if line.startswith(f"{row['against']} ")]
        assert f"{row['difference_estimate']:+.3f} [{row['difference_low']:+.3f}" in line
    assert str(tmp_path / "diverged.csv") in shown

    assert main([*words[:-1], "--quiet"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--readings", "corected"], "corected"),
        (["--contols"], "--controls"),
        (["--seed", "-1"], "-1"),
        (["--readings"], "no set of readings"),
        (["--out", "/proc/nowhere"], "/proc/nowhere"),
    ],
)
def test_bad_input_is_refused_before_anything_is_computed(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("srgdqn.studies.cells.compute", lambda *_, **__: pytest.fail("computing began"))
    assert main(["reproduce", *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


@pytest.mark.slow
def test_ctrl_c_keeps_finished_cells_and_the_same_command_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "srgdqn", "reproduce", "--out", str(tmp_path), "--readings", "corrected"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    cells = tmp_path / "cells"
    for _ in range(600):
        if cells.exists() and any(place.name[0] != "." for place in cells.iterdir()):
            break
        time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    kept = {place.name for place in cells.iterdir()}
    assert kept
    assert not any(name.startswith(".") for name in kept)
    times = {name: (cells / name / "manifest.json").stat().st_mtime_ns for name in kept}
    assert subprocess.run(command, capture_output=True, timeout=900).returncode == 0
    assert {name: (cells / name / "manifest.json").stat().st_mtime_ns for name in kept} == times
