"""Runs with a folder: checkpointed, resumed to the same bits, and saved as any other."""

from __future__ import annotations

import dataclasses
import errno
import os
import re
import shutil
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srgdqn
from cut_short import CutShort, Killed
from srgdqn.errors import InputError
from srgdqn.results.result import Result
from srgdqn.runs import destination
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.runs.checkpoints import CheckpointFolder
from srgdqn.runs.provenance import provenance
from srgdqn.runs.unfinished import CheckpointOptions, Request, beside, claimed, read_request, write_request
from srgdqn.session import run_session
from srgdqn.session.prepare import prepare
from tiny import LEVERS, STUBBORN, TINY, Stubborn, outcome

OPTIONS: dict[str, Any] = {**TINY, "rounds": 6, "evaluation_interval": 64, "kernel": "xla"}
WHOLE = 6 * 208  # steps, with those of a last block that the budget does not fill


def train(out: Path | None = None, **options: Any) -> Result:
    return srgdqn.train("CartPole", "srg-dqn", out=out, progress=False, **{**OPTIONS, **options})


@pytest.fixture(scope="module")
def whole() -> Result:
    return train()


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> CutShort:
    return CutShort(monkeypatch, "srgdqn.session.prepare.train_rounds")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "a"


def killed(cut: CutShort, out: Path, after: int = 5, **options: Any) -> None:
    cut.after, cut.how = after, "kill"
    with pytest.raises(Killed):
        train(out, checkpoint_every=options.pop("checkpoint_every", 0), **options)
    cut.counted()


# To the same bits


def test_a_run_that_nothing_happens_to(whole: Result, out: Path) -> None:
    result = train(out, checkpoint_every=0)
    assert outcome(result) == outcome(whole) == outcome(srgdqn.load(out))
    assert "checkpoint" in result.timings["phase"].to_list()
    assert os.listdir(out.parent) == ["a"]
    assert "checkpoints" not in os.listdir(out)
    assert not list(out.parent.rglob(".lock"))


@pytest.mark.parametrize("after", [2, 5])
def test_a_killed_run_is_resumed(after: int, whole: Result, cut: CutShort, out: Path) -> None:
    killed(cut, out, after)
    assert not out.exists()
    assert sorted(os.listdir(beside(out))) == ["configuration.toml", "jobs", "manifest.json"]
    result = train(out, resume=True)
    assert outcome(result) == outcome(whole) == outcome(srgdqn.load(out))
    assert 0 < cut.counted() < WHOLE
    assert os.listdir(out.parent) == ["a"]


def test_an_interrupted_run_is_saved_and_resumed(whole: Result, cut: CutShort, out: Path) -> None:
    """Again and again; checkpoints are made then, however rare they are otherwise."""
    steps = 0
    for turn in range(20):
        cut.after, cut.how = 3, "stop"
        result = train(out, resume=turn > 0, checkpoint_every=3600)
        steps += cut.counted()
        if not result.run.provenance["interrupted"]:
            break
        assert srgdqn.load(out).run.provenance["interrupted"] is True
        assert beside(out).exists()
    assert turn > 1
    assert outcome(srgdqn.load(out)) == outcome(whole)
    assert steps == WHOLE
    assert os.listdir(out.parent) == ["a"]


def test_a_part_of_which_no_checkpoint_is_left_begins_again(whole: Result, cut: CutShort, out: Path) -> None:
    """As after an interrupt before the first checkpoint; what is a part of another run is left alone."""
    cut.after, cut.how = 3, "stop"
    part = train(out, checkpoint_every=3600)
    assert part.run.provenance["interrupted"] is True
    shutil.rmtree(beside(out))
    words = r"exists already: it is what was reached of a run that was interrupted.* Begin it again \(--resume"
    with pytest.raises(InputError, match=words):
        train(out)
    words = r"exists already: it is another run, of which a part is saved \(seed was 0, and now is 1\)\. Give what that"
    with pytest.raises(InputError, match=words):
        train(out, resume=True, seed=1)
    cut.counted()
    assert outcome(train(out, resume=True)) == outcome(whole) == outcome(srgdqn.load(out))
    assert cut.counted() == WHOLE
    assert os.listdir(out.parent) == ["a"]


