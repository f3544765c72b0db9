"""`srgdqn watch`, beside a real run in another process, through a terminal, and afterwards."""

from __future__ import annotations

import io
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import srgdqn
from command_line import ENDLESS, INTERRUPTIBLE, terminal
from reported import report
from srgdqn.cli import main
from srgdqn.config.configure import configure
from srgdqn.integrations import JsonLines
from srgdqn.integrations.watching import rows_file, rows_for_watching
from srgdqn.runs.unfinished import CheckpointOptions, beside, claimed, has_checkpoints
from synthetic_runs import synthetic


@contextmanager
def training(folder: Path, *words: str) -> Iterator[subprocess.Popen]:
    """A run that takes as long as it is let."""
    long = [*ENDLESS, "--out", str(folder), "--quiet", *words]
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, *long], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_run_is_watched_from_before_its_beginning_to_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "runs" / "a"
    with terminal("watch", str(folder)) as screen, terminal("watch", str(folder)) as other:
        for each in (screen, other):
            each.wait_for(lambda text: "waiting for a run to" in text)
        other.process.send_signal(signal.SIGINT)  # which ends that watching, and nothing else
        assert other.end() == 130
        assert "Traceback" not in other.screen
        assert "interrupted" not in other.screen
        with training(folder) as run:
            shown = screen.wait_for(lambda text: "steps/s" in text and "left" in text)
            assert "CartPole · dqn-sgd · 2 rounds · 500,000,000 steps" in shown
            assert re.search(
                r"round +step +episodes +ep_rew_mean +ep_len_mean +loss +max_q +ε +diverged +return", shown
            )
            first = [int(step.replace(",", "")) for step in re.findall(r"^0 +([\d,]{4,})", shown, flags=re.M)]
            assert first
            assert re.search(r"[▁▂▃▄▅▆▇█]{3}", shown)

            def is_further(text: str) -> bool:
                steps = re.findall(r"^0 +([\d,]{4,})", text, flags=re.M)
                return int(steps[-1].replace(",", "")) > first[-1]

            screen.wait_for(is_further)
            assert main(["watch", str(folder), "--once"]) == 0
            once = capsys.readouterr().out
            assert "running" in once
            assert "\x1b" not in once
            assert rows_file(folder).exists()
            assert not folder.exists()
            run.send_signal(signal.SIGINT)
            run.wait(60)
            assert run.returncode == 130
        assert screen.end() == 0
        end = screen.screen[screen.screen.rindex("saved") :]
        assert "final reward per action" in end
        assert "interrupted" in end
        assert "Traceback" not in screen.screen
    assert not rows_file(folder).exists()
    steps = srgdqn.load(folder).rounds["steps"][0]
    assert f"{steps:,}" in end
    assert main(["watch", str(folder)]) == 0
    again = capsys.readouterr().out
    assert f"{steps:,}" in again
    assert "final reward per action" in again


def test_a_killed_run_is_told_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "a"
    with training(folder, "--checkpoint-every", "0") as run, terminal("watch", str(folder)) as screen:
        screen.wait_for(lambda text: "steps/s" in text and "left" in text and has_checkpoints(beside(folder)))
        run.kill()
        assert screen.end() == 2
        assert "its process is gone" in screen.screen
        assert "ended without being saved" in " ".join(screen.screen.split())
    assert main(["watch", str(folder), "--once"]) == 2
    once = capsys.readouterr()
    assert "its process is gone" in once.out
    assert not re.search(r"\bleft\b|steps/s", once.out)
    assert once.err.startswith("error: the run to")
    assert once.err.endswith(f"'srgdqn train --out {folder} --resume' (resume=True in Python) resumes it.\n")
    shutil.rmtree(beside(folder))
    assert main(["watch", str(folder), "--once"]) == 2
    assert capsys.readouterr().err.endswith("as far as it was written. Train it again.\n")


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "150")


def test_many_rounds_are_summed_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic(rounds=25, steps=5_000, diverged={3: 2_000, 7: 1_000}).save(tmp_path / "a")
    assert main(["watch", str(tmp_path / "a")]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"lowest +1,000 ", shown)
    assert re.search(r"median +5,000 ", shown)
    assert re.search(r"highest +5,000 ", shown)
    assert re.search(r"all .* 2 of 25 +[▁▂▃▄▅▆▇█]{20}", shown)


@pytest.mark.parametrize("columns", [60, 100])
def test_a_narrow_terminal_has_fewer_columns_and_none_is_cut(
    columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    synthetic(rounds=3, steps=2_000_000, window=100_000).save(tmp_path / "a")
    assert main(["watch", str(tmp_path / "a")]) == 0
    shown = capsys.readouterr().out
    titles, _, *rows = shown.splitlines()[3:8]
    assert ("max_q" in titles) == (columns == 100)
    assert titles.split()[:2] == ["round", "step"]
    assert titles.split()[-1] == "return"
    assert "…" not in shown[: shown.index("ep_rew_mean, ep_len_mean")]
    assert all(re.match(r"[012] +2,000,000 .*[▁▂▃▄▅▆▇█]{8}", row) for row in rows)


def test_a_terminal_of_few_lines_shows_a_summary(tmp_path: Path) -> None:
    rows = JsonLines(tmp_path / "rows.jsonl")
    rows.start(configure("CartPole", "dqn-sgd", rounds=10, steps=5_000), {})
    rows.log([report(number, 1_000 + number, returns=[number]) for number in range(10)])
    rows.close()
    for lines, word in ((18, "median"), (40, "\r\n9 ")):
        with terminal("watch", str(rows.path), rows=lines) as screen:
            assert screen.end() == 0
            assert word in screen.screen
            assert "ended" in screen.screen


def test_diverged_rounds_and_numbers_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "a"
    with claimed(CheckpointOptions(folder)), rows_for_watching(folder) as (rows,):
        rows.start(configure("MountainCar", "srg-dqn", rounds=2, steps=1_600), {})
        assert main(["watch", str(tmp_path / "a")]) == 0
        assert "starting, compiling" in capsys.readouterr().out
        rows.log([report(0, 800, returns=[2.0, 4.0], lengths=[30, 50]), report(1, 400, diverged_at=400)])
        assert main(["watch", str(tmp_path / "a")]) == 0
    shown = capsys.readouterr().out
    assert "MountainCar · srg-dqn · 2 rounds · 1,600 steps" in shown
    assert "75 %" in shown
    first, second = (next(line.split() for line in shown.splitlines() if line.startswith(f"{n} ")) for n in (0, 1))
    assert first[:8] == ["0", "800", "2", "3", "40", "0.25", "2", "0.1"]
    assert second[:9] == ["1", "400", "0", "–", "–", "0.25", "2", "0.1", "400"]


def test_terminals_without_blocks_get_other_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synthetic(rounds=2, steps=20_000).save(tmp_path / "a")
    out = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", out)
    assert main(["watch", str(tmp_path / "a")]) == 0
    shown = out.buffer.getvalue().decode("ascii")  # type: ignore[attr-defined]
    rows = [line for line in shown.splitlines() if re.match(r"[01] +\|20,000", line)]
    assert len(rows) == 2
    assert all(re.search(r"[.:\-=+*#@]{20}", row) for row in rows)


@pytest.mark.parametrize("given", ["a", "rows.jsonl"])
def test_what_is_not_there_cannot_be_looked_at(given: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(tmp_path / given), "--once"]) == 2
    assert capsys.readouterr().err.startswith("error: there is no ")
