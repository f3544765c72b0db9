"""`--resume` and what goes with it, as a user types it: of `srgdqn train`, `sweep` and `reproduce`."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

import srgdqn
from cut_short import CutShort, Killed
from srgdqn.cli import main
from srgdqn.config.configure import configure
from srgdqn.paper.cells import RunCell
from srgdqn.paper.studies import EXPERIMENTS
from srgdqn.paper.studies.figure_2 import EXPERIMENT
from srgdqn.results.result import Result
from srgdqn.runs import destination
from srgdqn.runs.checkpoints import CheckpointFolder
from srgdqn.runs.unfinished import beside
from tiny import TINY, outcome

OPTIONS: dict[str, Any] = {**TINY, "rounds": 6, "evaluation_interval": 64}
WORDS = [
    word
    for name, value in OPTIONS.items()
    for word in (f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, tuple) else [value]))
]
TRAIN = ["train", "CartPole", "dqn-sgd", *WORDS, "--quiet"]
WHOLE = 6 * 208  # steps, with those of a last block that the budget does not fill


@pytest.fixture(scope="module")
def whole() -> Result:
    return srgdqn.train("CartPole", "dqn-sgd", progress=False, **OPTIONS)


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> CutShort:
    return CutShort(monkeypatch, "srgdqn.session.prepare.train_rounds")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "a"


def killed(cut: CutShort, *words: str, after: int = 5) -> None:
    cut.after, cut.how = after, "kill"
    with pytest.raises(Killed):
        main([*words, "--checkpoint-every", "0"])
    cut.counted()


def error(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line in which a command is refused."""
    capsys.readouterr()
    assert main(words) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert shown.err.count("\n") == 1
    return shown.err.removeprefix("error: ").strip()


# srgdqn train


@pytest.mark.parametrize("words", [TRAIN, ["train", "--quiet"]], ids=["the same words", "the folder alone"])
def test_a_run_that_was_killed_goes_on(words: list[str], whole: Result, cut: CutShort, out: Path) -> None:
    killed(cut, *TRAIN, "--out", str(out))
    assert not out.exists()
    assert main([*words, "--out", str(out), "--resume"]) == 0
    assert outcome(srgdqn.load(out)) == outcome(whole)
    assert 0 < cut.counted() < WHOLE
    assert os.listdir(out.parent) == ["a"]


def test_a_target_copied_by_steps_goes_on_and_is_trained_again(cut: CutShort, out: Path) -> None:
    """The stored configuration has the unused target_period, too, which nobody gave."""
    by_steps: dict[str, Any] = {"target": "hard", "target_update_interval": 40}
    words = [*TRAIN, "--target", "hard", "--target-update-interval", "40"]
    killed(cut, *words, "--out", str(out))
    assert main(["train", "--quiet", "--out", str(out), "--resume"]) == 0
    assert 0 < cut.counted() < WHOLE
    again = out.parent / "b"
    assert main(["train", "--quiet", "--config", str(out / "configuration.toml"), "--out", str(again)]) == 0
    expected = outcome(srgdqn.train("CartPole", "dqn-sgd", progress=False, **OPTIONS, **by_steps))
    assert outcome(srgdqn.load(out)) == outcome(srgdqn.load(again)) == expected


