"""Journals of checkpoints: what was saved last is what is restored, whatever was written, damaged or refused since."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from srgdqn.errors import InputError
from srgdqn.runs import destination
from srgdqn.runs.checkpoints import Checkpoint, CheckpointFolder, Snapshot, Stream
from srgdqn.runs.tensors import Form, seal

CHECKPOINT, PIECE = Form("checkpoint", "srgdqn-checkpoint", 4), Form("piece", "srgdqn-piece", 1)


class Line(NamedTuple):
    """A stream as the tests know it: its rows tell whose they are."""

    first: int
    stop: int
    group: str = "rows"
    life: int = 0  # counted up where the same name stands for another stream


State = dict[str, Line]


def row_numbers(line: Line, start: int, stop: int) -> np.ndarray:
    return np.arange(start, stop) * 1_000 + line.life


def stream(line: Line) -> Stream:
    def read(start: int, stop: int) -> dict[str, np.ndarray]:
        numbers = row_numbers(line, start, stop)
        return {"number": numbers, "pair": np.stack([numbers, -numbers], axis=1).astype(np.float32)}

    return Stream(line.first, line.stop, read, line.group)


def snapshot(state: State, turn: int) -> Snapshot:
    tensors = {"turn": np.array(turn), "weights": np.full((2, 3), turn, np.float32)}
    return Snapshot({"turn": turn}, tensors, {name: stream(line) for name, line in state.items()})


def build(checkpoint: Checkpoint) -> tuple[int, dict[str, tuple[int, int, list[int]]]]:
    """Which snapshot it is of, and the rows of every stream, checked against each other."""
    turn = checkpoint.about["turn"]
    assert checkpoint.tensors["turn"].tolist() == turn
    assert checkpoint.tensors["weights"].tolist() == [[turn] * 3] * 2
    rows: dict[str, list[int]] = {name: [] for name in checkpoint.spans}
    for name, start, columns in checkpoint.rows():
        assert start == checkpoint.spans[name][0] + len(rows[name])
        assert columns["pair"].tolist() == [[number, -number] for number in columns["number"].tolist()]
        rows[name] += columns["number"].tolist()
    return turn, {name: (*span, rows[name]) for name, span in checkpoint.spans.items()}


def expected(state: State, turn: int) -> Any:
    return turn, {
        name: (line.first, line.stop, row_numbers(line, line.first, line.stop).tolist()) for name, line in state.items()
    }


def refused(text: str) -> None:
    raise AssertionError(text)


class Disk:
    """Writes of half a file and then nothing more, from some write on, until it has room again."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.left: int | None = None
        write = destination._write

        def limited(path: Path, data: bytes) -> None:
            if self.left is not None:
                self.left -= 1
                if self.left < 0:
                    path.write_bytes(data[: len(data) // 2])
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            write(path, data)

        patched.setattr(destination, "_write", limited)


class Journals(RuleBasedStateMachine):
    """Streams that grow, pass, come and go; saves that work and saves that fail; processes that end; damaged files."""

    names = st.sampled_from(["a", "b", "c.1", "c.2"])

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp()) / "job"
        self.patched = pytest.MonkeyPatch()
        self.patched.setattr(os, "fsync", lambda handle: None)
        self.disk = Disk(self.patched)
        self.keep: int | None = 2
        self.journal = CheckpointFolder(self.folder, self.keep)
        self.state: State = {}
        self.turn, self.lives = 0, 0
        self.saved: dict[int, tuple[State, int]] = {}  # by number, of those that are to be there
        self.newest = 0
        self.clean = True  # nothing but what is needed is there

    def teardown(self) -> None:
        self.patched.undo()
        shutil.rmtree(self.folder.parent)

    @rule(name=names, group=st.sampled_from(["rows", "replay"]), first=st.integers(0, 3), rows=st.integers(0, 4))
    def begin(self, name: str, group: str, first: int, rows: int) -> None:
        """A name may come back once it is known that its first stream is gone."""
        known = self.saved[max(self.saved)][0] if self.saved else {}
        if name not in self.state and name not in known:
            self.lives += 1
            self.state[name] = Line(first, first + rows, group, self.lives)

    @rule(name=names, rows=st.integers(1, 6), passed=st.integers(0, 12))
    def grow(self, name: str, rows: int, passed: int) -> None:
        if name in self.state:
            line = self.state[name]
            stop = line.stop + rows
            self.state[name] = line._replace(stop=stop, first=min(line.first + passed, stop))

    @rule(name=names)
    def end(self, name: str) -> None:
        self.state.pop(name, None)

    @rule(most=st.sampled_from([1, 40, 70, 2**27]))
    def save(self, most: int = 2**27) -> None:
        """In pieces of at most so many bytes of rows; one takes 16."""
        self.patched.setattr("srgdqn.runs.checkpoints._MOST_BYTES", most)
        self.turn += 1
        before = set(self.files())
        written = self.journal.save(snapshot(self.state, self.turn))
        new = set(self.files()) - before
        assert written == sum((self.folder / name).stat().st_size for name in new)
        [number] = [int(name.split(".")[0]) for name in new if name.endswith(".checkpoint")]
        assert number > self.newest  # numbers go on, whatever happened
        self.newest = number
        self.saved[number] = dict(self.state), self.turn
        if self.keep is not None:
            self.saved = dict(sorted(self.saved.items())[-self.keep :])
        self.clean = True

    @rule(after=st.integers(0, 2))
    def save_on_a_full_disk(self, after: int) -> None:
        before, self.disk.left = self.journal.numbers(), after
        try:
            self.save()
        except InputError:
            assert self.journal.numbers() == before
            self.clean = False
        finally:
            self.disk.left = None

    @rule(keep=st.sampled_from([1, 2, 3, None]))
    def another_process(self, keep: int | None) -> None:
        self.keep = keep
        self.journal = CheckpointFolder(self.folder, keep)
        found = self.journal.restore(build, refused)
        if not self.saved:
            assert found is None
            self.state = {}
            return
        newest = self.saved[max(self.saved)]
        assert found == expected(*newest)
        self.state = dict(newest[0])

    @precondition(lambda self: self.saved)
    @rule(
        which=st.integers(0),
        place=st.integers(0),
        mask=st.integers(1, 255),
        how=st.sampled_from(["flip", "cut", "remove", "empty"]),
    )
    def damage(self, which: int, place: int, mask: int, how: str) -> None:
        """Of a copy, which goes on by itself."""
        folder = self.folder.with_name("copy")
        shutil.copytree(self.folder, folder)
        files = self.files()
        path = folder / files[which % len(files)]
        data = bytearray(path.read_bytes())
        if how == "flip":
            data[place % len(data)] ^= mask
        if how == "remove":
            path.unlink()
        else:
            path.write_bytes({"flip": data, "cut": data[: place % len(data)], "empty": b""}[how])
        told: list[str] = []
        journal = CheckpointFolder(folder, self.keep)
        found = journal.restore(build, told.append)
        there = [number for number in sorted(self.saved, reverse=True) if number in journal.numbers()]
        assert all("cannot be used: " in text for text in told)
        state: State = {}
        if found is None:
            assert len(told) == len(there)
        else:  # the newest of which nothing was told
            state, turn = self.saved[there[len(told)]]
            assert found == expected(state, turn)
        # And from there it goes on.
        grown = {name: line._replace(stop=line.stop + 2) for name, line in state.items()}
        journal.save(snapshot(grown, -1))
        assert CheckpointFolder(folder).restore(build, refused) == expected(grown, -1)
        shutil.rmtree(folder)

    @invariant()
    def only_what_is_needed_is_there(self) -> None:
        assert set(self.saved) <= set(self.journal.numbers())
        if self.clean and self.folder.exists():
            assert self.journal.numbers() == sorted(self.saved)
            needed = {f"{number:06d}.checkpoint" for number in self.saved}
            for number in self.saved:
                needed |= {piece.name for piece in self.journal.open(number).pieces}
            assert set(self.files()) == needed

    def files(self) -> list[str]:
        return sorted(os.listdir(self.folder)) if self.folder.exists() else []


TestJournals = Journals.TestCase
TestJournals.settings = settings(max_examples=40, stateful_step_count=25)


# Two checkpoints of two groups, of which the second needs a piece of each from the first.

FIRST: State = {"a": Line(0, 3), "b": Line(0, 4, "replay")}
SECOND: State = {"a": Line(0, 5), "b": Line(3, 8, "replay")}


@pytest.fixture
def two(tmp_path: Path) -> Path:
    journal = CheckpointFolder(tmp_path)
    journal.save(snapshot(FIRST, 1))
    journal.save(snapshot(SECOND, 2))
    return tmp_path


def restored(folder: Path) -> tuple[Any, list[str]]:
    told: list[str] = []
    return CheckpointFolder(folder).restore(build, told.append), told


def test_a_piece_of_another_checkpoint_is_not_taken_for_ones_own(two: Path, tmp_path_factory: Any) -> None:
    """It is whole in itself, has the right name and as many rows, and is another one all the same."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    journal = CheckpointFolder(elsewhere)
    journal.save(snapshot({"a": Line(0, 3, life=1)}, 1))
    shutil.copy(elsewhere / "000001.rows.piece", two / "000001.rows.piece")
    found, told = restored(two)
    assert found is None
    assert all("000001.rows.piece is another piece than it needs" in text for text in told)


def test_files_of_others_are_left_alone(two: Path) -> None:
    others = ["notes.txt", "12.checkpoint", "000001.piece", "000001.ROWS.piece", ".lock"]
    for name in others:
        (two / name).write_text("mine")
    journal = CheckpointFolder(two, keep=1)
    assert journal.restore(build, refused) == expected(SECOND, 2)
    journal.save(snapshot({}, 3))
    assert sorted(os.listdir(two)) == sorted([*others, "000003.checkpoint"])


def test_a_row_is_written_once(tmp_path: Path) -> None:
    reads: list[tuple[int, int]] = []

    def read(start: int, stop: int) -> dict[str, np.ndarray]:
        reads.append((start, stop))
        return {"number": np.arange(start, stop)}

    journal = CheckpointFolder(tmp_path)
    for first, stop in ((0, 4), (2, 9), (3, 9), (20, 30)):
        journal.save(Snapshot({}, {}, {"a": Stream(first, stop, read)}))
    assert reads[1::2] == [(0, 4), (4, 9), (20, 30)]  # each after one row, to know what that takes
    again = CheckpointFolder(tmp_path)
    again.restore(lambda checkpoint: list(checkpoint.rows()), refused)
    again.save(Snapshot({}, {}, {"a": Stream(25, 31, read)}))
    assert reads[6:] == [(30, 31)] * 2


def test_much_is_shared_out_to_several_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srgdqn.runs.checkpoints._MOST_BYTES", 16 * 10)
    reads: list[int] = []

    def counted(line: Line) -> Stream:
        whole = stream(line)

        def read(start: int, stop: int) -> dict[str, np.ndarray]:
            reads.append(stop - start)
            return whole.read(start, stop)

        return whole._replace(read=read)

    state = {"a": Line(0, 34), "b": Line(5, 12)}
    taken = snapshot(state, 1)
    CheckpointFolder(tmp_path).save(taken._replace(streams={name: counted(line) for name, line in state.items()}))
    assert max(reads) == 10
    assert sum(reads) == 34 + 7 + 2  # and one of each, to know what a row takes
    parts = ["", ".1", ".2", ".3", ".4"]
    assert sorted(path.name for path in tmp_path.glob("*.piece")) == sorted(f"000001.rows{p}.piece" for p in parts)
    assert restored(tmp_path) == (expected(state, 1), [])


def test_what_cannot_be_built_on_is_told_and_the_one_before_is_tried(two: Path) -> None:
    tried: list[int] = []

    def picky(checkpoint: Checkpoint) -> int:
        tried.append(checkpoint.about["turn"])
        if checkpoint.about["turn"] == 2:
            raise InputError("not for me")
        return 7

    told: list[str] = []
    assert CheckpointFolder(two).restore(picky, told.append) == 7
    assert tried == [2, 1]
    assert told == [f"the checkpoint {two / '000002.checkpoint'} cannot be used: not for me"]


# A disk that refuses


def test_a_save_that_fails_leaves_the_last_one_and_the_next_works(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grown = {"a": Line(0, 9), "b": Line(7, 12, "replay")}
    journal, disk = CheckpointFolder(two), Disk(monkeypatch)
    assert journal.restore(build, refused) == expected(SECOND, 2)
    disk.left = 1
    with pytest.raises(InputError, match=r"could not be written \(No space left on device\)"):
        journal.save(snapshot(grown, 3))
    disk.left = None
    assert restored(two) == (expected(SECOND, 2), [])
    assert not list(two.glob(".srgdqn-*"))  # nor is half a file left
    journal.save(snapshot(grown, 3))
    assert restored(two) == (expected(grown, 3), [])


# What a stranger sealed: the digests are right, and it is none of ours


def pieces_of(
    *spans: tuple[int, int], group: Any = "rows", number: Any = 1, part: Any = 0
) -> Callable[[str], list[Any]]:
    return lambda digest: [[number, group, part, digest, {"a": span}] for span in spans]


@pytest.mark.parametrize(
    ("streams", "pieces", "rows", "why"),
    [
        ({"a": (0, 4)}, pieces_of((0, 4)), np.arange(3), "not where they belong"),
        ({"a": (0, 4)}, pieces_of((1, 4)), np.arange(3), "not where they belong"),
        ({"a": (0, 4)}, pieces_of((0, 3)), np.arange(3), "in no piece"),
        ({"a": (0, 4)}, pieces_of((0, 2), (2, 4)), np.arange(4), "a piece that stands twice"),
        ({"a": (4, 8)}, pieces_of((0, 4)), np.arange(4), "a piece that has nothing it needs"),
        ({}, lambda digest: [[1, "rows", 0, digest, {}]], np.arange(4), "a piece that has nothing it needs"),
        ({"a": (0, 4), "b": (0, 2)}, pieces_of((0, 4)), np.arange(4), "in no piece"),
        ({"a": (0, 4)}, pieces_of((0, 4)), np.array(4), "not where they belong"),
        ({"b": (0, 4)}, lambda digest: [[1, "rows", 0, digest, {"b": (0, 4)}]], np.arange(4), "not where they belong"),
        ({"a": (-4, 0)}, pieces_of((-4, 0)), np.arange(4), "not that of a checkpoint"),
        ({"a": (0, 10**30)}, pieces_of((0, 4)), np.arange(4), "in no piece"),
        ({"a": (0, float("inf"))}, pieces_of((0, 4)), np.arange(4), "not that of a checkpoint"),
        ([["a", 0, 4]], pieces_of((0, 4)), np.arange(4), "not that of a checkpoint"),
        ({"a": (0, 4)}, pieces_of((0, 4), group="../../etc"), np.arange(4), "no group of streams"),
        ({"a": (0, 4)}, pieces_of((0, 4), number="../1"), np.arange(4), "not that of a checkpoint"),
        ({"a": (0, 4)}, pieces_of((0, 4), number=-1), np.arange(4), "not that of a checkpoint|missing"),
        ({"a": (0, 4)}, pieces_of((0, 4), part=-1), np.arange(4), "missing|is not there|cannot be read"),
        ({"a": (0, 4)}, lambda digest: [[1, "rows"]], np.arange(4), "not that of a checkpoint"),
        ({"a": (0, 4)}, lambda digest: [[1, "rows", 0, "0" * 64, {"a": (0, 4)}]], np.arange(4), "another piece"),
    ],
)
def test_what_contradicts_itself_is_refused(
    streams: Any, pieces: Callable[[str], Any], rows: np.ndarray, why: str, tmp_path: Path
) -> None:
    data, digest = seal(PIECE, {}, {"a|number": rows})
    (tmp_path / "000001.rows.piece").write_bytes(data)
    content = {"about": {}, "streams": streams, "pieces": pieces(digest)}
    (tmp_path / "000001.checkpoint").write_bytes(seal(CHECKPOINT, content, {})[0])
    with pytest.raises(InputError, match=why):
        list(CheckpointFolder(tmp_path).open(1).rows())
    told: list[str] = []
    assert CheckpointFolder(tmp_path).restore(lambda checkpoint: list(checkpoint.rows()), told.append) is None
    assert len(told) == 1


def test_a_checkpoint_of_an_older_release_is_told_as_such(two: Path) -> None:
    content = {"about": {}, "streams": {"a": (0, 4)}, "pieces": [[1, "rows", "0" * 64, {"a": (0, 4)}]]}
    (two / "000003.checkpoint").write_bytes(seal(CHECKPOINT._replace(version=1), content, {})[0])
    found, told = restored(two)
    assert found == expected(SECOND, 2)
    assert "an older srgdqn wrote it: it has version 1 of the format, and this one reads from version 4 on" in told[0]
