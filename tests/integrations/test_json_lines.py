"""Rows in a file: written and read while it grows, and the file of rows beside the folder of a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from reported import report
from srgdqn.config.configure import configure
from srgdqn.errors import InputError
from srgdqn.integrations import JsonLines, logging_to
from srgdqn.integrations.watching import LineReader, is_abandoned, rows_file, rows_for_watching
from srgdqn.runs.unfinished import CheckpointOptions, claimed
from srgdqn.training import Progress, train_rounds
from tiny import tiny


def test_each_report_is_on_the_disk_at_once(tmp_path: Path) -> None:
    rows = JsonLines(tmp_path / "rows.jsonl")
    reader = LineReader(rows.path)
    assert reader.read() == []
    rows.start(configure("MountainCar", "srg-dqn", rounds=3, steps=5_000), {"versions": {"jax": "0.1"}})
    (first,) = reader.read() or ()
    assert first.pop("started") > 1.7e9
    assert first == {
        "task": "MountainCar",
        "algorithm": "srg-dqn",
        "readings": "corrected",
        "rounds": 3,
        "budget": {"unit": "steps", "amount": 5_000},
        "about": {"versions": {"jax": "0.1"}},
    }
    rows.log([report(0, 48, returns=[1.0, 3.0], loss=np.nan), report(2, 48, diverged_at=48)])
    a, c = reader.read() or ()
    assert (a["round"], a["step"], a["rollout/ep_rew_mean"], a["train/loss"]) == (0, 48, 2.0, None)
    assert (c["round"], c["diverged_at"], c["rollout/ep_rew_mean"]) == (2, 48, None)
    assert "NaN" not in rows.path.read_text()
    rows.close()
    assert reader.read() == [{"ended": True}]
    assert reader.read() == []


LINES = [{"round": number, "text": "ä\u2028…" * number, "none": None} for number in range(5)]
BYTES = b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in LINES)


@given(st.sets(st.integers(0, len(BYTES))), st.booleans())
def test_torn_lines_are_read_when_they_are_whole(cuts: set[int], torn: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.jsonl")
        reader, read = LineReader(path), []
        edges = sorted(cuts) if torn else [*sorted(cuts), len(BYTES)]
        for edge in edges:
            path.write_bytes(BYTES[:edge])
            read += reader.read() or []
        assert read == LINES[: BYTES[: max(edges, default=0)].count(b"\n")]


def test_what_is_no_row_is_left_out_and_a_new_file_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    reader = LineReader(path)
    assert reader.read() is None
    path.write_bytes(b'{"a": 1}\n{"a": \n[1, 2]\n\xff\n{"a": 2}\n')
    assert reader.read() == [{"a": 1}, {"a": 2}]
    rows = JsonLines(path)  # replaces it
    rows.start(configure("CartPole", "dqn-sgd", episodes=5), {})
    assert [line["task"] for line in reader.read() or ()] == ["CartPole"]
    path.unlink()
    assert reader.read() is None


@pytest.mark.parametrize("place", ["missing/rows.jsonl", "."])
def test_a_place_that_cannot_be_used_is_refused_at_once(place: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be a file"):
        JsonLines(tmp_path / place)


def test_a_removed_file_ends_its_rows_and_not_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configuration, task = tiny(rounds=2, steps=400)
    rows = JsonLines(tmp_path / "rows.jsonl")

    def remove(progress: Progress) -> None:
        rows.path.unlink(missing_ok=True)

    with logging_to(configuration, [rows], remove) as listener:
        trained = train_rounds(configuration, task, listener=listener, segment_blocks=2)
    assert trained.tables["rounds"]["completed"].all()
    assert capsys.readouterr().err.count("warning:") == 1
    assert list(tmp_path.iterdir()) == []


@contextmanager
def rows_of(folder: Path) -> Iterator[JsonLines]:
    """The rows of a run that has begun in a folder."""
    with claimed(CheckpointOptions(folder)), rows_for_watching(folder) as (rows,):
        rows.start(configure("CartPole", "dqn-sgd", episodes=5), {})
        yield rows


def test_rows_are_there_as_long_as_the_run_is(tmp_path: Path) -> None:
    with rows_of(tmp_path / "runs" / "a") as rows:
        assert rows.path == rows_file(tmp_path / "runs" / "a") == tmp_path / "runs" / ".a.live.jsonl"
        rows.log([report()])
        rows.close()  # training is over, but nothing is saved yet
        assert rows.path.exists()
        assert not is_abandoned(tmp_path / "runs" / "a")
    assert not is_abandoned(tmp_path / "runs" / "a")
    assert not rows.path.exists()


@pytest.mark.parametrize("happened", [True, False])
def test_a_run_that_fails_leaves_its_rows_if_there_are_any(happened: bool, tmp_path: Path) -> None:
    def run() -> None:
        with rows_of(tmp_path / "runs" / "a") as rows:
            if happened:
                rows.log([report()])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    if happened:
        assert len(rows_file(tmp_path / "runs" / "a").read_text().splitlines()) == 2
        assert is_abandoned(tmp_path / "runs" / "a")
    else:
        assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from srgdqn.integrations.watching import rows_for_watching
from srgdqn.runs.unfinished import CheckpointOptions, claimed
folder = Path(sys.argv[1])
with claimed(CheckpointOptions(folder)), rows_for_watching(folder):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_rows_of_a_killed_run_are_left_and_replaced_by_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    subprocess.run([sys.executable, "-c", KILLED, str(folder)], timeout=100)
    assert rows_file(folder).exists()
    assert is_abandoned(folder)
    with rows_of(folder):
        assert not is_abandoned(folder)
    assert not rows_file(folder).exists()


def test_without_a_folder_or_a_place_there_are_no_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with rows_for_watching(None) as rows:
        assert rows == []
    os.mkdir(rows_file(tmp_path / "a"))
    with rows_for_watching(tmp_path / "a") as rows:
        assert rows == []
    assert "warning: this run cannot be watched" in capsys.readouterr().err