def test_ctrl_c_is_gone_on_with(whole: Result, cut: CutShort, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut.after, cut.how = 3, "stop"
    words = [word for word in TRAIN if word != "--quiet"]
    assert main([*words, "--out", str(out)]) == 130
    assert capsys.readouterr().err == f"interrupted: what was reached is saved in {out}; --resume continues.\n"
    assert srgdqn.load(out).run.provenance["interrupted"] is True
    reached = cut.counted()
    assert 0 < reached < WHOLE
    assert main(["train", "--out", str(out), "--resume", "--json"]) == 0
    shown = capsys.readouterr()
    assert (json.loads(shown.out)["interrupted"], json.loads(shown.out)["saved"]) == (False, str(out))
    assert cut.counted() == WHOLE - reached
    assert outcome(srgdqn.load(out)) == outcome(whole)
    assert os.listdir(out.parent) == ["a"]


def test_from_where_a_run_goes_on_is_told(cut: CutShort, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    killed(cut, *TRAIN, "--out", str(out))
    capsys.readouterr()
    assert main(["train", "--out", str(out), "--resume"]) == 0
    told = re.fullmatch(r"resuming from step (\d+) of 200\n", capsys.readouterr().err)
    assert told is not None
    assert 0 < int(told[1]) < 200
    assert 6 * (200 - int(told[1])) <= cut.counted() < WHOLE


@pytest.mark.parametrize("as_what", [KeyboardInterrupt, ImportError])
def test_a_second_ctrl_c_tells_what_is_kept(
    as_what: type[BaseException],
    whole: Result,
    cut: CutShort,
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also where there are only the checkpoints of an earlier process, or a module makes something else of it."""
    told = f"interrupted: its checkpoints are in {beside(out)}, and --resume (resume=True in Python) resumes it.\n"

    def interrupted(*_: Any, **__: Any) -> Result:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise as_what from error

    killed(cut, *TRAIN, "--out", str(out))
    with monkeypatch.context() as patched:
        patched.setattr(srgdqn.session.prepare.PreparedRun, "train", interrupted)
        assert main([*TRAIN, "--out", str(out), "--resume"]) == 130
    assert capsys.readouterr().err == told
    assert main([*TRAIN, "--out", str(out), "--resume"]) == 0
    assert outcome(srgdqn.load(out)) == outcome(whole)


def test_ctrl_c_once_the_run_is_saved_says_so(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    words = [word for word in TRAIN if word != "--quiet"] + ["--out", str(out)]
    with monkeypatch.context() as patched:
        patched.setattr("srgdqn.cli.train._print", interrupted)
        assert main(words) == 130
    assert capsys.readouterr().err.endswith(f"interrupted: what was reached is saved in {out}.\n")
    # What was there before is not told as saved.
    with monkeypatch.context() as patched:
        patched.setattr(srgdqn.session.prepare.PreparedRun, "train", interrupted)
        assert main([*TRAIN, "--out", str(out), "--overwrite"]) == 130
    assert capsys.readouterr().err == "interrupted: nothing was saved.\n"


@pytest.mark.parametrize("kept", [True, False])
def test_a_run_for_which_there_is_no_room_is_saved_by_going_on(
    kept: bool,
    whole: Result,
    cut: CutShort,
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write = destination._write

    def full(path: Path, data: bytes) -> None:
        if path.suffix == ".parquet" or (not kept and path.suffix in (".checkpoint", ".piece")):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, data)

    words = [word for word in TRAIN if word != "--quiet"]
    with monkeypatch.context() as patched:
        patched.setattr(destination, "_write", full)
        assert main([*words, "--out", str(out)]) == 2
    shown = capsys.readouterr()
    assert "not saved: see below" in shown.out
    assert "--out DIR" not in shown.out
    assert f"error: the run could not be saved in {out}: No space left on device. Nothing was changed" in shown.err
    assert ("Then train it again" in shown.err) == (not kept)
    if kept:
        assert f"'srgdqn train --out {out} --resume' (resume=True in Python) resumes it." in shown.err
        cut.counted()
        assert main(["train", "--out", str(out), "--resume", "--quiet"]) == 0
        assert cut.counted() == 0
        assert outcome(srgdqn.load(out)) == outcome(whole)


def test_a_run_is_begun_anew_on_request(
    whole: Result, cut: CutShort, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    killed(cut, *TRAIN, "--out", str(out))
    told = error([*TRAIN, "--out", str(out)], capsys)
    assert told.startswith(f"{beside(out)} has the checkpoints of a run that was not finished. Resume it (--resume")
    assert cut.counted() == 0
    assert main([*TRAIN, "--out", str(out), "--overwrite"]) == 0
    assert cut.counted() == WHOLE
    assert outcome(srgdqn.load(out)) == outcome(whole)
    assert os.listdir(out.parent) == ["a"]


def test_what_is_finished_is_said_to_be(cut: CutShort, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TRAIN, "--out", str(out), "--resume"]) == 0  # there was nothing to go on with
    assert cut.counted() == WHOLE
    files = {path.name: path.read_bytes() for path in out.iterdir()}
    for words in (TRAIN[:-1], ["train"]):
        assert main([*words, "--out", str(out), "--resume"]) == 0
        shown = capsys.readouterr()
        assert shown.err == f"{out} is finished already.\n"
        assert "final reward per action" in shown.out
    assert main([*TRAIN, "--out", str(out), "--resume"]) == 0
    assert tuple(capsys.readouterr()) == ("", "")
    assert cut.counted() == 0
    assert {path.name: path.read_bytes() for path in out.iterdir()} == files
    assert os.listdir(out.parent) == ["a"]


def test_another_run_is_not_resumed(cut: CutShort, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    killed(cut, *TRAIN, "--out", str(out))
    for words, why in (
        ([*TRAIN, "--rounds", "7"], "was begun with another configuration: rounds was 6, and now is 7"),
        (["train", "--readings", "printed"], "another configuration: readings was corrected, and now is printed"),
    ):
        told = error([*words, "--out", str(out), "--resume"], capsys)
        assert why in told
        assert told.endswith("or begin anew with --overwrite instead of --resume (overwrite=True in Python).")
    assert cut.counted() == 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--overwrite"], "--overwrite is for runs that are saved. Give --out DIR as well."),
        (["--resume"], "--resume is for runs that are saved. Give --out DIR as well."),
        (["--checkpoint-every", "0"], "--checkpoint-every is for runs that are saved. Give --out DIR as well."),
        (["--keep-checkpoints", "1"], "--keep-checkpoints is for runs that are saved. Give --out DIR as well."),
        (["--checkpoint-every", "nan", "--out", "a"], "checkpoint-every"),
        (["--keep-checkpoints", "0", "--out", "a"], "keep-checkpoints"),
        (["--keep-checkpoints", "some", "--out", "a"], "keep-checkpoints"),
    ],
)
def test_what_cannot_be_had_is_refused(
    words: list[str],
    why: str,
    no_training: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert why in error([*TRAIN, *words], capsys)
    told = error(["train", "--resume", "--out", "none"], capsys)
    assert told == "there is no run in none to resume. Name a task and an algorithm to begin one."
    assert os.listdir(tmp_path) == []


def test_checkpoints_are_kept_in_a_run_that_is_shown_as_any_other(
    cut: CutShort, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    killed(cut, *TRAIN, "--out", str(out), "--keep-checkpoints", "3")
    assert main(["train", "--quiet", "--out", str(out), "--resume"]) == 0
    [job] = (out / "checkpoints").iterdir()
    assert len(CheckpointFolder(job).numbers()) == 3
    assert main(["show", str(out)]) == 0
    assert "CartPole" in capsys.readouterr().out
    assert main([*TRAIN, "--out", str(out), "--overwrite"]) == 0
    assert not (out / "checkpoints").exists()


# srgdqn sweep


GRID = ["sweep", "CartPole", "dqn-sgd", "--eta", "1e-3", "1e-2", "2e-2", "--quiet", *WORDS]


@pytest.fixture
def cut_sweep(monkeypatch: pytest.MonkeyPatch) -> CutShort:
    return CutShort(monkeypatch, "srgdqn.sweeps.cells.train_side_by_side")


@pytest.mark.parametrize(("how", "words"), [("kill", ["--resume"]), ("interrupt", [])], ids=["asked to", "by itself"])
def test_a_sweep_goes_on_from_its_checkpoints(words: list[str], how: Any, cut_sweep: CutShort, tmp_path: Path) -> None:
    folder = tmp_path / "grid"
    assert main([*GRID, "--out", str(tmp_path / "whole")]) == 0
    total = cut_sweep.counted()
    cut_sweep.after, cut_sweep.how = 5, how
    ended = [*GRID, "--out", str(folder), "--checkpoint-every", "0"]
    if how == "kill":
        with pytest.raises(Killed):
            main(ended)
    else:
        assert main(ended) == 130
    assert list((folder / "unfinished" / "lanes").iterdir())
    assert cut_sweep.counted() > 0
    assert main([*GRID, "--out", str(folder), *words]) == 0
    assert 0 < cut_sweep.counted() < total
    first, second = (srgdqn.load_sweep(place) for place in (tmp_path / "whole", folder))
    assert first.table.equals(second.table)
    for number in range(3):
        assert outcome(first.result(number)) == outcome(second.result(number))
    assert sorted(os.listdir(folder)) == ["cells", "heat-map.png", "sweep.json", "table.parquet"]


@pytest.mark.parametrize("begun", [True, False])
def test_ctrl_c_amid_a_sweep_tells_what_is_there(
    begun: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    name = "srgdqn.sweeps.run.SweepCells" if begun else "srgdqn.sweeps.run.run_sweep"
    monkeypatch.setattr(name, interrupted)
    assert main([*GRID, "--out", str(tmp_path / "grid")]) == 130
    assert (tmp_path / "grid").exists() == begun
    told = (
        f"what was reached is in {tmp_path / 'grid'}, and the same command resumes it."
        if begun
        else "nothing was saved."
    )
    assert capsys.readouterr().err == f"interrupted: {told}\n"


# srgdqn reproduce


def cells(scale: Any, readings: str) -> list[RunCell]:
    from srgdqn.config.algorithms import PAPER
    from srgdqn.paper.studies.figure_2 import TASKS

    names = [f"{task}-{algorithm}-{readings}" for task in TASKS for algorithm in (*PAPER, "random")]
    options = {**TINY, "rounds": 2}
    return [RunCell(name, configure("CartPole", "dqn-sgd", **options, seed=seed)) for seed, name in enumerate(names)]


def test_a_reproduction_goes_on_from_its_checkpoints(
    cut: CutShort, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself, and killed again, as it is asked to."""
    monkeypatch.setitem(EXPERIMENTS, "figure-2", dataclasses.replace(EXPERIMENT, cells=cells))
    total = 15 * 2 * 208
    command = ["reproduce", "figure-2", "--quick", "--quiet", "--out", str(tmp_path), "--checkpoint-every", "0"]
    folder = tmp_path / "quick" / "cells"
    for _ in range(2):
        cut.after, cut.how = 24, "kill"
        with pytest.raises(Killed):
            main(command)
        under_way = os.listdir(folder / "unfinished")
        assert under_way
        assert not set(under_way) & {path.name for path in folder.iterdir() if (path / "manifest.json").exists()}
    before = cut.counted()
    assert main([*command, "--resume"]) == 0
    after = cut.counted()
    assert 0 < after < total
    assert before + after < total + 4 * 2 * 32 * 2  # but for segments that were under way nothing is trained twice
    assert (tmp_path / "report.html").exists()
    assert not list(tmp_path.rglob("unfinished"))
    assert not list(tmp_path.rglob(".lock"))
    for cell in cells(None, "corrected"):
        assert len(srgdqn.load(folder / cell.name).rounds) == 2
