"""The real command line, in a process of its own."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

# One shape of program for every test that trains: whatever is compiled here is compiled as few times as possible.
TRAIN = ["train", "CartPole", "dqn-sgd", "--rounds", "2", "--lanes", "2", "--evaluation-episodes", "3"]

# The command line as a program. Where tests run in the background, the interrupt may be ignored from the start: it is
# not to be here.
INTERRUPTIBLE = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from srgdqn.cli import main; sys.exit(main())"
)


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


def written_on(terminal: int) -> Iterator[bytes]:
    """What a process writes on a terminal of its own, of which this is our end, piece by piece."""
    with contextlib.suppress(OSError):  # the terminal is gone once the process is
        while piece := os.read(terminal, 4_096):
            yield piece
