"""The real command line, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

# One shape of program for every test that trains: whatever is compiled here is compiled as few times as possible.
TRAIN = ["train", "CartPole", "dqn-sgd", "--rounds", "2", "--lanes", "2", "--evaluation-episodes", "3"]


def command(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs the real command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "srgdqn", *words],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"},
    )
