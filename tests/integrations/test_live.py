"""The file beside a run's folder: there while the run is, and gone or abandoned afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reported import report
from srgdqn.config.configure import configure
from srgdqn.integrations.live import is_abandoned, live_file, live_rows


def test_rows_are_there_as_long_as_the_run_is(tmp_path: Path) -> None:
    with live_rows(tmp_path / "runs" / "a") as (rows,):
        assert rows.path == live_file(tmp_path / "runs" / "a") == tmp_path / "runs" / ".a.live.jsonl"
        rows.start(configure("CartPole", "dqn-sgd", episodes=5), {})
        rows.hear([report()])
        rows.close()  # training is over, but nothing is saved yet
        assert rows.path.exists()
        assert not is_abandoned(rows.path)
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize("happened", [True, False])
def test_a_run_that_fails_leaves_its_rows_if_there_are_any(happened: bool, tmp_path: Path) -> None:
    path = live_file(tmp_path / "runs" / "a")

    def run() -> None:
        with live_rows(tmp_path / "runs" / "a") as (rows,):
            rows.start(configure("CartPole", "dqn-sgd", episodes=5), {})
            if happened:
                rows.hear([report()])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    if happened:
        assert len(path.read_text().splitlines()) == 2
        assert is_abandoned(path)
    else:
        assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
from srgdqn.configure import configure
from srgdqn.integrations.live import live_rows
with live_rows(sys.argv[1]) as (rows,):
    rows.start(configure("CartPole", "dqn-sgd", episodes=5), {})
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_rows_of_a_killed_run_are_left_and_replaced_by_the_next(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "a")], timeout=100)
    path = live_file(tmp_path / "a")
    assert "CartPole" in path.read_text()
    assert is_abandoned(path)
    with live_rows(tmp_path / "a"):
        assert path.read_bytes() == b""
        assert not is_abandoned(path)
    assert not path.exists()


def test_a_run_does_not_remove_the_rows_of_a_later_one(tmp_path: Path) -> None:
    with live_rows(tmp_path / "a"):
        later = live_rows(tmp_path / "a")
        with later:
            pass
        live_file(tmp_path / "a").write_text("another's")
    assert live_file(tmp_path / "a").read_text() == "another's"


def test_without_a_folder_or_a_place_there_are_no_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with live_rows(None) as rows:
        assert rows == []
    os.mkdir(live_file(tmp_path / "a"))
    with live_rows(tmp_path / "a") as rows:
        assert rows == []
    assert "warning: this run cannot be watched" in capsys.readouterr().err
