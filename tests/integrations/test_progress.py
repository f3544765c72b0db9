"""What a run tells of its progress where there is no terminal."""

from __future__ import annotations

import pytest

from srgdqn.config.configure import configure
from srgdqn.integrations import progress
from srgdqn.training.rounds import Progress


@pytest.mark.parametrize("lines", [True, False])
def test_where_there_is_no_terminal_a_line_comes_every_minute(
    lines: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 1_000.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    with progress.reporting(configure("CartPole", "dqn-adam", rounds=2), lines=lines) as listener:
        for tenth in range(1, 11):
            now += 25
            listener(Progress(tenth / 10, 500, 0.25, diverged=int(tenth > 5)))
    told = capsys.readouterr().err.splitlines()
    expected = [
        "CartPole · dqn-adam · 2 rounds: 30%, 20 steps/s, reward 0.250",
        "CartPole · dqn-adam · 2 rounds: 60%, 20 steps/s, reward 0.250 · 1 diverged",
        "CartPole · dqn-adam · 2 rounds: 90%, 20 steps/s, reward 0.250 · 1 diverged",
    ]
    assert told == (expected if lines else [])


def test_whoever_wants_it_quiet_has_no_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.reporting(configure("CartPole", "dqn-adam"), False, lines=True) as listener:
        listener(Progress(0.5, 500, 0.25, 0))
    assert capsys.readouterr().err == ""
