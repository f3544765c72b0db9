"""What a process that was killed leaves half written is removed by the next that writes there; what is somebody's is
not.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from srgdqn.runs import destination as module
from srgdqn.runs.destination import (
    aside,
    is_scratch,
    scratch,
    write_file,
    write_folder,
)

# Begins to write, says so, and ends once a line comes in.
_FILE = """
import sys
from pathlib import Path
from srgdqn.runs.destination import written_whole
with written_whole(Path(sys.argv[1]) / "file.txt") as path:
    path.write_text("by another")
    print("begun", flush=True)
    sys.stdin.readline()
"""
_FOLDER = """
import sys
from pathlib import Path
from srgdqn.runs import destination
sync = destination.sync_folder
def waiting(folder):
    if folder.name.startswith(".srgdqn-"):
        print("begun", flush=True)
        sys.stdin.readline()
    sync(folder)
destination.sync_folder = waiting
destination.write_folder(Path(sys.argv[1]) / "run", {"manifest.json": b"{}", "table": b"rows"})
"""
BOTH = pytest.mark.parametrize(("script", "made"), [(_FILE, "file.txt"), (_FOLDER, "run")], ids=["file", "folder"])


@pytest.fixture(autouse=True)
def linux() -> None:
    if module._mark() is None:
        pytest.skip("the running system has no name here")


@contextmanager
def writing(script: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that is in the midst of writing."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def left(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if is_scratch(name)]


@BOTH
def test_what_a_killed_process_leaves_is_removed_by_the_next(script: str, made: str, tmp_path: Path) -> None:
    with writing(script, tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert len(left(tmp_path)) == 1
    write = write_file if made == "run" else write_folder
    write(tmp_path / "mine", b"mine" if made == "run" else {"a": b"mine"})  # type: ignore[operator]
    assert os.listdir(tmp_path) == ["mine"]


@BOTH
def test_what_a_living_process_writes_stays(script: str, made: str, tmp_path: Path) -> None:
    with writing(script, tmp_path) as process:
        write_file(tmp_path / "mine.txt", b"mine")
        write_folder(tmp_path / "mine", {"a": b"mine"})
        assert len(left(tmp_path)) == 1
        process.communicate("end\n", timeout=60)
        assert process.returncode == 0
    assert sorted(os.listdir(tmp_path)) == sorted(["mine", "mine.txt", made])


def test_only_what_this_system_has_made_is_removed(tmp_path: Path) -> None:
    """What another machine writes bears another mark; what was about to be replaced may be all that there is of it."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("years of work")
    token, mark = "0123456789abcdef", module._mark()
    others = [".srgdqn-" + token, f".srgdqn-00000000-{token}", f".srgdqn-{mark}-{token[:-1]}", f"srgdqn-{mark}-{token}"]
    others += [aside(tmp_path).name, "runs", ".lock"]
    for name in others:
        (tmp_path / name).mkdir()
    (tmp_path / f".srgdqn-{mark}-{token}.json").write_text("half a fi")
    (tmp_path / f".srgdqn-{mark}-{token}").symlink_to(precious)
    write_file(tmp_path / "mine.txt", b"mine")
    assert sorted(os.listdir(tmp_path)) == sorted([*others, "mine.txt", "precious"])
    assert (precious / "file").read_text() == "years of work"


def test_a_folder_that_somebody_has_locked_is_written_to_all_the_same(tmp_path: Path) -> None:
    """As by `flock runs srgdqn train --out runs/a`. Then nobody can tell whose a scratch is, and nobody removes it."""
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with scratch(tmp_path, ".txt") as path:
            path.write_text("mine")
            fcntl.flock(handle, fcntl.LOCK_UN)
            write_file(tmp_path / "other.txt", b"other")
            assert path.read_text() == "mine"
    finally:
        os.close(handle)


def test_only_the_folder_that_is_locked_is_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not another one that has taken its place meanwhile, in which somebody may be at work."""
    folder, moved = tmp_path / "folder", tmp_path / "moved"
    names = [f".srgdqn-{module._mark()}-{number:016x}" for number in range(2)]

    def fill() -> None:
        (folder / names[0]).mkdir(parents=True)
        (folder / names[0] / "file").write_text("half a fi")
        (folder / names[1]).write_text("half a fi")

    fill()
    flock = fcntl.flock

    def swapping(handle: int, how: int) -> None:
        flock(handle, how)
        if how & fcntl.LOCK_EX:
            folder.rename(moved)
            fill()

    monkeypatch.setattr(fcntl, "flock", swapping)
    with scratch(folder):
        assert sorted(os.listdir(folder)) == names
        assert os.listdir(moved) == []


@pytest.mark.parametrize("missing", ["locks", "a name of the running system"])
def test_without_what_it_needs_nothing_is_removed(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = tmp_path / f".srgdqn-{module._mark()}-0123456789abcdef.txt"
    dead.write_text("half a fi")
    if missing == "locks":
        monkeypatch.setattr(module, "fcntl", None)
    else:
        monkeypatch.setattr(module, "_mark", lambda: None)
    write_file(tmp_path / "mine.txt", b"mine")
    assert sorted(os.listdir(tmp_path)) == [dead.name, "mine.txt"]