def test_a_part_that_another_network_made_is_not_replaced(out: Path, cut: CutShort) -> None:
    how: dict[str, Any] = {k: v for k, v in TINY.items() if k not in ("hidden", "time_limit")}
    how |= {"out": out, "progress": False, "evaluation_interval": 64}
    cut.after, cut.how = 3, "stop"
    assert srgdqn.train(LEVERS, "dqn-sgd", network=STUBBORN, **how).interrupted
    shutil.rmtree(beside(out))
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(
        InputError, match=r"it is another run, of which a part is saved \(the digest of the network's values was"
    ):
        srgdqn.train(LEVERS, "dqn-sgd", network=Stubborn(jnp.zeros(8)), resume=True, **how)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


@pytest.mark.parametrize("keep", [None, 2])
def test_killed_once_it_was_saved(keep: int | None, whole: Result, cut: CutShort, out: Path, tmp_path: Path) -> None:
    """Between the last rename and the removal of its checkpoints, or their move into the run."""
    killed(cut, out, keep_checkpoints=keep)
    shutil.copytree(beside(out), tmp_path / "aside")
    train(out, resume=True)
    shutil.rmtree(out / "checkpoints", ignore_errors=True)
    shutil.move(tmp_path / "aside", beside(out))
    files = {path.name: path.read_bytes() for path in out.iterdir()}
    cut.counted()
    assert outcome(train(out, resume=True)) == outcome(whole)
    assert cut.counted() == 0
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} == files
    assert (out / "checkpoints").exists() == (keep is not None)
    assert os.listdir(out.parent) == ["a"]


def test_killed_while_its_checkpoints_were_removed(whole: Result, cut: CutShort, out: Path, tmp_path: Path) -> None:
    """Nothing is left of it then that would stand in the way of another run."""
    killed(cut, out)
    shutil.copytree(beside(out), tmp_path / "aside")
    train(out, resume=True)
    shutil.move(tmp_path / "aside", beside(out))
    (beside(out) / "manifest.json").unlink()
    (beside(out) / "configuration.toml").unlink()
    assert outcome(train(out, resume=True)) == outcome(whole)
    assert os.listdir(out.parent) == ["a"]


def test_killed_before_the_first_checkpoint(whole: Result, cut: CutShort, out: Path) -> None:
    """With a folder that says what was asked, and no more: it is begun, also with resume=True."""
    run = prepare(srgdqn.configure("CartPole", "srg-dqn", **OPTIONS))
    configuration, about = run.configuration, run.identity
    for resume in (True, False):
        beside(out).mkdir(parents=True)
        write_request(beside(out), Request("another = 1", about, {"every": None, "keep": None}))
        result = train(out, resume=resume)
        assert outcome(result) == outcome(whole)
        assert result.configuration == configuration
        shutil.rmtree(out)


def test_a_finished_run_of_the_users_own_code_can_still_act(out: Path) -> None:
    still: dict[str, Any] = {k: v for k, v in TINY.items() if k not in ("hidden", "time_limit")}
    how: dict[str, Any] = dict(**still, network=STUBBORN, out=out, resume=True, progress=False)
    first, second = (srgdqn.train(LEVERS, "dqn-sgd", **how) for _ in range(2))
    assert outcome(first) == outcome(second)
    observations = np.ones((3, 1), np.float32)
    assert second.policy(0)(observations).tolist() == first.policy(0)(observations).tolist()
    assert second.evaluate(episodes=2)["return"].to_list() == first.evaluate(episodes=2)["return"].to_list()


# What is refused


