"""Numbers that an estimator has of its own, from the command line: as options, in sweeps, and of stored runs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import srgdqn
from srgdqn.cli import main
from srgdqn.learner.estimators import ESTIMATORS

MODULE = """\
import jax
from srgdqn.estimators import Direction, Estimator, Number, register_estimator


def direction(state, theta, previous, query):
    gradient = query.dense(query.on_present(theta))
    strength = query.numbers["strength"]
    return Direction(jax.tree.map(lambda g: strength * g, gradient), gradient, state)


register_estimator(
    "weighed",
    Estimator(
        direction=direction,
        queries=lambda work: work.inner_iterations * work.inner_batch,
        evaluations=lambda work: work.inner_iterations * work.inner_batch,
        numbers=(
            Number("strength", 0.5, "How much of the gradient.", 0, 1),
            Number("copies", 2, "How many.", 1, size=True),
        ),
    ),
)
"""
TINY = ("--steps", "400", "--learning-starts", "64", "--rounds", "2", "--lanes", "4", "--hidden", "4")
TINY += ("--evaluation-episodes", "2", "--inner-iterations", "2", "--batch-size", "8", "--kernel", "xla")


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A wide terminal, and a folder to work in with a module of an estimator."""
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weighing.py").write_text(MODULE)
    yield
    forget()


