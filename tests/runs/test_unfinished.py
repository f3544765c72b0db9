"""The folder of an unfinished run: what was asked, whose it is, and what is left of it at the end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from srgdqn.errors import InputError
from srgdqn.runs import locks, manifest
from srgdqn.runs.destination import scratch
from srgdqn.runs.unfinished import (
    CHECKPOINTS,
    JOBS,
    CheckpointOptions,
    Request,
    beside,
    changes,
    check_stays_within,
    clear,
    configuration_file,
    has_checkpoints,
    move_checkpoints,
    occupied,
    read_request,
    write_request,
)
from synthetic_runs import synthetic

REQUEST = Request(
    "algorithm = 'srg-dqn'  # Ü\n", {"source": "abc", "versions": {"jax": "1"}}, {"every": 2.5, "keep": 3}
)


def jobs(folder: Path) -> None:
    """One of each kind of file, of two jobs."""
    for name in ("rounds-0-3-abcdef", "round-7"):
        (folder / JOBS / name).mkdir(parents=True)
        for file in ("000001.checkpoint", "000001.rows.piece"):
            (folder / JOBS / name / file).write_text(f"{name} {file}")


def test_it_lies_beside_the_folder_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert beside("runs/srg") == beside("runs/x/../srg/") == tmp_path / "runs" / "srg.unfinished"
    assert beside("a.b") == tmp_path / "a.b.unfinished"
    assert configuration_file("a").parent == beside("a")


def test_what_was_asked_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_request(tmp_path / "nowhere") is None
    assert read_request(tmp_path) is None
    write_request(tmp_path, REQUEST)
    assert read_request(tmp_path) == REQUEST
    other = REQUEST._replace(configuration="", options={"keep": "all"})
    write_request(tmp_path, other)
    assert read_request(tmp_path) == other
    clear(tmp_path)
    assert read_request(tmp_path) is None


@pytest.mark.parametrize(
    ("names", "asked", "why"),
    [
        (["configuration.toml"], {"about": {}}, "what was asked is missing"),
        (["configuration.toml"], {"about": [], "options": {}}, "what was asked is missing"),
        (["configuration.toml"], {"about": {}, "options": {"every": -1}}, "unusable checkpoint options"),
        ([], {"about": {}, "options": {}}, "what was asked is missing"),
        (["configuration.toml", "../x"], {"about": {}, "options": {}}, "no file of an unfinished run"),
    ],
)
def test_what_a_stranger_wrote_is_refused(names: list[str], asked: dict[str, Any], why: str, tmp_path: Path) -> None:
    (tmp_path / "configuration.toml").write_bytes(b"")
    files = dict.fromkeys(names, b"")
    (tmp_path / "manifest.json").write_bytes(manifest.render(files, asked, manifest.UNFINISHED_RUN))
    with pytest.raises(InputError, match=why):
        read_request(tmp_path)


# Whose it is


def test_what_has_nothing_in_it_is_gone_again(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "deep" / "a.unfinished"
    with occupied(folder, what="a test"):
        write_request(folder, REQUEST)
        assert (folder / locks.LOCK).exists()
    assert os.listdir(tmp_path) == []
    (tmp_path / "runs").mkdir()
    with pytest.raises(ZeroDivisionError), occupied(folder, what="a test"):
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == ["runs"]  # which was there before
    with occupied(folder, what="a test"):
        (tmp_path / "runs" / "deep" / "other").write_text("mine")
    assert os.listdir(tmp_path / "runs" / "deep") == ["other"]


# What is left of it


def test_what_leads_elsewhere_is_neither_written_to_nor_removed(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "a.unfinished", tmp_path / "elsewhere"
    jobs(elsewhere)
    folder.mkdir()
    write_request(folder, REQUEST)
    for link in (folder / JOBS, folder / JOBS / "round-7", folder / JOBS / "below" / "round-7"):
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(elsewhere / JOBS / "round-7")
        with pytest.raises(InputError, match=f"{link} leads elsewhere"):
            read_request(folder)
        link.unlink()
    check_stays_within(folder / JOBS)
    clear(folder)
    (folder / JOBS).symlink_to(elsewhere / JOBS)
    clear(folder)  # begins anew, and not there
    assert os.listdir(folder) == []
    assert has_checkpoints(elsewhere)


def test_checkpoints_are_moved_into_the_run(tmp_path: Path) -> None:
    folder, out = tmp_path / "a.unfinished", tmp_path / "a"
    out.mkdir()
    move_checkpoints(folder, out, None)
    assert os.listdir(out) == []
    jobs(folder)
    before = {path.relative_to(folder / JOBS): path.read_text() for path in folder.rglob("*.*") if path.is_file()}
    move_checkpoints(folder, out, None)
    assert {p.relative_to(out / CHECKPOINTS): p.read_text() for p in out.rglob("*.*") if p.is_file()} == before
    assert len(before) == 4
    assert not has_checkpoints(folder)


def test_what_a_kill_left_is_not_moved_with_them(tmp_path: Path) -> None:
    """As of a driver on many machines, and of a round that was being checkpointed."""
    folder, out = tmp_path / "a.unfinished", tmp_path / "a"
    out.mkdir()
    jobs(folder)
    (folder / JOBS / ".shared").write_text("0" * 32)
    for held in (".locks/rounds-0-3-abcdef", "round-7", "round-8"):
        (folder / JOBS / held).mkdir(parents=True, exist_ok=True)
        (folder / JOBS / held / locks.LOCK).write_text("123\n")
    (folder / JOBS / "round-9").mkdir()
    if Path("/proc/sys/kernel/random/boot_id").exists():  # elsewhere the running system has no name
        with scratch(folder / JOBS / "round-7", ".checkpoint") as half:
            half.write_text("half a checkp")
    move_checkpoints(folder, out, None)
    assert sorted(os.listdir(out / CHECKPOINTS)) == ["round-7", "rounds-0-3-abcdef"]
    assert sorted(os.listdir(out / CHECKPOINTS / "round-7")) == ["000001.checkpoint", "000001.rows.piece"]


@pytest.mark.parametrize(
    ("then", "now", "found"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1, "b": 2}, {"b": 3, "a": 1}, ["b was 2, and now is 3"]),
        ({"a": 1}, {}, ["a was 1, and now is not given"]),
        ({}, {"a": None}, ["a was not given, and now is None"]),
        ({"sets": ["avx2", "fma"]}, {"sets": []}, ["sets was avx2 fma, and now is none"]),
        ({"of": {"jax": "1", "numpy": "2"}}, {"of": {"jax": "3", "numpy": "2"}}, ["jax was 1, and now is 3"]),
        ({"of": {}}, {"of": {"part": {"x": 1}}}, ["part was not given, and now is {'x': 1}"]),
        ({"a": "x" * 61}, {"a": "y" * 60}, [f"a was {'x' * 59}…, and now is {'y' * 60}"]),
    ],
)
def test_what_differs_is_named_with_both_values(then: dict[str, Any], now: dict[str, Any], found: list[str]) -> None:
    assert changes(then, now) == found


# Options


def test_checkpoint_options_are_checked_and_leave_nothing(tmp_path: Path) -> None:
    out = tmp_path / "run"
    for every, keep in ((None, None), (0, 1), (0.5, 100), (3600, "all")):
        CheckpointOptions(out, every=every, keep=keep).checked()  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
    for every in (-1, float("nan"), float("inf")):
        with pytest.raises(InputError, match=rf"checkpoint_every is {every}, but must be seconds: 0 or more"):
            CheckpointOptions(out, every=every).checked()
    for wrong in (0, 1.5, "some", True):
        with pytest.raises(
            InputError, match=rf"keep_checkpoints is {wrong!r}\. Give a whole number from 1 on, or 'all'"
        ):
            CheckpointOptions(out, keep=wrong).checked()  # type: ignore[arg-type]


def test_a_run_that_is_there_is_replaced_or_resumed_on_request_only(tmp_path: Path) -> None:
    synthetic(rounds=1, steps=2_000).save(tmp_path / "run")
    with pytest.raises(InputError, match="exists already"):
        CheckpointOptions(tmp_path / "run").checked()
    CheckpointOptions(tmp_path / "run", resume=True).checked()
    CheckpointOptions(tmp_path / "run", overwrite=True).checked()
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="is not the folder of a run"):
        CheckpointOptions(tmp_path / "precious", resume=True, overwrite=True).checked()


def test_checkpoints_of_an_earlier_version_are_refused_and_stay(tmp_path: Path) -> None:
    place = tmp_path / "run.unfinished" / "strands" / "rounds-0-7-abc" / "000001.checkpoint"
    place.parent.mkdir(parents=True)
    place.write_bytes(b"old")
    with (
        pytest.raises(InputError, match="an earlier version of srgdqn, which this one cannot read"),
        occupied(tmp_path / "run.unfinished", what="the folder of a run"),
    ):
        pass
    assert place.read_bytes() == b"old"
