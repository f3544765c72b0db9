"""`srgdqn sweep`, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import srgdqn
from command_line import command
from srgdqn.cli import main

SMALL = ["--lanes", "4", "--rounds", "2", "--steps", "2000", "--evaluation-episodes", "2"]
GRID = ["sweep", "CartPole", "dqn-sgd", "--eta", "1e-3", "1e-2", "--hidden", "4", "4+4", *SMALL]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sweep") / "grid"
    done = command(*GRID, "--out", str(place))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    (place.parent / "stdout").write_text(done.stdout)
    return place


def test_the_table_has_the_best_first(folder: Path) -> None:
    shown = (folder.parent / "stdout").read_text()
    lines = [line.split() for line in shown.splitlines() if "0/2" in line]
    assert len(lines) == 4
    assert [line[0] == "★" for line in lines] == [True, False, False, False]
    sweep = srgdqn.load_sweep(folder)
    best = sweep.values(sweep.best)
    widths = "+".join(map(str, best["hidden"]))
    assert lines[0][1:3] == [f"{best['eta']:g}", widths]  # in the order in which they were typed
    told = f"The best cell: --eta {best['eta']} --hidden {widths}"
    assert told in shown
    assert f"The sweep is in {folder}." in shown
    assert "95 % bootstrap interval" in " ".join(shown.split())


def test_what_is_saved(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == ["cells", "heat-map.png", "sweep.json", "table.parquet"]
    assert sorted(path.name for path in (folder / "cells").iterdir()) == [
        "hidden=4+4,eta=0.001",
        "hidden=4+4,eta=0.01",
        "hidden=4,eta=0.001",
        "hidden=4,eta=0.01",
    ]
    about = json.loads((folder / "sweep.json").read_text())
    assert about["options"] == {"evaluation_episodes": "2", "lanes": "4", "rounds": "2", "steps": "2000"}
    assert about["plan"] == {"values": {"eta": ["0.001", "0.01"], "hidden": ["4", "4+4"]}}


def test_the_same_command_again_reads_and_prints_json(
    folder: Path, capsys: pytest.CaptureFixture[str], no_training: None
) -> None:
    assert main([*GRID, "--out", str(folder), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    sweep = srgdqn.load_sweep(folder)
    assert [cell["greedy_return"] for cell in shown["cells"]] == sweep.table["greedy_return"].to_list()
    assert shown["best"]["cell"] == sweep.best
    assert (shown["score"], shown["planned"], shown["interrupted"]) == ("greedy-return", 4, False)
    assert main([*GRID, "--out", str(folder), "--quiet"]) == 0
    assert capsys.readouterr().out == ""


def test_a_cell_is_a_run_as_any_other(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(folder / "cells" / "hidden=4,eta=0.01")]) == 0
    assert "dqn-sgd" in capsys.readouterr().out


def test_a_search(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("optuna")
    words = ["sweep", "CartPole", "dqn-sgd", "--search", "eta=1e-4..1e-1", "gamma=0.9,0.99", "--hidden", "4", *SMALL]
    assert main([*words, "--trials", "3", "--out", str(tmp_path / "found"), "--figure", str(tmp_path / "a.svg")]) == 0
    shown = capsys.readouterr().out
    assert "The best cell: --eta 0." in shown
    assert sorted(path.name for path in (tmp_path / "found").iterdir()) == [
        "cells",
        "optuna.sqlite3",
        "sweep.json",
        "table.parquet",
    ]
    assert (tmp_path / "a.svg").exists()
    assert len(srgdqn.load_sweep(tmp_path / "found").cells) == 3


def test_help_has_the_names_own_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "CartPole", "dqn-adam", "--eta", "1", "2", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "The defaults below are those of CartPole with dqn" in shown
    assert "--hidden INT[+INT ...] ..." in shown
    assert "--search OPTION=RANGE ..." in shown
