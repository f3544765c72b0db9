"""The real command line in a process and a terminal of its own."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

# One shape of program for every test that trains: whatever is compiled here is compiled as few times as possible.
TRAIN = ["train", "CartPole", "dqn-sgd", "--rounds", "2", "--lanes", "2", "--evaluation-episodes", "3"]
ENDLESS = [*TRAIN, "--steps", "500000000", "--eta", "0"]  # without a step size nothing diverges

# The command line as a program. Where tests run in the background, the interrupt may be ignored from the start: it is
# not to be here.
INTERRUPTIBLE = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from srgdqn.cli import main; sys.exit(main())"
)


def words_of(capsys: pytest.CaptureFixture[str]) -> str:
    """What was printed, without line breaks."""
    return " ".join(capsys.readouterr().out.split())


class Terminal:
    """A command in a terminal of its own, and all that it has written there."""

    def __init__(self, *words: str, columns: int, rows: int, plain: bool) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        hidden = ("COLUMNS", "LINES", "NO_COLOR")
        environment = {name: value for name, value in os.environ.items() if name not in hidden}
        self.process = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTIBLE, *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**environment, "TERM": "xterm-256color", **({"NO_COLOR": "1"} if plain else {})},
        )
        os.close(slave)
        self.written = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with suppress(OSError):  # the terminal is gone once the process is
            while piece := os.read(self._master, 4_096):
                self.written.extend(piece)

    @property
    def screen(self) -> str:
        """Everything written, without what moves the cursor."""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.written.decode(errors="replace"))

    def wait_for(self, seen: Callable[[str], object]) -> str:
        deadline = time.monotonic() + 200
        while not seen(self.screen):
            assert time.monotonic() < deadline, self.screen
            assert self.process.poll() is None or seen(self.screen), self.screen
            time.sleep(0.05)
        return self.screen

    def end(self) -> int:
        code = self.process.wait(100)
        self._reader.join(10)
        return code

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(10)
        os.close(self._master)


@contextmanager
def terminal(*words: str, columns: int = 150, rows: int = 40, plain: bool = True) -> Iterator[Terminal]:
    opened = Terminal(*words, columns=columns, rows=rows, plain=plain)
    try:
        yield opened
    finally:
        opened.close()
