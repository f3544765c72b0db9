"""When jobs are checkpointed, by a clock that the tests turn, and what is done where the disk refuses."""

from __future__ import annotations

import errno
import os
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest

from srgdqn.runs import checkpoint_manager as module
from srgdqn.runs import destination
from srgdqn.runs.checkpoint_manager import EVERY, CheckpointManager
from srgdqn.runs.checkpoints import Checkpoint, CheckpointFolder, Snapshot, Stream


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        self.saving = 0.0  # what a save takes
        patched.setattr(module.time, "monotonic", lambda: self.now)
        patched.setattr(module.time, "perf_counter", lambda: self.now)
        save = CheckpointFolder.save

        def slow(journal: CheckpointFolder, snapshot: Snapshot) -> int:
            self.now += self.saving
            return save(journal, snapshot)

        patched.setattr(CheckpointFolder, "save", slow)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def snapshot(turn: int, rows: int = 0) -> Snapshot:
    stream = Stream(0, rows, lambda start, stop: {"number": np.arange(start, stop)})
    return Snapshot({"turn": turn}, {"turn": np.array(turn)}, {"rows": stream})


def turn_of(checkpoint: Checkpoint) -> int:
    return int(checkpoint.about["turn"])


def newest(manager: CheckpointManager, name: str) -> int | None:
    return manager.job(name).restore(turn_of)


# When


@pytest.mark.parametrize(("every", "pause"), [(None, EVERY), (0.0, 0.0), (5.0, 5.0), (600.0, 600.0)])
def test_a_job_is_due_when_its_pause_is_over(every: float | None, pause: float, clock: Clock, tmp_path: Path) -> None:
    job = CheckpointManager(tmp_path, every).job("a")
    for turn in range(3):
        assert job.due() == (pause == 0)
        clock.now += pause - 0.01 if pause else 0.0
        assert job.due() == (pause == 0)
        clock.now += 0.02
        assert job.due()
        assert job.due()  # until it is
        job.save(snapshot(turn))
    assert newest(CheckpointManager(tmp_path), "a") == 2


def test_by_default_checkpoints_take_a_hundredth_of_the_time_at_most(clock: Clock, tmp_path: Path) -> None:
    """Saves of 5 seconds: one for every 500 seconds of work, and of 100 seconds one for every 600."""
    job = CheckpointManager(tmp_path).job("a")
    for saving, pause in ((5.0, 500.0), (100.0, 600.0), (0.001, EVERY)):
        clock.saving = saving
        assert job.save(snapshot(0)) == pytest.approx(saving)
        clock.now += pause - 1.0
        assert not job.due()
        clock.now += 1.0
        assert job.due()


# Ends


def test_an_end_is_written_with_the_next_checkpoint(clock: Clock, tmp_path: Path) -> None:
    manager = CheckpointManager(tmp_path, every=10.0)
    ended, other = manager.job("a"), manager.job("b")
    clock.now += 4.0
    ended.finish(snapshot(7, rows=3))
    assert manager.jobs() == []  # nothing is written for it yet
    assert not other.due()
    clock.now += 7.0
    assert other.due()
    other.save(snapshot(1))
    assert (newest(CheckpointManager(tmp_path), "a"), newest(CheckpointManager(tmp_path), "b")) == (7, 1)
    assert ended.bytes > other.bytes > 0
    written = ended.bytes
    manager.flush()
    assert ended.bytes == written  # once is enough


def test_what_waits_makes_a_younger_job_due(clock: Clock, tmp_path: Path) -> None:
    """Unsaved work counts from its beginning, whoever did it."""
    manager = CheckpointManager(tmp_path, every=10.0)
    ended = manager.job("a")
    clock.now += 9.0
    ended.finish(snapshot(7))
    younger = manager.job("b")
    assert not younger.due()
    clock.now += 1.0
    assert younger.due()
    younger.save(snapshot(1))
    assert newest(CheckpointManager(tmp_path), "a") == 7
    clock.now += 9.0
    assert not younger.due()