def test_an_unfinished_run_is_resumed_on_request_only(whole: Result, cut: CutShort, out: Path) -> None:
    killed(cut, out)
    words = (
        rf"{beside(out)} has the checkpoints of a run that was not finished\. Resume it \(--resume, or resume=True "
        r"in Python\), or begin anew \(--overwrite, or overwrite=True\)\."
    )
    with pytest.raises(InputError, match=words):
        train(out)
    assert cut.counted() == 0
    assert outcome(train(out, overwrite=True)) == outcome(whole)
    assert cut.counted() == WHOLE  # from the beginning
    assert os.listdir(out.parent) == ["a"]


def test_what_would_give_other_bits_is_named_and_not_resumed(
    whole: Result, cut: CutShort, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(cut, out)
    words = rf"the run in {beside(out)} was begun with another configuration: eta was 0\.\d+, and now is 0\.25\. Give"
    with pytest.raises(InputError, match=words):
        train(out, resume=True, eta=0.25)
    asked = beside(out) / "configuration.toml"
    written = asked.read_bytes()
    asked.write_bytes(written.replace(b"srg-dqn", b"dqn-sgd"))
    with pytest.raises(InputError, match=r"configuration\.toml cannot be used: it is not the file that manifest\.json"):
        train(out, resume=True)
    asked.write_bytes(written)
    here = provenance()
    with monkeypatch.context() as patched:
        edited = {**here, "computation": "training 0", "versions": {**here["versions"], "jax": "0.0"}}
        patched.setattr("srgdqn.session.prepare.provenance", lambda module: edited)
        words = (
            r"cannot be resumed to the same bits, as this has changed since it was begun: computation was "
            rf"training \d+, and now is training 0; jax was {here['versions']['jax']}, and now is 0\.0\. Give"
        )
        with pytest.raises(InputError, match=words):
            train(out, resume=True)
    assert outcome(train(out, resume=True)) == outcome(whole)


def test_a_finished_run_of_another_network_is_neither_handed_out_nor_replaced(out: Path, cut: CutShort) -> None:
    """Nor is it taken for the end of the run that was to replace it, whose checkpoints then are all there is."""
    still: dict[str, Any] = {k: v for k, v in TINY.items() if k not in ("hidden", "time_limit")}
    how: dict[str, Any] = dict(**still, out=out, progress=False, checkpoint_every=0)
    other = Stubborn(jnp.zeros(8))
    wanted = outcome(srgdqn.train(LEVERS, "dqn-sgd", network=other, **{**how, "out": out.with_name("wanted")}))
    before = outcome(srgdqn.train(LEVERS, "dqn-sgd", network=STUBBORN, **how))
    assert before != wanted
    with pytest.raises(InputError, match="exists already"):
        srgdqn.train(LEVERS, "dqn-sgd", network=other, **how, resume=True)
    assert outcome(srgdqn.train(LEVERS, "dqn-sgd", network=STUBBORN, **how, resume=True)) == before
    cut.counted()
    cut.after = 3
    with pytest.raises(Killed):
        srgdqn.train(LEVERS, "dqn-sgd", network=other, **how, overwrite=True)
    assert outcome(srgdqn.train(LEVERS, "dqn-sgd", network=other, **how, resume=True)) == wanted


def test_versions_and_machines_matter_to_what_is_unfinished_only(out: Path) -> None:
    """A finished run is handed out, whatever made it; a part of one that other versions made is not replaced."""
    result = train(out)
    made = {**result.run.provenance, "computation": "training 0"}
    Result(dataclasses.replace(result.run, provenance=made)).save(out, overwrite=True)
    assert train(out, resume=True).run.provenance["computation"] == "training 0"
    made["interrupted"] = True
    Result(dataclasses.replace(result.run, provenance=made)).save(out, overwrite=True)
    with pytest.raises(InputError, match=r"a part is saved \(computation was training 0, and now is training 1"):
        train(out, resume=True)
    assert srgdqn.load(out).run.provenance["computation"] == "training 0"


@pytest.mark.parametrize("field", ["{x}", "{", "{0.__class__}"])
def test_what_a_file_says_of_user_code_is_only_shown(field: str, out: Path) -> None:
    result = train(out)
    inputs = {**result.run.provenance["inputs"], "user_code": {"network": {field: 1}}}
    run = dataclasses.replace(result.run, provenance={**result.run.provenance, "inputs": inputs})
    Result(run).save(out, overwrite=True)
    with pytest.raises(InputError, match=re.escape(f"({field} of the network was 1, and now is not given)")):
        train(out, resume=True)


@pytest.mark.parametrize("code", [[1], "x", {"network": 1}])
def test_an_unfinished_run_with_unusable_user_code_is_damaged(code: Any, cut: CutShort, out: Path) -> None:
    killed(cut, out)
    request = read_request(beside(out))
    assert request is not None
    write_request(beside(out), request._replace(about={**request.about, "user_code": code}))
    with pytest.raises(InputError, match="what it says of your own code cannot be used"):
        train(out, resume=True)


def test_a_finished_run_of_another_precision_is_another_run(out: Path) -> None:
    single = train(out, resume=True)
    words = r"exists already: it is another run, which is finished \(precision was float32, and now is float64\)"
    with jax.enable_x64(True), pytest.raises(InputError, match=words):
        train(out, resume=True)
    assert outcome(train(out, resume=True)) == outcome(single)


def test_folders_that_are_no_runs_are_left_alone(out: Path) -> None:
    out.mkdir(parents=True)
    (out / "thesis.tex").write_text("years of work")
    for how in (dict(), dict(resume=True), dict(overwrite=True), dict(resume=True, overwrite=True)):
        with pytest.raises(InputError, match="exists already"):
            train(out, **how)
    assert (out / "thesis.tex").read_text() == "years of work"
    assert os.listdir(out.parent) == ["a"]


def test_checkpoints_need_a_folder() -> None:
    for how in (dict(resume=True), dict(overwrite=True), dict(checkpoint_every=0), dict(keep_checkpoints=1)):
        with pytest.raises(InputError, match=r"are for runs that are saved\. Give out="):
            train(**how)


def test_one_process_at_a_time(out: Path, cut: CutShort) -> None:
    with claimed(CheckpointOptions(out)):
        for how in (dict(), dict(resume=True), dict(overwrite=True)):
            with pytest.raises(InputError, match=r"a\.unfinished is the folder of a run that this very process is at"):
                train(out, **how)
    assert cut.counted() == 0
    assert not out.parent.exists()


# How it is checkpointed


@pytest.fixture
def asked_for(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """The interval, and how many checkpoints stay, of every run that is begun or resumed."""
    asked: list[tuple[Any, Any]] = []

    class Noting(CheckpointManager):
        def __init__(self, folder: Path, every: Any, keep: Any, stamp: str) -> None:
            asked.append((every, keep))
            super().__init__(folder, every, keep, stamp)

    monkeypatch.setattr(run_session, "CheckpointManager", Noting)
    return asked


def test_options_are_remembered_and_may_be_given_anew(
    asked_for: list[tuple[Any, Any]], cut: CutShort, out: Path
) -> None:
    killed(cut, out, 3, keep_checkpoints=3)
    for how in (dict(), dict(checkpoint_every=1e-6), dict(keep_checkpoints=1), dict(keep_checkpoints="all")):
        cut.after = 2
        with pytest.raises(Killed):
            train(out, resume=True, **how)
    train(out, resume=True)
    assert asked_for == [(0, 3), (0, 3), (1e-6, 3), (1e-6, 1), (1e-6, None), (1e-6, None)]
    # Two were left when all were to stay from then on; one more was made before the end, which is the fourth.
    assert [len(list(job.glob("*.checkpoint"))) for job in (out / "checkpoints").iterdir()] == [4]
    asked_for.clear()
    train(out, overwrite=True)
    assert asked_for == [(None, 2)]
    assert not (out / "checkpoints").exists()


def test_overwriting_may_be_said_on_resuming(whole: Result, cut: CutShort, out: Path, tmp_path: Path) -> None:
    killed(cut, out)
    train(tmp_path / "other", seed=5)
    shutil.move(tmp_path / "other", out)
    words = r"it is another run, which is finished \(seed was 5, and now is 0\)\. .* give --overwrite as well"
    with pytest.raises(InputError, match=words):
        train(out, resume=True)
    cut.after = 1
    with pytest.raises(Killed):
        train(out, resume=True, overwrite=True)
    assert outcome(train(out, resume=True)) == outcome(whole)


def test_a_disk_that_cannot_note_options_does_not_end_it(
    whole: Result, cut: CutShort, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(cut, out)

    def full(folder: Path, request: Request) -> None:
        raise InputError("it could not be written")

    monkeypatch.setattr(run_session, "write_request", full)
    assert outcome(train(out, resume=True, keep_checkpoints=1)) == outcome(whole)
    assert (out / "checkpoints").exists()


def test_one_checkpoint_that_stays_is_not_the_only_one_meanwhile(
    whole: Result, cut: CutShort, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    killed(cut, out, keep_checkpoints=1)
    [*_, damaged] = sorted(beside(out).rglob("*.checkpoint"))
    damaged.write_text("")
    assert outcome(train(out, resume=True)) == outcome(whole)
    assert capsys.readouterr().err.count("cannot be used") == 1
    assert 0 < cut.counted() < WHOLE
    assert len(list(out.rglob("*.checkpoint"))) == 1


@pytest.mark.parametrize("keep", [1, "all"])
def test_checkpoints_that_stay_are_in_the_run(keep: Any, whole: Result, cut: CutShort, out: Path) -> None:
    killed(cut, out, keep_checkpoints=keep)
    result = train(out, resume=True)
    loaded = srgdqn.load(out)
    assert outcome(result) == outcome(loaded) == outcome(whole)
    [job] = (out / "checkpoints").iterdir()
    journal = CheckpointFolder(job)
    numbers = journal.numbers()
    assert len(numbers) == (7 if keep == "all" else keep)
    for number in numbers:
        checkpoint = journal.open(number)
        assert checkpoint.about["rounds"][0][1:] == [0, 6]
        assert sum(1 for _ in checkpoint.rows()) > 0
    assert os.listdir(out.parent) == ["a"]
    # A run as any other: it is read, replaced, and found finished.
    assert outcome(train(out, resume=True)) == outcome(whole)
    assert (out / "checkpoints").exists()


def test_a_disk_that_refuses_checkpoints_is_reported_and_the_run_is_saved(
    whole: Result, out: Path, cut: CutShort, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write = destination._write

    def full(path: Path, data: bytes) -> None:
        if path.suffix in (".checkpoint", ".piece"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, data)

    monkeypatch.setattr(destination, "_write", full)
    assert outcome(train(out, checkpoint_every=0, keep_checkpoints="all")) == outcome(whole)
    assert capsys.readouterr().err.count("no checkpoint could be made") == 1
    assert os.listdir(out.parent) == ["a"]


# A run that replaces another


def test_an_older_run_that_was_to_be_replaced_is_not_taken_for_the_new_one(
    whole: Result, cut: CutShort, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = provenance()
    with monkeypatch.context() as patched:
        patched.setattr("srgdqn.session.prepare.provenance", lambda module: {**here, "computation": "training 0"})
        train(out)
    killed(cut, out, overwrite=True)
    assert srgdqn.load(out).run.provenance["computation"] == "training 0"  # it is replaced in the end
    assert outcome(train(out, resume=True)) == outcome(whole)
    assert cut.counted() > 0
    assert srgdqn.load(out).run.provenance["computation"] == here["computation"]
    assert read_request(beside(out)) is None