def forget() -> None:
    """As a new process knows nothing of the module."""
    sys.modules.pop("weighing", None)
    ESTIMATORS.pop("weighed", None)


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(list(words)) == 2
    return capsys.readouterr().err


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("dqn-storm --a 2", "a is 2.0, but must be from 0 to 1 (Weight of the new gradient"),
        ("dqn-storm --a x", "a is 'x', which is not a number"),
        ("dqn-storm --a nan", "a is nan, which is not a finite number"),
        ("dqn-storm --a", "--a: expected 1 argument"),
        ("dqn-storm --rest 0", "unknown option '--rest' of srgdqn train. Did you mean '--reset'?"),
        ("srg-dqn --a 0.1", "a is a number of the estimator 'storm' or 'storm_inner', but estimator = 'srg'. Give"),
        ("srg-dqn --estimator page --anchor-batches 2.5", "anchor_batches is 2.5, which is not a whole number"),
        ("srg-dqn --estimator weighed --import weighing --strength 2", "strength is 2.0, but must be from 0 to 1"),
        ("srg-dqn --estimator weighed --import weighing --strenght 1", "Did you mean '--strength'?"),
        ("srg-dqn --import weighing --strength 1", "strength is a number of the estimator 'weighed', but estimator ="),
        ("srg-dqn --estimator weighed --strength 1", "unknown option '--strength'"),
    ],
)
def test_values_are_refused_before_any_work(words: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert says in refused(capsys, "train", "CartPole", *words.split())


def test_help_has_the_numbers_of_the_chosen_estimator(capsys: pytest.CaptureFixture[str]) -> None:
    def shown(*words: str) -> str:
        capsys.readouterr()
        assert main([*words, "--help"]) == 0
        return " ".join(re.sub(r"[│╭╮╰╯─]", " ", capsys.readouterr().out).split())

    assert "numbers of" not in shown("train", "CartPole")
    page = shown("train", "CartPole", "srg-dqn", "--estimator", "page")
    assert "numbers of page Options of this estimator alone" in page
    assert "--refresh FLOAT Probability p of a large sample. (default: 0.0625; from 0 to 1)" in page
    assert "--anchor-batches INT K: a large sample has K·N rows of the replay. (default: 16; a whole number" in page
    assert "--a FLOAT Weight of the new gradient" in shown("train", "CartPole", "dqn-storm")
    mine = shown("train", "--estimator", "weighed", "--import", "weighing")
    assert "--strength FLOAT How much of the gradient. (default: 0.5; from 0 to 1) --copies INT How many." in mine
    several = shown("sweep", "CartPole", "--estimator", "storm", "alpha_svrg")
    assert several.index("--a FLOAT ...") < several.index("--svrg-start FLOAT ...") < several.index("--eta FLOAT")
    Path("options.toml").write_text('algorithm = "dqn-storm"\na = 0.7\n')
    assert "(default: 0.7; from 0 to 1)" in shown("train", "CartPole", "--config", "options.toml")
    assert "numbers of" not in shown("train", "CartPole", "--estimator", "not-registered")


def test_numbers_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--import", "weighing"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "weighed strength 0.5 How much of the gradient (from 0 to 1)" in lines
    assert "storm a 0.1 Weight of the new gradient; 1 is the plain gradient (from 0 to 1)" in lines
    assert main(["list", "--import", "weighing", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["estimators"]
    assert listed["weighed"]["numbers"]["copies"] == {
        "name": "copies", "default": 2, "meaning": "How many.", "least": 1, "most": 3.4e38, "size": True, "whole": False
    }  # fmt: skip
    assert listed["srg"]["numbers"] == {}


def test_a_run_has_its_numbers_wherever_it_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    """Also where its estimator is not registered."""
    mine = ("--import", "weighing")
    run = ("train", "CartPole", "svr-dqn", "--estimator", "weighed", *TINY, "--out", "run")
    assert main([*run, *mine, "--strength", "0.25", "--quiet"]) == 0
    assert "strength was 0.25, and now is 0.75" in refused(capsys, *run, *mine, "--strength", "0.75", "--resume")
    assert main(["verify", "run", *mine]) == 0
    assert main(["replay", "run", "--round", "0", *mine]) == 0
    forget()
    loaded = srgdqn.load("run")
    assert loaded.configuration.estimator.own == (("strength", 0.25), ("copies", 2))
    loaded.save("copy")
    assert main(["evaluate", "copy", "--episodes", "1"]) == 0
    capsys.readouterr()
    assert main(["show", "copy"]) == 0
    assert "strength 0.25, copies 2" in " ".join(capsys.readouterr().out.split())
    assert main(["show", "copy", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["configuration"]["strength"] == 0.25
    assert shown["departures"]["strength"] == {"value": 0.25, "default": None}
    for words in (["verify", "run"], ["train", "--resume", "--out", "run"]):
        assert "the estimator 'weighed', which is not registered. Import its module" in refused(capsys, *words)
    again = ["train", "--config", "run/configuration.toml", "--out", "again", "--quiet"]
    assert "unknown estimator 'weighed'" in refused(capsys, *again)
    assert main([*again, *mine]) == 0
    assert srgdqn.load("again").configuration == loaded.configuration
    assert main(["verify", "run", *mine]) == 0


def test_the_numbers_of_a_file_go_with_its_estimator(capsys: pytest.CaptureFixture[str]) -> None:
    def trained(*words: str) -> dict:
        assert main(["train", *words, "--out", "out", "--overwrite", "--quiet"]) == 0, capsys.readouterr().err
        return srgdqn.load("out").configuration.options()

    trained("CartPole", "dqn-storm", *TINY, "--a", "0.25")
    Path("out/configuration.toml").rename("storm.toml")
    file = ("--config", "storm.toml")
    assert trained(*file)["a"] == 0.25
    assert trained(*file, "--a", "0.5")["a"] == 0.5
    assert trained(*file, "--steps", "416")["a"] == 0.25
    assert trained(*file, "--estimator", "storm_inner")["a"] == 0.25
    assert "a" not in trained(*file, "--estimator", "srg")
    assert "a" not in trained("CartPole", "srg-dqn", *file)
    assert "svrg_end is a number of the estimator 'alpha_svrg'" in refused(capsys, "train", *file, "--svrg-end", "0")
    Path("wrong.toml").write_text('algorithm = "srg-dqn"\na = 0.25\n')
    assert "a is a number of the estimator 'storm'" in refused(capsys, "train", "CartPole", "--config", "wrong.toml")


def test_runs_that_differ_in_a_number_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    for name, words in {
        "one": ["dqn-storm", "--a", "0.25"],
        "other": ["dqn-storm", "--a", "0.5"],
        "inner": ["sgd-inner", "--estimator", "storm_inner", "--a", "0.75"],
        "srg": ["srg-dqn"],
    }.items():
        assert main(["train", "CartPole", *words, *TINY, "--out", name, "--quiet"]) == 0
    assert main(["compare", "one", "other", "inner", "srg", "--out", "figure.png"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "dqn-storm, a 0.25" in shown
    said = "The runs also differ in a: 0.25 (dqn-storm, a 0.25), 0.5 (dqn-storm, a 0.5), 0.75 (sgd-inner)."
    assert said in shown


def test_sweeps_and_searches_over_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    base = ("sweep", "CartPole", "sgd-inner", "--estimator", "weighed", "--import", "weighing", *TINY)
    grid = (*base, "--strength", "0.25", "0.5", "--copies", "1", "2", "--out", "grid")
    assert main(list(grid)) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^ +strength +copies +final reward", shown, re.MULTILINE)
    assert re.search(r"The best cell: --strength 0\.\d+ --copies [12] |\d cells tie", shown)
    cells = sorted(path.name for path in Path("grid/cells").iterdir())
    assert cells == [f"copies={copies},strength={strength}" for copies in (1, 2) for strength in (0.25, 0.5)]
    assert Path("grid/heat-map.png").stat().st_size > 1_000
    times = {path: path.stat().st_mtime_ns for path in Path("grid/cells").glob("*/manifest.json")}
    assert main([*grid, "--resume"]) == 0
    assert {path: path.stat().st_mtime_ns for path in times} == times
    other = [word if word != "0.25" else "0.75" for word in grid]
    assert main(other) == 0  # a grid may grow
    assert main([*base, "--search", "strength=0.1..1", "copies=1..3", "--trials", "2", "--out", "found"]) == 0
    found = json.loads(Path("found/sweep.json").read_text())
    assert found["plan"]["space"] == {"strength": "log:0.1..1.0", "copies": "lin:1..3"}
    assert all(cell["copies"] in ("1", "2", "3") for cell in found["cells"])
    for words, says in (
        (["--search", "strength=0.1..2"], "the cell strength = 2.0 cannot be run: strength is 2.0, but must be from"),
        (["--search", "copies=1..2.5"], "copies is 2.5, which is not a whole number"),
        (["--strength", "0.1", "0.1"], "strength is given 0.1 twice"),
    ):
        assert says in refused(capsys, *base, *words)
    forget()
    swept = srgdqn.load_sweep("grid")  # what only reads needs no module
    assert swept.table["strength"].to_list() == [0.75, 0.75, 0.5, 0.5]
    assert swept.values(2) == {"strength": 0.5, "copies": 1}
    swept.heat_map("read.png")
    assert main(["compare", "grid:strength=0.5", "--out", "cells.png"]) == 0
    assert "unknown" in refused(capsys, *[word for word in grid if word not in ("--import", "weighing")])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"strength": "x"}, "strength is 'x', which is not a number"),
        ({"strength": "nan"}, "strength is nan, which is not a finite number"),
        ({"a b": "1"}, "unknown option of a sweep 'a b'"),
    ],
)
def test_a_damaged_sweep_of_an_unknown_estimator(
    change: dict[str, str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    about = {
        "kind": "srgdqn-sweep", "version": 1, "task": "CartPole", "algorithm": "srg-dqn", "readings": "corrected",
        "options": {"estimator": "weighed"}, "plan": {"values": {}}, "score": "greedy-return", "random_policy": None,
        "planned": 1, "interrupted": False, "cells": [{"strength": "0.5"}], "failed": [],
    }  # fmt: skip
    Path("grid").mkdir()
    Path("grid/sweep.json").write_text(json.dumps(about | {"cells": [change]}))
    with pytest.raises(srgdqn.InputError, match=re.escape(says)):
        srgdqn.load_sweep("grid")
    Path("grid/sweep.json").write_text(json.dumps(about | {"options": {"estimator": "srg"}}))
    with pytest.raises(srgdqn.InputError, match="unknown option of a sweep 'strength'"):
        srgdqn.load_sweep("grid")
