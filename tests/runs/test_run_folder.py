"""The folder of a run under way: what was asked, whose it is, and what is left of it at the end."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from srgdqn.errors import InputError
from srgdqn.runs import locks, manifest
from srgdqn.runs.destination import scratch
from srgdqn.runs.run_folder import (
    CHECKPOINTS,
    JOBS,
    Request,
    beside,
    changes,
    check_stays_within,
    clear,
    configuration_file,
    discard,
    has_checkpoints,
    move_checkpoints,
    occupied,
    read_request,
    write_request,
)

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


def test_a_configuration_alone_is_nothing_under_way(tmp_path: Path) -> None:
    """As where the process was ended between the two files."""
    write_request(tmp_path, REQUEST)
    (tmp_path / "manifest.json").unlink()
    assert read_request(tmp_path) is None


@pytest.mark.parametrize("name", ["manifest.json", "configuration.toml"])
def test_every_byte_of_what_was_asked_counts(name: str, tmp_path: Path) -> None:
    write_request(tmp_path, REQUEST)
    path = tmp_path / name
    data = path.read_bytes()
    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1 << place % 7
        path.write_bytes(flipped)
        try:
            assert read_request(tmp_path) == REQUEST  # a blank
        except InputError:
            continue
    path.unlink()
    if name == "configuration.toml":
        with pytest.raises(InputError, match=r"configuration\.toml cannot be used: it is missing"):
            read_request(tmp_path)


@pytest.mark.parametrize(
    ("files", "told", "kind", "why"),
    [
        ({"configuration.toml": b""}, {"about": {}}, manifest.UNFINISHED_RUN, "what was asked is missing"),
        (
            {"configuration.toml": b""},
            {"about": [], "options": {}},
            manifest.UNFINISHED_RUN,
            "what was asked is missing",
        ),
        ({}, {"about": {}, "options": {}}, manifest.UNFINISHED_RUN, "other files than an unfinished run has"),
        (
            {"configuration.toml": b"", "../x": b""},
            {"about": {}, "options": {}},
            manifest.UNFINISHED_RUN,
            "other files",
        ),
        ({"configuration.toml": b""}, {"about": {}, "options": {}}, manifest.RUN, "not the manifest of"),
    ],
)
def test_what_a_stranger_wrote_is_refused(
    files: dict[str, bytes], told: dict[str, Any], kind: str, why: str, tmp_path: Path
) -> None:
    (tmp_path / "configuration.toml").write_bytes(b"")
    (tmp_path / "manifest.json").write_bytes(manifest.render(files, told, kind))
    with pytest.raises(InputError, match=why):
        read_request(tmp_path)


def test_a_newer_one_is_told_as_such(tmp_path: Path) -> None:
    write_request(tmp_path, REQUEST)
    content = json.loads((tmp_path / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps({**content, "version": 99}))
    with pytest.raises(InputError, match="was written by a newer srgdqn"):
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


def test_what_can_go_on_stays(tmp_path: Path) -> None:
    folder = tmp_path / "a.unfinished"
    with contextlib.suppress(KeyboardInterrupt), occupied(folder, what="a test"):
        write_request(folder, REQUEST)
        jobs(folder)
        raise KeyboardInterrupt
    assert sorted(os.listdir(folder)) == ["configuration.toml", JOBS, "manifest.json"]
    assert has_checkpoints(folder)
    assert read_request(folder) == REQUEST


def test_it_is_one_process_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "a.unfinished"
    with occupied(folder, what="the folder of a test"):
        with pytest.raises(InputError, match="is the folder of a test that this very process is at work on"):
            occupied(folder, what="the folder of a test").__enter__()
        assert folder.exists()  # whoever is refused removes nothing


def test_where_nothing_can_be_written_that_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="could not be written"):
        occupied(tmp_path / "file" / "a.unfinished", what="a test").__enter__()
    with pytest.raises(InputError, match="could not be written"):
        occupied(tmp_path / "file", what="a test").__enter__()


# What is left of it


def test_pieces_alone_are_nothing_to_go_on_from(tmp_path: Path) -> None:
    assert not has_checkpoints(tmp_path)
    (tmp_path / JOBS / "round-0").mkdir(parents=True)
    (tmp_path / JOBS / "round-0" / "000001.rows.piece").write_text("")
    assert not has_checkpoints(tmp_path)
    (tmp_path / JOBS / "round-0" / "000001.checkpoint").write_text("")
    assert has_checkpoints(tmp_path)


def test_clearing_forgets_and_discarding_removes(tmp_path: Path) -> None:
    folder = tmp_path / "a.unfinished"
    folder.mkdir()
    jobs(folder)
    write_request(folder, REQUEST)
    clear(folder)
    assert os.listdir(folder) == []
    clear(folder)
    jobs(folder)
    discard(folder)
    discard(folder)
    assert os.listdir(tmp_path) == []


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
    move_checkpoints(folder, out)
    assert os.listdir(out) == []
    jobs(folder)
    before = {path.relative_to(folder / JOBS): path.read_text() for path in folder.rglob("*.*") if path.is_file()}
    move_checkpoints(folder, out)
    assert {p.relative_to(out / CHECKPOINTS): p.read_text() for p in out.rglob("*.*") if p.is_file()} == before
    assert len(before) == 4
    assert not has_checkpoints(folder)


def test_what_a_kill_left_half_written_is_not_moved_with_them(tmp_path: Path) -> None:
    folder, out = tmp_path / "a.unfinished", tmp_path / "a"
    out.mkdir()
    jobs(folder)
    if not Path("/proc/sys/kernel/random/boot_id").exists():
        pytest.skip("the running system has no name here")
    with scratch(folder / JOBS / "round-7", ".checkpoint") as half:
        half.write_text("half a checkp")
    move_checkpoints(folder, out)
    names = sorted(os.listdir(out / CHECKPOINTS / "round-7"))
    assert names == ["000001.checkpoint", "000001.rows.piece"]


def test_marks_and_locks_that_a_kill_left_are_not_moved_with_them(tmp_path: Path) -> None:
    """As of a driver on many machines, and of a round that was being kept."""
    folder, out = tmp_path / "a.unfinished", tmp_path / "a"
    out.mkdir()
    jobs(folder)
    (folder / JOBS / ".shared").write_text("0" * 32)
    for held in (".locks/rounds-0-3-abcdef", "round-7", "round-8"):
        (folder / JOBS / held).mkdir(parents=True, exist_ok=True)
        (folder / JOBS / held / locks.LOCK).write_text("123\n")
    (folder / JOBS / "round-9").mkdir()
    move_checkpoints(folder, out)
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
