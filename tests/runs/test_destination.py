import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from srgdqn.errors import InputError
from srgdqn.runs.destination import (
    check_destination,
    check_file,
    make_folder,
    write_file,
    write_folder,
    written_whole,
)

CONTENTS = {"a": b"new a", "b": b"new b", "manifest.json": b"{}"}


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_new_folder_is_written_with_its_parents(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "x" / "y" / "run", CONTENTS)
    assert path == tmp_path / "x" / "y" / "run"
    assert contents(path) == CONTENTS
    assert os.listdir(path.parent) == ["run"]


@pytest.fixture
def places(tmp_path: Path) -> Path:
    """A file, a folder with something in it, an empty folder, and links to the empty folder and to nothing."""
    (tmp_path / "file").write_text("x")
    for name in ("folder", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "folder" / "letters").write_text("dear")
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    return tmp_path


NO_RUN = "exists already and is not the folder of a run"


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("file", NO_RUN),
        ("folder", NO_RUN),
        ("link", NO_RUN),
        ("dangling", NO_RUN),
        ("/proc", "is where a volume is mounted. Give a folder below it, such as /proc/run."),
        ("file/x/y/run", "file is not a folder. Give a folder elsewhere"),
        ("dangling/run", "dangling is not a folder. Give a folder elsewhere"),
        ("/proc/srgdqn/x/run", "/proc cannot be written to"),
        ("x" * 300, "cannot be used as a folder"),
        ("a\0b", "cannot be used as a folder"),
    ],
)
def test_a_place_that_will_not_do_is_refused(place: str, said: str, places: Path) -> None:
    folder = places / place
    before = sorted(os.listdir(places))
    for attempt in (lambda: check_destination(folder), lambda: write_folder(folder, CONTENTS)):
        with pytest.raises(InputError) as caught:
            attempt()
        assert said in str(caught.value)
        assert str(folder) in str(caught.value)
        assert "--overwrite" not in str(caught.value)  # which would be refused as well
    assert sorted(os.listdir(places)) == before


@pytest.mark.parametrize("place", ["file", "folder", "dangling"])
def test_what_is_no_run_is_never_overwritten(place: str, places: Path) -> None:
    with pytest.raises(InputError, match="is not the folder of a run, so that it will not be overwritten"):
        write_folder(places / place, CONTENTS, overwrite=True)
    assert os.path.lexists(places / place)


def test_overwriting_replaces_the_whole_folder(tmp_path: Path) -> None:
    write_folder(tmp_path / "run", {**CONTENTS, "old": b"old"})
    write_folder(tmp_path / "run", {**CONTENTS, "a": b"newer"}, overwrite=True)
    assert contents(tmp_path / "run") == {**CONTENTS, "a": b"newer"}
    assert os.listdir(tmp_path) == ["run"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_an_empty_folder_is_as_good_as_none(overwrite: bool, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    write_folder(tmp_path / "run", CONTENTS, overwrite=overwrite)
    assert contents(tmp_path / "run") == CONTENTS
    assert os.listdir(tmp_path) == ["run"]


def test_a_private_folder_stays_private(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir(mode=0o700)
    write_folder(tmp_path / "run", CONTENTS)
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o700


class Failing:
    """A system call that fails the n-th time."""

    def __init__(self, real: Callable[..., Any], turn: int, error: BaseException) -> None:
        self.real, self.turn, self.error, self.calls = real, turn, error, 0

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.calls += 1
        if self.calls == self.turn:
            raise self.error
        return self.real(*arguments, **options)


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(("call", "turn"), [("fsync", 1), ("fsync", 2), ("fsync", 3), ("rename", 1)])
@pytest.mark.parametrize("error", [FULL, KeyboardInterrupt()])
def test_a_full_disk_leaves_nothing_behind(
    call: str, turn: int, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, call, Failing(getattr(os, call), turn, error))
        expected = InputError if error is FULL else KeyboardInterrupt
        with pytest.raises(expected) as caught:
            write_folder(tmp_path / "x" / "y" / "run", CONTENTS)
    assert os.listdir(tmp_path) == []
    if error is FULL:
        assert f"could not be saved in {tmp_path / 'x' / 'y' / 'run'}: No space left on device" in str(caught.value)
        assert "give another folder, and save it again" in str(caught.value)


@pytest.mark.parametrize(("call", "turn"), [("fsync", 1), ("fsync", 3), ("rename", 1), ("rename", 2)])
@pytest.mark.parametrize("error", [FULL, KeyboardInterrupt()])
def test_the_older_run_outlives_a_failure(
    call: str, turn: int, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path / "run", {**CONTENTS, "a": b"old a"})
    with monkeypatch.context() as patch:
        patch.setattr(os, call, Failing(getattr(os, call), turn, error))
        with pytest.raises((InputError, KeyboardInterrupt)):
            write_folder(tmp_path / "run", CONTENTS, overwrite=True)
    assert contents(tmp_path / "run") == {**CONTENTS, "a": b"old a"}
    assert os.listdir(tmp_path) == ["run"]


def test_a_folder_that_appears_meanwhile_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.rename

    def rename(source: Path, target: Path) -> None:
        target.mkdir()
        (target / "theirs").write_text("x")
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", rename)
        with pytest.raises(InputError, match="could not be saved"):
            write_folder(tmp_path / "run", CONTENTS)
    assert os.listdir(tmp_path) == ["run"]
    assert os.listdir(tmp_path / "run") == ["theirs"]


def test_a_files_place_is_checked_without_leaving_anything(tmp_path: Path) -> None:
    (tmp_path / "old.b").write_text("old")
    assert check_file(tmp_path / "new.B", (".a", ".b"), what="thing") == tmp_path / "new.B"
    assert check_file(tmp_path / "old.b", (".b",), what="thing", overwrite=True) == tmp_path / "old.b"
    for path, why in {
        "new.c": "'.c', which no thing can be written as. End it in .a or .b.",
        "new": "'', which no thing",
        "old.b": "exists already",
        "nowhere/new.a": "is not a folder",
    }.items():
        with pytest.raises(InputError) as caught:
            check_file(tmp_path / path, (".a", ".b"), what="thing")
        assert why in str(caught.value)
    with pytest.raises(InputError, match=r"proc cannot be written to"):
        check_file("/proc/new.a", (".a",), what="thing")
    assert os.listdir(tmp_path) == ["old.b"]


@pytest.mark.parametrize("place", ["/proc/self", "/proc/self/run"])
def test_a_folder_to_write_in_must_be_writable(place: str) -> None:
    with pytest.raises(InputError, match=rf"^{place} cannot be used as a folder \([^)]+\)\. Give one in a place where"):
        make_folder(place)


def test_a_file_takes_its_place_only_if_nothing_failed(tmp_path: Path) -> None:
    def write(text: str, error: BaseException | None = None) -> None:
        with written_whole(tmp_path / "file.txt") as scratch:
            assert scratch.suffix == ".txt"
            scratch.write_text(text)
            if error is not None:
                raise error

    write("one")
    for error in (KeyboardInterrupt(), FileNotFoundError("elsewhere")):
        with pytest.raises(type(error)):
            write("two", error)
        assert os.listdir(tmp_path) == ["file.txt"]
        assert (tmp_path / "file.txt").read_text() == "one"
    write("three")
    assert (tmp_path / "file.txt").read_text() == "three"


def test_what_the_disk_refuses_is_told(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="folder could not be written"):
        write_file(tmp_path / "folder", b"data")
    assert os.listdir(tmp_path) == ["folder"]
