"""`srgdqn sweep`, as a user types it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import srgdqn
from host_environments import SMALL as SMALL_ON_HOST
from host_environments import Bad, Slope
from srgdqn.cli import main

SMALL = ["--lanes", "4", "--rounds", "2", "--steps", "2000", "--evaluation-episodes", "2"]
GRID = ["sweep", "CartPole", "dqn-sgd", "--eta", "1e-3", "1e-2", "--hidden", "4", "4+4", *SMALL]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sweep") / "grid"
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.MonkeyPatch.context() as patched:
        patched.setenv("COLUMNS", "100")
        assert main([*GRID, "--out", str(place)]) == 0, err.getvalue()
    assert err.getvalue() == ""
    (place.parent / "stdout").write_text(out.getvalue())
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


def test_a_search(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("optuna")
    space = ["--search", "eta=1e-4..1e-1", "gamma=0.9,0.99"]
    words = ["sweep", "CartPole", "dqn-sgd", *space, "--hidden", "4", *SMALL, "--score", "final-reward"]
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


def test_cells_that_often_diverge_are_marked_and_come_last(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    words = ["sweep", "CartPole", "srg-dqn", "--eta", "1e6", "1e-3", "--hidden", "4", "--score", "final-reward", *SMALL]
    assert main(words) == 0
    shown = capsys.readouterr().out
    lines = [line.split() for line in shown.splitlines() if "/2" in line]
    assert [(line[0], line[-1]) for line in lines] == [("★", "0/2"), ("1e+06", "2/2†")]
    told = " ".join(shown.split())
    assert "a diverged round has the final reward of the worst that finished, " in told
    assert "†: more than a twentieth of the rounds diverged, so that it comes after all others" in told
    assert main([*words, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["best"]["options"], content["diverged_score"]) == ({"eta": 1e-3}, content["cells"][0]["score"])
    assert [cell["often_diverged"] for cell in content["cells"]] == [True, False]


def test_cells_that_tie_are_told_and_none_is_starred(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody reaches the goal of MountainCar in so few steps."""
    options = ["--lanes", "4", "--rounds", "2", "--steps", "1100", "--evaluation-episodes", "1"]
    grid = ["sweep", "MountainCar", "dqn-sgd", "--epsilon-start", "0.1", "0.5", "1"]
    words = [*grid, *options, "--out", str(tmp_path / "grid")]
    assert main(words) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "★" not in shown
    assert "=: the cells that tie" in shown
    named = "--epsilon-start 0.1; --epsilon-start 0.5; --epsilon-start 1.0"
    assert f"No cell is the best: all 3 cells tie by greedy-return at -200: {named}. They differ in another" in shown
    assert "give --score final-reward." in shown
    assert main([*words, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["best"], content["tied"]) == (None, [0, 1, 2])
    assert main([*words, "--score", "solved", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["threshold"], content["cells"][0]["score"], content["tied"]) == (-110.0, 0.0, [0, 1, 2])
    assert main([*words, "--score", "solved", "--threshold", "-200"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "solved: the share of rounds whose greedy return is -200 or more" in shown
    assert "all 3 cells tie by solved at 1:" in shown
    assert main([*words, "--threshold", "5"]) == 2
    assert "the score is greedy-return, which has none. Leave the threshold out" in capsys.readouterr().err
    assert main(["sweep", "Pendulum", "--eta", "1", "2", "--score", "solved"]) == 2
    assert "from which return on Pendulum is solved. Give it: threshold = " in capsys.readouterr().err


# An environment that goes wrong in its 36th step, after the first budget and before the end of the second.
FAILING, SHORT, LONG = "Failing-v0", 24, 40


def stumble(environment: Bad, outcome: Any) -> Any:
    raise ValueError("no ball")


@contextmanager
def registered(make: Any = lambda: Bad(stumble, "step", 35)) -> Iterator[None]:
    gym.register(FAILING, make)
    try:
        yield
    finally:
        gym.registry.pop(FAILING)


def failing(*budgets: int) -> list[str]:
    words = [
        word
        for name, value in SMALL_ON_HOST.items()
        if value is not None
        for word in (f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, tuple) else [value]))
    ]
    return ["sweep", FAILING, "dqn-adam", "--steps", *map(str, budgets), *words]


def test_a_cell_whose_environment_fails_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("srgdqn.cli.sweep_tables._SHOWN", 1)  # which does not count those that failed
    words = [*failing(SHORT, LONG), "--out", str(tmp_path / "grid")]
    why = f"error: the cell steps={LONG} failed: round 0: the environment {FAILING} raised ValueError (no ball) at step"
    with registered():
        assert main(words) == 1
        shown = capsys.readouterr()
        assert main([*words, "--json"]) == 1
        told = capsys.readouterr()
    assert why in shown.err
    assert "Traceback" not in shown.err
    assert "1 cells by greedy-return, the best first; 1 failed" in " ".join(shown.out.split())
    assert [line.split() for line in shown.out.splitlines() if "✗" in line] == [["✗", str(LONG), "–", "–", "failed"]]
    assert f"The best cell: --steps {SHORT} (" in shown.out
    assert "not shown" not in shown.out
    assert why in told.err
    content = json.loads(told.out)
    assert (content["failed"], content["best"]["options"]) == (1, {"steps": SHORT})
    assert [cell["failure"] is None for cell in content["cells"]] == [True, False]
    with registered(Slope):
        assert main([*words, "--quiet"]) == 0
    assert "no ball" not in capsys.readouterr().err
    with registered():
        assert main(failing(LONG, LONG + 8)) == 1
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert shown.err.startswith("error: no cell of the sweep was finished, as each one failed. steps=40: round 0: the ")


def test_help_has_the_names_own_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "CartPole", "dqn-adam", "--eta", "1", "2", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "The defaults below are those of CartPole with dqn" in shown
    assert "--hidden INT[+INT ...] ..." in shown
    assert "--search OPTION=RANGE ..." in shown


@pytest.mark.parametrize("width", [60, 80, 100])
def test_nothing_of_a_table_is_cut_off(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Headings count as well: cells wrap where all of it does not fit in a line."""
    from srgdqn.cli.presentation import print_table

    monkeypatch.setenv("COLUMNS", str(width))
    heads = ("", "alpha", "gamma", "coefficient", "final reward", "greedy return", "diverged")
    row = ("=", "0.001", "0.99", "0.3", "0.2432 [0.2289, 0.2576]", "22.5 [9.4, 35.6]", "0/2")
    print_table("title", heads, [row])
    shown = capsys.readouterr().out
    assert "…" not in shown
    letters = sorted("".join((*heads, *row)).replace(" ", ""))
    found = sorted("".join(shown.removeprefix("title").replace("─", "").split()))
    assert found == letters