def test_an_end_that_is_due_is_written_at_once(clock: Clock, tmp_path: Path) -> None:
    manager = CheckpointManager(tmp_path, every=10.0)
    ended, before = manager.job("a"), manager.job("b")
    before.finish(snapshot(5))
    clock.now += 10.0
    ended.finish(snapshot(7))
    assert (newest(CheckpointManager(tmp_path), "a"), newest(CheckpointManager(tmp_path), "b")) == (7, 5)


def test_threads_write_each_others_ends_once(tmp_path: Path) -> None:
    manager = CheckpointManager(tmp_path, every=0.02, keep=None)
    ended = []

    def work(number: int) -> None:
        for turn in range(10):
            job = manager.job(f"s{number}-{turn}")
            if job.due():
                job.save(snapshot(-1))
            before = job.bytes
            job.finish(snapshot(number))
            ended.append((job, before))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    manager.flush()
    assert len({job.bytes - before for job, before in ended}) <= 2  # each once, of one size or another
    for number in range(4):
        assert {newest(CheckpointManager(tmp_path), f"s{number}-{turn}") for turn in range(10)} == {number}


# Where the disk refuses


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """A disk that refuses as long as the list's only element says so."""
    refuses, write = [True], destination._write

    def limited(path: Path, data: bytes) -> None:
        if refuses[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, data)

    monkeypatch.setattr(destination, "_write", limited)
    return refuses


def test_a_full_disk_is_reported_once_and_training_continues(
    full: list[bool], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manager = CheckpointManager(tmp_path, every=0.0)
    first, second = manager.job("a"), manager.job("b")
    for turn in range(3):
        assert first.save(snapshot(turn, rows=turn)) >= 0
        second.save(snapshot(turn))
    second.finish(snapshot(9))
    told = capsys.readouterr().err
    assert told.startswith("warning: no checkpoint could be made: ")
    assert told.count("\n") == 1
    assert "No space left on device" in told
    assert told.endswith("Training continues without, and tries again.\n")
    assert (first.bytes, second.bytes) == (0, 0)
    full[0] = False
    first.save(snapshot(3, rows=5))
    assert newest(CheckpointManager(tmp_path), "a") == 3
    assert capsys.readouterr().err == ""


def test_a_full_disk_is_reported_once_for_all_cells(
    full: list[bool], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manager = CheckpointManager(tmp_path, every=0.0)
    sent_before = pickle.dumps(manager)
    for name in ("first", "second", "third"):
        manager.stamped(name, name).job("a").save(snapshot(1))
    pickle.loads(pickle.dumps(manager.stamped("fourth", "fourth"))).job("a").save(snapshot(1))
    assert capsys.readouterr().err.count("warning: ") == 1
    pickle.loads(sent_before).job("a").save(snapshot(1))  # as in a process that was at work by then
    assert capsys.readouterr().err.count("warning: ") == 1


# What is resumed


def test_another_stamp_is_not_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manager = CheckpointManager(tmp_path, stamp="one")
    manager.job("a").save(snapshot(1))
    assert newest(CheckpointManager(tmp_path, stamp="one"), "a") == 1
    assert manager.look("a", turn_of) == 1
    assert capsys.readouterr().err == ""
    other = manager.stamped("two")
    assert newest(other, "a") is None
    told = capsys.readouterr().err
    assert "000001.checkpoint cannot be used: it was made by another version, on another kind of machine" in told
    assert other.look("a", turn_of) is None
    assert capsys.readouterr().err == ""  # it may be somebody else's
    job = other.job("a")
    assert job.restore(turn_of) is None
    job.save(snapshot(2))
    assert newest(other, "a") == 2
    capsys.readouterr()
    assert newest(manager, "a") is None


def test_in_another_process_it_is_the_same_folder_and_nothing_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    manager = CheckpointManager(Path("jobs"), 3.0, None, "stamp")
    manager.job("a").finish(snapshot(1))
    there = pickle.loads(pickle.dumps(manager))
    monkeypatch.chdir("/")
    there.flush()
    assert there.jobs() == []
    for turn in range(4):
        there.job("b").save(snapshot(turn))
    assert there.every == 3.0
    assert newest(CheckpointManager(tmp_path / "jobs", stamp="stamp"), "b") == 3
    monkeypatch.chdir(tmp_path)
    manager.flush()
    assert manager.jobs() == ["a", "b"]
