"""Locks: one process at a time, whoever dies leaves none, and nobody waits for one who is not there."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from srgdqn.errors import InputError
from srgdqn.runs import locks
from srgdqn.runs.locks import LOCK, locked

# Holds the lock until a line is read from it, or somebody ends it.
HOLDER = """
import subprocess, sys
from pathlib import Path
from srgdqn.runs.locks import locked

with locked(Path(sys.argv[1]), what="a test"):
    child = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL, close_fds=False) if len(sys.argv) > 2 else None
    print(0 if child is None else child.pid, flush=True)
    sys.stdin.readline()
    if child is not None:
        child.kill()
        child.wait()
print("gone", flush=True)
"""


@contextlib.contextmanager
def holder(folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Another process that has the lock, and a child of its own, if so asked."""
    started = [sys.executable, "-c", HOLDER, str(folder), *words]
    with subprocess.Popen(started, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def let_go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "gone\n"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_PATIENCE", 0.2)
    monkeypatch.setattr(locks, "_PAUSE", 0.01)


def is_free(folder: Path) -> bool:
    try:
        with locked(folder, what="a test"):
            return True
    except InputError:
        return False


def test_two_processes_cannot_both_have_it(tmp_path: Path) -> None:
    with holder(tmp_path) as (process, _):
        told = rf"^{tmp_path} is a test that process {process.pid} is at work on\. Wait until it has ended, or give an"
        with pytest.raises(InputError, match=told), locked(tmp_path, what="a test"):
            raise AssertionError
        assert not is_free(tmp_path)  # nor was it taken away by asking
        let_go(process)
        assert is_free(tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_holder_that_is_killed_leaves_nothing_that_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_PATIENCE", 0.0)  # whoever has to wait is refused
    with holder(tmp_path) as (process, _):
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert os.listdir(tmp_path) == [LOCK]
        assert is_free(tmp_path)
    assert os.listdir(tmp_path) == []


def test_children_do_not_inherit_it(tmp_path: Path) -> None:
    """Even one that lives on after its parent, with everything open that was."""
    with holder(tmp_path, "with a child") as (process, child):
        try:
            assert not is_free(tmp_path)
            process.send_signal(signal.SIGKILL)
            process.wait()
            os.kill(child, 0)  # it is there
            assert is_free(tmp_path)
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_process_refuses_itself(tmp_path: Path) -> None:
    with locked(tmp_path, what="a test"):
        with pytest.raises(InputError, match="is a test that this very process is at work on"):
            locked(tmp_path, what="a test").__enter__()
        link = tmp_path.with_name("link")
        link.symlink_to(tmp_path)  # the same folder by another name
        with pytest.raises(InputError, match="this very process"):
            locked(link, what="a test").__enter__()
    assert is_free(tmp_path)
    assert is_free(link)


def test_threads_take_turns_at_best(tmp_path: Path) -> None:
    inside, most = 0, 0
    counting = threading.Lock()

    def work() -> None:
        nonlocal inside, most
        turns = 0
        while turns < 12:  # however often it is refused
            with contextlib.suppress(InputError), locked(tmp_path, what="a test"):
                turns += 1
                with counting:
                    inside += 1
                    most = max(most, inside)
                time.sleep(0.0005)
                with counting:
                    inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_a_folder_that_is_removed_while_somebody_waits_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As whoever has finished a run does with the folder that it was kept in."""
    monkeypatch.setattr(locks, "_PATIENCE", 20.0)
    folder = tmp_path / "runs" / "a.unfinished"
    folder.mkdir(parents=True)
    with holder(folder) as (process, _):
        has_it, go = threading.Event(), threading.Event()

        def wait() -> None:
            with locked(folder, what="a test"):
                has_it.set()
                go.wait(20)

        waiting = threading.Thread(target=wait)
        waiting.start()
        time.sleep(0.1)
        assert not has_it.is_set()
        shutil.rmtree(folder.parent)  # while the lock is still held, and nobody else could have taken it
        assert has_it.wait(20)
        let_go(process)  # whose own lock was on a file that is no more
        assert (folder / LOCK).exists()
        go.set()
        waiting.join()
    assert os.listdir(folder) == []


@pytest.mark.parametrize("what", ["a link", "below a file", "a folder"])
def test_where_no_lock_can_be_written_that_is_told(what: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    if what == "below a file":
        (tmp_path / "file").write_text("precious")
        folder = tmp_path / "file" / "below"
    else:
        folder.mkdir()
        (tmp_path / "elsewhere").write_text("precious")
        if what == "a link":
            (folder / LOCK).symlink_to(tmp_path / "elsewhere")
        else:
            (folder / LOCK).mkdir()
    with pytest.raises(InputError, match=r"\.lock cannot be written \(.+\)\. Give a folder where you may write"):
        locked(folder, what="a test").__enter__()
    for path in (tmp_path / "elsewhere", tmp_path / "file"):
        assert not path.exists() or path.read_text() == "precious"


def test_where_the_file_system_has_no_locks_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def acquire(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(locks.FileLock, "acquire", acquire)
    with locked(tmp_path, what="a test"), locked(tmp_path, what="a test"):
        pass
    assert os.listdir(tmp_path) == []
